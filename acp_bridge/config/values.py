"""From the text of an option or a variable to its value.

Each reader takes the text (never empty) and raises ``ValueError`` with a clause that completes
"NAME ..." and does not repeat the text: it may be a secret.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from urllib.parse import urlsplit

LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
PROVENANCE = ("off", "meta", "meta+receipt")
LOG_FORMATS = ("console", "json")
LEDGERS = ("file", "memory")
ON_EXIT = ("detach", "cancel")
FOREIGN_TURNS = ("show", "hide")
GATEWAY_KINDS = ("auto", "openclaw", "acp")
KEYRING = ("token", "password")
TOKEN_PLACES = ("header", "subprotocol", "query")
PROXY_AUTO = "auto"
PROXY_NONE = "none"
PROXY_SCHEMES = ("http", "https", "socks5h", "socks5", "socks4a", "socks4")

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_MAX_SECONDS = 86_400.0
_MAX_RATE = 1_000_000
_MAX_COUNT = 1_000_000_000
_MAX_SIZE = 1 << 40
_MIN_SIZE = 1024


def line(text: str) -> str:
    """One line of valid text, without blanks around it."""
    text = text.strip()
    if not text.isprintable():
        raise ValueError("holds characters that cannot be shown, or is not valid UTF-8")
    return text


def secret(text: str) -> str:
    """A credential; the newline that a shell or a file put behind it is dropped."""
    text = text.strip("\r\n")
    if not text.isprintable():
        raise ValueError("holds characters that no credential has, or is not valid UTF-8")
    return text


def switch(text: str) -> bool:
    """Yes or no."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("is neither true nor false")


def log_level(text: str) -> str:
    """A log level's name, in small letters."""
    return _one_of(text, LOG_LEVELS)


def log_format(text: str) -> str:
    """How log lines look."""
    return _one_of(text, LOG_FORMATS)


def provenance(text: str) -> str:
    """What the gateway is told about a prompt's origin."""
    return _one_of(text, PROVENANCE)


def ledger(text: str) -> str:
    """Where the ledger is kept."""
    return _one_of(text, LEDGERS)


def on_exit(text: str) -> str:
    """What becomes of running turns when the editor leaves."""
    return _one_of(text, ON_EXIT)


def foreign_turns(text: str) -> str:
    """Whether the turns of other clients are shown."""
    return _one_of(text, FOREIGN_TURNS)


def gateway_kind(text: str) -> str:
    """What the gateway speaks."""
    return _one_of(text, GATEWAY_KINDS)


def token_via(text: str) -> str:
    """Where a token goes at the upgrade to a WebSocket."""
    return _one_of(text, TOKEN_PLACES)


def keyring(text: str) -> str:
    """What the keyring holds."""
    return _one_of(text, KEYRING)


def command(text: str) -> tuple[str, ...]:
    """A program and its arguments, split as a shell splits words; nothing else of a shell."""
    import shlex  # few need it

    try:
        words = tuple(shlex.split(line(text)))
    except ValueError:
        raise ValueError("has a quote that is not closed, or cannot be shown") from None
    if not words:
        raise ValueError("names no program")
    return words


def count(text: str) -> int:
    """A whole number from 1."""
    return _whole(text, 1, _MAX_COUNT)


def size(text: str) -> int:
    """A number of bytes; less than a kilobyte holds nothing."""
    return _whole(text, _MIN_SIZE, _MAX_SIZE)


def _whole(text: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ValueError(f"is not a whole number from {least} to {most}")
    return number


def _one_of(text: str, words: tuple[str, ...]) -> str:
    word = text.strip().lower()
    if word not in words:
        raise ValueError(f"is none of {', '.join(words)}")
    return word


def seconds(text: str) -> float:
    """A duration above zero, at most a day."""
    value = _number(text)
    if not 0 < value <= _MAX_SECONDS:  # false for nan as well
        raise ValueError(f"is not a number of seconds above 0 and up to {_MAX_SECONDS:.0f}")
    return value


def seconds_or_none(text: str) -> float:
    """A duration of at most a day; 0 stands for no bound."""
    value = _number(text)
    if not 0 <= value <= _MAX_SECONDS:
        raise ValueError(f"is not a number of seconds, 0 or more and up to {_MAX_SECONDS:.0f}")
    return abs(value)  # of two zeros the usual one


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def rate(text: str) -> tuple[int, float]:
    """``N/S``: at most N in S seconds."""
    count, _, period = text.partition("/")
    try:
        number = int(count)
    except ValueError:
        number = 0
    if not 0 < number <= _MAX_RATE:
        raise ValueError("is not of the form N/S, as 120/10 for 120 in 10 seconds")
    return number, seconds(period)


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(name for part in line(text).split(",") if (name := part.strip()))
    if not found:
        raise ValueError("names nothing")
    return found


def path(text: str) -> Path:
    """An absolute path. ``~`` is the home directory, since editors do not expand it."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("begins with ~, but there is no home directory") from None
    except OSError:
        raise ValueError("is relative, but the working directory is gone") from None


def fingerprint(text: str) -> str:
    """A SHA-256 as 64 small hexadecimal digits; also with colons, and as ``openssl`` prints it."""
    _, _, digits = text.strip().rpartition("=")
    digits = re.sub(r"^sha-?256:|[\s:-]", "", digits, flags=re.IGNORECASE).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", digits):
        raise ValueError("is no SHA-256 fingerprint, which has 64 hexadecimal digits")
    return digits


def proxy(text: str) -> str:
    """``auto``, ``none`` or the URL of a proxy."""
    text = line(text)
    if text.lower() in (PROXY_AUTO, PROXY_NONE):
        return text.lower()
    try:
        parts = urlsplit(text)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or parts.scheme not in PROXY_SCHEMES:
        raise ValueError(f"is no URL of a proxy ({', '.join(PROXY_SCHEMES)})")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("has something behind its host and port")
    if parts.username is not None and parts.password is None:
        raise ValueError("has a user name without a password")
    return text

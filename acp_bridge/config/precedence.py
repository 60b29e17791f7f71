"""Which credentials count: those of one place, and never at another gateway than theirs.

A place is the command line, the environment or the profile. The strongest one that gives any
credential is used alone. Credentials that were stored for one gateway stay at home: if a stronger
place names another gateway than the one that they would have gone to, they are left out. So is the
file of headers, by itself: its values are credentials mostly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from acp_bridge.config.option import DEFAULT, ENV_PREFIX
from acp_bridge.errors import ConfigError
from acp_bridge.gateway.origins import origin_of

FLAG, VARIABLE, PROFILE, NOWHERE = range(4)
"""The places, strongest first."""

_KINDS: Final = ("token", "password")
_FIELDS: Final = (
    *(f"{kind}{way}" for kind in _KINDS for way in ("", "_file", "_command")),
    "keyring",
)
_HEADERS: Final = "header_file"


class Urls(NamedTuple):
    """The gateway's URL as each place gives it, by the strength of the place."""

    by_place: Mapping[int, str]

    def effective(self, weakest: int) -> tuple[str, int]:
        """The URL of the strongest place from ``weakest`` on."""
        return next(
            (self.by_place[place], place)
            for place in range(weakest, NOWHERE + 1)
            if place in self.by_place
        )


def place_of(source: str) -> int:
    """The place that ``source`` names."""
    if source == DEFAULT:
        return NOWHERE
    if source.startswith("-"):
        return FLAG
    return VARIABLE if source.startswith(ENV_PREFIX) else PROFILE


class Choice(NamedTuple):
    """What became of the credentials that do not count."""

    withheld: str | None = None
    """A sentence about what was left out for the sake of its gateway, if anything was."""
    unused: tuple[str, ...] = ()
    """The values among them: they are secrets nevertheless."""


def choose_credentials(given: dict[str, Any], sources: dict[str, str], urls: Urls) -> Choice:
    """Leave in ``given`` and ``sources`` what counts.

    Raises ``ConfigError`` for two ways to one credential in the same place.
    """
    values = [given[kind] for kind in _KINDS]
    notes = [
        _choose_told(given, sources, urls),
        _keep_at_home((_HEADERS,), given, sources, urls),
    ]
    left = {given[kind] for kind in _KINDS}
    return Choice(
        " ".join(filter(None, notes)) or None,
        tuple(value for value in values if value and value not in left),
    )


def _choose_told(given: dict[str, Any], sources: dict[str, str], urls: Urls) -> str | None:
    told = [name for name in _FIELDS if given[name] is not None]
    if not told:
        return None
    strongest = min(place_of(sources[name]) for name in told)
    for name in told:
        if place_of(sources[name]) > strongest:
            _drop(name, given, sources)
    for kind in _KINDS:
        _refuse_two(kind, given, sources)
    # What the keyring has it has by the gateway's name.
    return _keep_at_home([name for name in _FIELDS if name != "keyring"], given, sources, urls)


def _refuse_two(kind: str, given: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    fields = [kind, f"{kind}_file", f"{kind}_command"]
    if given["keyring"] == kind:
        fields.append("keyring")
    names = [sources[name] for name in fields if given[name] is not None]
    if len(names) > 1:
        raise ConfigError(
            f"{' and '.join(names)} are both set",
            hint="Keep one of them; a file or a command is safer than the value itself.",
            data={"field": kind, "source": names[0]},
        )


def _keep_at_home(
    fields: Sequence[str], given: dict[str, Any], sources: dict[str, str], urls: Urls
) -> str | None:
    """Leave out those of ``fields``, all of one place, that are for another gateway; a sentence
    about them."""
    names = [name for name in fields if given[name] is not None]
    if not names:
        return None
    place = place_of(sources[names[0]])
    url, url_place = urls.effective(FLAG)
    home, home_place = urls.effective(place)
    is_bound = place == PROFILE or home_place != NOWHERE
    if url_place >= place or not is_bound or origin_of(url) == origin_of(home):
        return None
    left_out = " and ".join(sources[name] for name in names)
    for name in names:
        _drop(name, given, sources)
    other = sources["gateway_url"]
    return (
        f"{left_out} is not used: it is for {origin_of(home)}, and {other} names another gateway."
    )


def _drop(name: str, given: dict[str, Any], sources: dict[str, str]) -> None:
    given[name] = None
    del sources[name]

"""Reads the ledgers of ``openclaw acp``: the SQLite database, and the JSON file of older versions.

Nothing of OpenClaw's is written, locked or left behind: a database is copied together with its
write-ahead log and the copy is opened. Tables of 2026.6.11 and 2026.9.6 have the same columns but
one, which is not needed.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, NamedTuple

from acp.schema import SessionNotification
from pydantic import ValidationError

from acp_bridge.core.replay import STATE
from acp_bridge.errors import ConfigError
from acp_bridge.ids import MAX_ID, Json
from acp_bridge.wire.bounds import is_too_deep
from acp_bridge.wire.content import escape_controls
from ledger import LedgerBusy, LedgerCorrupt, LedgerError, NotALedger, SchemaAhead

DATABASE: Final = Path("state") / "openclaw.sqlite"
JSON_FILE: Final = Path("acp") / "event-ledger.json"

UNREADABLE_EVENTS: Final = "events that cannot be read"
UNREADABLE_SESSIONS: Final = "sessions that cannot be read"

_TABLES: Final = {"acp_replay_sessions", "acp_replay_events"}
_SESSIONS: Final = (
    "SELECT session_id, session_key, cwd, complete, created_at, updated_at"
    " FROM acp_replay_sessions ORDER BY updated_at, session_id"
)
_EVENTS: Final = (
    "SELECT seq, at, run_id, update_json FROM acp_replay_events WHERE session_id = ? ORDER BY seq"
)
_SIDE_FILES: Final = ("-wal", "-journal")
_EXAMPLES: Final = 5
_LONGEST_EXAMPLE: Final = 200
_VERSION: Final = 1
"""Of the JSON file."""
_COPIES: Final = 10
_PAUSE: Final = 0.2

# How OpenClaw itself waits for the lock of its JSON file.
_LOCK_TRIES: Final = 8
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 5.0
_STALE_AFTER: Final = 15.0


class OldEvent(NamedTuple):
    """One update as it was shown. ``at`` is in UTC milliseconds."""

    seq: int
    at: int
    run_id: str | None
    update: Json


class OldSession(NamedTuple):
    """One session with its events, oldest first."""

    session_id: str
    session_key: str
    cwd: str
    complete: bool
    created_at: int
    updated_at: int
    events: list[OldEvent]


class Skipped(Counter[str]):
    """What was left out, and how much of it, by the words that say why."""

    def __init__(self) -> None:
        super().__init__()
        self._examples: dict[str, list[str]] = {}

    def note(self, what: str, example: str, count: int = 1) -> None:
        """Count, and keep the first few examples to be told by."""
        self[what] += count
        examples = self._examples.setdefault(what, [])
        if len(examples) < _EXAMPLES:
            examples.append(escape_controls(example[:_LONGEST_EXAMPLE]))

    def lines(self) -> Iterator[str]:
        """What was left out, for people."""
        for what, count in sorted(self.items()):
            examples = "; ".join(self._examples.get(what, ()))
            if count:
                yield f"{count:,} {what}{f', such as {examples}' if examples else ''}"


def find_ledgers(path: Path | None, environ: Mapping[str, str]) -> list[Path]:
    """The files to read: ``path`` itself, or what is in that state directory; without a path, in
    OpenClaw's own (``OPENCLAW_STATE_DIR``, else ``~/.openclaw``). The database comes first.

    Raises ``ConfigError`` if there is none.
    """
    place = path or _state_directory(environ)
    if place.is_file():
        return [place]
    found = [place / name for name in (DATABASE, JSON_FILE) if (place / name).is_file()]
    if not found:
        raise ConfigError(
            f"there is no ledger of OpenClaw in {place}",
            hint="Name its state directory, or the file: acp-bridge ledger import-openclaw PATH",
        )
    return found


def read_ledger(
    path: Path, skipped: Skipped, *, sleep: Callable[[float], None] = time.sleep
) -> Iterator[OldSession]:
    """The sessions of one file, least recently updated first.

    Raises ``LedgerError``: ``NotALedger`` for another kind of file, ``LedgerCorrupt`` for damage,
    ``SchemaAhead`` for a newer version, ``LedgerBusy`` if OpenClaw does not stop writing.
    """
    try:
        with path.open("rb") as file:
            is_database = file.read(16) == b"SQLite format 3\0"
        if is_database:
            yield from _read_database(path, skipped, sleep)
        else:
            yield from _read_json(path, skipped, sleep)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror or error}.") from error


def _state_directory(environ: Mapping[str, str]) -> Path:
    try:
        return Path(environ.get("OPENCLAW_STATE_DIR") or "~/.openclaw").expanduser().absolute()
    except RuntimeError:
        raise ConfigError(
            "there is no home directory to look for OpenClaw's ledger",
            hint="Name its state directory: acp-bridge ledger import-openclaw PATH",
        ) from None


# --- the database ----------------------------------------------------------------------------


def _read_database(
    path: Path, skipped: Skipped, sleep: Callable[[float], None]
) -> Iterator[OldSession]:
    try:
        with _copy_of(path, sleep) as copy, closing(sqlite3.connect(copy)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            found = {name for (name,) in connection.execute(_TABLE_NAMES)}
            if not found.issuperset(_TABLES):
                raise NotALedger(
                    f"{path} has no sessions of an ACP bridge.",
                    hint="openclaw acp has not recorded anything there.",
                )
            for row in connection.execute(_SESSIONS):
                rows = connection.execute(_EVENTS, (row[0],))
                events = [(seq, at, run_id, _parsed(text)) for seq, at, run_id, text in rows]
                session = _session(row, events, skipped)
                if session is not None:
                    yield session
    except sqlite3.DatabaseError as error:
        raise LedgerCorrupt(
            f"OpenClaw's ledger {path} is damaged: {error}.",
            hint="openclaw doctor may mend it.",
        ) from error


_TABLE_NAMES: Final = "SELECT name FROM sqlite_master WHERE type = 'table'"


@contextmanager
def _copy_of(path: Path, sleep: Callable[[float], None]) -> Iterator[Path]:
    """A private copy of a database that nobody wrote to while it was copied."""
    with tempfile.TemporaryDirectory(prefix="acp-bridge-import-") as directory:
        copy = Path(directory) / "copy.sqlite"
        for _ in range(_COPIES):
            before = _marks(path)
            for ending in ("", *_SIDE_FILES):
                _copy_file(path.with_name(path.name + ending), copy.with_name(copy.name + ending))
            if _marks(path) == before:
                break
            sleep(_PAUSE)
        else:
            raise LedgerBusy(
                f"OpenClaw does not stop to write to {path}.",
                hint="Try again when its gateway and bridges are idle, or stop them.",
            )
        yield copy


def _copy_file(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    if source.exists():
        shutil.copyfile(source, target)


def _marks(path: Path) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for ending in ("", *_SIDE_FILES):
        try:
            status = path.with_name(path.name + ending).stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return found


# --- the JSON file ---------------------------------------------------------------------------


def _read_json(
    path: Path, skipped: Skipped, sleep: Callable[[float], None]
) -> Iterator[OldSession]:
    _wait_for_lock(path, sleep)
    content = _parsed(path.read_text("utf-8", "replace"))
    sessions = content.get("sessions") if content is not None else None
    version = content.get("version") if content is not None else None
    if isinstance(version, int) and version > _VERSION:
        raise SchemaAhead(
            f"OpenClaw's ledger {path} has version {version}, and this acp-bridge reads version"
            f" {_VERSION}.",
            hint="Use a newer acp-bridge.",
        )
    if version != _VERSION or not isinstance(sessions, dict):
        raise NotALedger(
            f"{path} is no ledger of OpenClaw, or a damaged one.",
            hint="Name OpenClaw's state directory, or one of its files: "
            f"{DATABASE.name}, {JSON_FILE.name}.",
        )
    read = []
    for name, item in sessions.items():
        session = _session_of_json(name, item, skipped)
        if session is not None:
            read.append(session)
    yield from sorted(read, key=lambda session: (session.updated_at, session.session_id))


def _wait_for_lock(path: Path, sleep: Callable[[float], None]) -> None:
    lock = path.with_name(path.name + ".lock")
    wait = _FIRST_WAIT
    for _ in range(_LOCK_TRIES):
        if not _is_locked(lock):
            return
        sleep(wait * (1 + random.random()))  # noqa: S311 - only keeps two processes apart
        wait = min(wait * 2, _LONGEST_WAIT)
    if _is_locked(lock):
        raise LedgerBusy(
            f"OpenClaw keeps {path} locked.",
            hint=f"Try again; if no openclaw runs any more, remove {lock}.",
        )


def _is_locked(lock: Path) -> bool:
    try:
        modified = lock.stat().st_mtime
    except FileNotFoundError:
        return False
    return time.time_ns() / 1e9 - modified < _STALE_AFTER


def _session_of_json(name: str, item: Any, skipped: Skipped) -> OldSession | None:
    if not isinstance(item, dict):
        skipped.note(UNREADABLE_SESSIONS, _example(name, "it is no object"))
        return None
    if item.get("sessionId") != name:
        skipped.note(UNREADABLE_SESSIONS, _example(name, "it has another id inside"))
        return None
    events = item.get("events")
    if not isinstance(events, list):
        skipped.note(UNREADABLE_SESSIONS, _example(name, "its events are no list"))
        return None
    rows = [
        (each.get("seq"), each.get("at"), each.get("runId"), each.get("update"))
        if isinstance(each, dict)
        else (None, None, None, None)
        for each in events
    ]
    names = ("sessionKey", "cwd", "complete", "createdAt", "updatedAt")
    return _session((name, *(item.get(each) for each in names)), rows, skipped)


# --- both ------------------------------------------------------------------------------------


def _parsed(text: Any) -> Json | None:
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    return value if isinstance(value, dict) and not is_too_deep(value, raw) else None


def _session(
    values: tuple[Any, ...], rows: list[tuple[Any, Any, Any, Any]], skipped: Skipped
) -> OldSession | None:
    session_id, session_key, cwd, complete, created_at, updated_at = values
    if why := _fault_of(session_id, session_key, cwd, (created_at, updated_at)):
        skipped.note(UNREADABLE_SESSIONS, _example(session_id, why))
        return None
    events = [event for row in rows if (event := _event(*row)) is not None]
    lost = len(rows) - len(events)
    if lost:
        skipped.note(UNREADABLE_EVENTS, f"{lost:,} of {session_id}", lost)
    return OldSession(
        session_id,
        session_key,
        _absolute(cwd),
        complete in (1, True) and not lost,
        created_at,
        updated_at,
        sorted(events, key=lambda event: event.seq),
    )


def _fault_of(session_id: Any, session_key: Any, cwd: Any, times: tuple[Any, Any]) -> str | None:
    """Why the session cannot be taken; None if it can."""
    if not isinstance(session_id, str) or not session_id:
        return "it has no id"
    if len(session_id) > MAX_ID:
        return "its id is too long"
    if not isinstance(session_key, str) or not session_key:
        return "it has no key"
    if not isinstance(cwd, str):
        return "its working directory is no text"
    return None if all(map(_is_count, times)) else "its times are no numbers"


def _example(session_id: Any, why: str) -> str:
    name = session_id if isinstance(session_id, str) and session_id else "one without a name"
    return f"{name[: _LONGEST_EXAMPLE // 2]} ({why})"


def _event(seq: Any, at: Any, run_id: Any, update: Any) -> OldEvent | None:
    if not (_is_count(seq) and _is_count(at) and isinstance(update, dict)):
        return None
    if not _may_be_shown(update):
        return None
    return OldEvent(seq, at, run_id if isinstance(run_id, str) and run_id else None, update)


def _may_be_shown(update: Json) -> bool:
    """Whether an editor can read it. Of what is not shown again only the kind matters."""
    kind = update.get("sessionUpdate")
    if isinstance(kind, str) and kind in STATE:
        return True
    try:
        SessionNotification.model_validate({"sessionId": "any", "update": update})
    except ValidationError:
        return False
    return True


def _absolute(cwd: str) -> str:
    """The working directory; of a session without one, the user's home, as ACP wants it absolute
    (session setup)."""
    is_one = PurePosixPath(cwd).is_absolute() or PureWindowsPath(cwd).is_absolute()
    return cwd if is_one else str(Path.home())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0

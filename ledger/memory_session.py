"""One session of the ledger in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ledger.archive import pack, unpack
from ledger.codec import decode, encode, size
from ledger.merging import plan_merges
from ledger.model import (
    LEASE_MS,
    Entry,
    NewEntry,
    NewSession,
    Replay,
    Run,
    RunClosed,
    RunOpened,
    RunState,
    SessionRecord,
)
from ledger.redaction import Redact
from ledger.retention import ENTRY_OVERHEAD, RUN_OVERHEAD, SESSION_OVERHEAD, Usage

_ENTRY = Entry._fields


class _Kept(NamedTuple):
    """An entry, of which the payload is kept as text."""

    bare: Entry
    text: str

    @property
    def entry(self) -> Entry:
        return self.bare._replace(payload=decode(self.text))

    @property
    def cost(self) -> int:
        """Bytes, as the limits count them."""
        return size(self.text) + ENTRY_OVERHEAD


def _kept(entry: Entry) -> _Kept:
    return _Kept(entry._replace(payload={}), encode(entry.payload))


class MemorySession:
    """A session's record, entries and runs, and what they cost."""

    def __init__(self, new: NewSession, redact: Redact) -> None:
        self.record = SessionRecord(
            session_id=new.session_id,
            session_key=new.session_key,
            cwd=new.cwd,
            title=None,
            complete=new.complete,
            created_at=new.at,
            updated_at=new.at,
            lease_until=new.at + LEASE_MS,
            owner=new.owner or None,
            host=new.host or None,
            gateway=new.gateway,
        )
        self.bytes = SESSION_OVERHEAD
        self._redact = redact
        self._entries: list[_Kept] = []
        self._runs: dict[str, Run] = {}
        self._keys: set[str] = set()
        self._archive: bytes | None = None

    def open_again(self, new: NewSession) -> None:
        """Somebody opens the session that is there."""
        self.change(
            session_key=new.session_key or self.record.session_key,
            cwd=new.cwd or self.record.cwd,
            lease_until=max(self.record.lease_until, new.at + LEASE_MS),
        )

    def change(self, **values: Any) -> None:
        """Replace members of the record."""
        self.record = self.record._replace(**values)

    def touch(self, at: int) -> None:
        """Something of the session changed."""
        self.change(
            updated_at=max(self.record.updated_at, at),
            lease_until=max(self.record.lease_until, at + LEASE_MS),
        )

    def append(self, new: NewEntry, text: str) -> None:
        """Append an entry, unless one with its key is there; ``text`` is its encoded payload."""
        self.touch(new.at)
        self._unarchive()
        if new.entry_key is not None:
            if new.entry_key in self._keys:
                return
            self._keys.add(new.entry_key)
        values = {name: getattr(new, name) for name in _ENTRY if name != "seq"}
        seq = self.record.trimmed + len(self._entries) + 1
        kept = _Kept(Entry(seq=seq, **{**values, "payload": {}}), text)
        self._entries.append(kept)
        self.bytes += kept.cost
        self.change(entries=len(self._entries))

    def has_run(self, run_id: str) -> bool:
        """Whether the run is one of this session."""
        return run_id in self._runs

    def open_run(self, change: RunOpened, *, is_new: bool) -> None:
        """A run begins."""
        self.touch(change.at)
        self._unarchive()
        if is_new:
            run = Run(change.run_id, change.session_id, RunState.OPEN, change.at)
            self._runs[run.run_id] = run
            self.bytes += RUN_OVERHEAD

    def close_run(self, change: RunClosed) -> None:
        """A run of this session has ended."""
        self.touch(change.at)
        self._unarchive()
        self._runs[change.run_id] = (self._runs[change.run_id])._replace(
            state=change.state,
            closed_at=change.at,
            stop_reason=change.stop_reason,
            error_code=change.error_code,
        )
        self._merge(change.run_id)

    @property
    def has_open_run(self) -> bool:
        """Whether a run has not ended."""
        return any(run.closed_at is None for run in self._runs.values())

    def trim(self, count: int) -> None:
        """Drop the first ``count`` entries, and the runs that ended before the first one left."""
        dropped, self._entries = self._entries[:count], self._entries[count:]
        self.bytes -= _cost(dropped)
        self._keys -= _keys(dropped)
        oldest = min((kept.bare.at for kept in self._entries), default=0)
        for run in list(self._runs.values()):
            if run.closed_at is not None and run.closed_at < oldest:
                del self._runs[run.run_id]
                self.bytes -= RUN_OVERHEAD
        self.change(
            entries=len(self._entries),
            trimmed=self.record.trimmed + len(dropped),
            complete=False,
        )

    def archive(self) -> None:
        """Keep the entries compressed."""
        self._archive = pack(kept.entry._asdict() for kept in self._entries)
        self.bytes += len(self._archive) - _cost(self._entries)
        self._entries, self._keys = [], set()
        self.change(archived=True)

    def replay(self) -> Replay:
        """All of it."""
        if self._archive is not None:
            entries = tuple(Entry(**item) for item in unpack(self._archive))
        else:
            entries = tuple(kept.entry for kept in self._entries)
        return Replay(self.record, entries, tuple(self._runs.values()))

    def usage(self, now: int) -> Usage:
        """What it costs."""
        record = self.record
        return Usage(record.session_id, record.updated_at, self.bytes, record.is_live(now))

    def _unarchive(self) -> None:
        if self._archive is None:
            return
        self._entries = [_kept(entry) for entry in self.replay().entries]
        self._keys = _keys(self._entries)
        self.bytes += _cost(self._entries) - len(self._archive)
        self._archive = None
        self.change(archived=False)

    def _merge(self, run_id: str) -> None:
        entries = self._entries
        before = _cost(entries)
        merges = plan_merges([_chunk_payload(kept, run_id) for kept in entries], self._redact)
        for merge in reversed(merges):
            merged = entries[merge.start]._replace(text=encode(merge.payload))
            entries[merge.start : merge.stop] = [merged]
        if merges:
            first = self.record.trimmed + 1
            self._entries = [
                kept._replace(bare=kept.bare._replace(seq=seq))
                for seq, kept in enumerate(entries, first)
            ]
            self.bytes += _cost(self._entries) - before
            self.change(entries=len(entries))


def _cost(entries: Iterable[_Kept]) -> int:
    return sum(kept.cost for kept in entries)


def _keys(entries: Iterable[_Kept]) -> set[str]:
    return {kept.bare.entry_key for kept in entries if kept.bare.entry_key is not None}


def _chunk_payload(kept: _Kept, run_id: str) -> dict[str, Any] | None:
    bare = kept.bare
    is_own = (bare.kind, bare.run_id, bare.entry_key) == ("update", run_id, None)
    return decode(kept.text) if is_own else None

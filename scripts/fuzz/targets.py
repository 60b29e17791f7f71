"""What is fuzzed: each target takes any bytes, and raises if a promise is broken."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from acp_bridge.core.diffs import changes
from acp_bridge.errors import GatewayUnreachable, HandshakeRefused
from acp_bridge.importing.openclaw import Report, import_sessions
from acp_bridge.importing.openclaw_files import read_ledger
from acp_bridge.wire import jsonrpc
from acp_bridge.wire.framing import LineReader
from ledger import LedgerError
from ledger.memory import MemoryLedger
from tests.properties.test_openclaw_dialect import busy
from tests.support.acp_dialect import Played, start

_LINE_LIMIT: Final = 4_096
_SQLITE: Final = Path(__file__).parents[2] / "tests" / "data" / "openclaw_ledgers"


def ndjson(data: bytes) -> None:
    """Lines do not depend on the cuts, and every message that is read can be written."""
    cut = data[0] if data else 0
    whole, parts = LineReader(_LINE_LIMIT), LineReader(_LINE_LIMIT)
    lines = [*whole.feed(data), *whole.end()]
    pieces = [*parts.feed(data[:cut]), *parts.feed(data[cut:]), *parts.end()]
    assert [repr(line) for line in lines] == [repr(line) for line in pieces]
    for line in lines:
        if not isinstance(line, bytes):
            continue
        message = jsonrpc.decode(line)
        if isinstance(message, jsonrpc.Request):
            written = jsonrpc.encode({"id": message.id, "params": message.params})
            assert written.endswith(b"\n")
            assert b"\n" not in written[:-1]
            json.loads(written)
        elif isinstance(message, jsonrpc.Broken):
            json.loads(jsonrpc.encode(jsonrpc.failure(message.id, message.error)))


def openclaw(data: bytes) -> None:
    """Frames of OpenClaw's protocol, one a line, to a connection at work."""
    dialect = busy()
    for line in data.split(b"\n"):
        dialect.receive(line.decode("utf-8", "surrogateescape"), 0.0)
    dialect.receive(data, 0.0)
    dialect.tick(1_000.0)
    for text in dialect.data_to_send():
        json.loads(text)


def acp(data: bytes) -> None:
    """Messages of a gateway that speaks ACP, one a line, to a connection at work."""
    play = Played().hello().opened()
    play.send(start())
    for line in data.split(b"\n"):
        try:
            play.receive(line)
        except (HandshakeRefused, GatewayUnreachable) as error:
            raise AssertionError(error) from error
    play.tick()
    play.dialect.leave()
    play.flush()


def patch(data: bytes) -> None:
    """Arguments of tools that edit files, as text or as JSON."""
    text = data.decode("utf-8", "surrogateescape")
    for name in ("apply_patch", "edit", "write"):
        found = changes(name, text, "/w")
        json.loads(jsonrpc.encode({"diffs": found.diffs, "locations": found.locations}))
        try:
            changes(name, json.loads(text), "/w")
        except (ValueError, RecursionError):
            continue


def import_json(data: bytes) -> None:
    """The JSON file of OpenClaw's older ledgers."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "event-ledger.json"
        path.write_bytes(data)
        _import(path)


def import_sqlite(data: bytes) -> None:
    """OpenClaw's database: as a whole, and with any text in its rows."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "openclaw.sqlite"
        path.write_bytes(b"SQLite format 3\0" + data)
        _import(path)
        path.write_bytes((_SQLITE / "2026.9.6.sqlite").read_bytes())
        with closing(sqlite3.connect(path)) as database:
            text = data.decode("utf-8", "replace")
            database.execute("UPDATE acp_replay_events SET update_json = ?", (text,))
            database.commit()
        _import(path)


def _import(path: Path) -> None:
    report = Report()
    ledger = MemoryLedger()
    try:
        import_sessions(
            read_ledger(path, report.skipped, sleep=lambda _: None),
            ledger,
            report,
            now=1_796_000_000_000,
            dry_run=False,
        )
    except LedgerError as error:
        if not error.message:
            raise AssertionError from error
    for line in report.skipped.lines():
        assert line.isprintable() or not line.isascii()


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    each.__name__: each for each in (ndjson, openclaw, acp, patch, import_json, import_sqlite)
}

"""The log: never in the way, never a secret, one line per fact."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_bridge import logs
from acp_bridge.logs.background import Sink
from acp_bridge.logs.redaction import (
    clean,
    clean_mapping,
    clean_text,
    register_secret,
    without_secrets,
)
from acp_bridge.wire.secrecy import REDACTED
from tests.support.waits import WAIT

HIDDEN = "hunter2-hunter2"

log = logging.getLogger("acp_bridge.somewhere")
foreign = logging.getLogger("some_library")


@contextmanager
def logging_to(path: Path, **options: Any) -> Iterator[Callable[[], list[str]]]:
    """Logs to a file that stands for stderr; yields how to finish and read its lines."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    levels = {name: logging.getLogger(name).level for name in ("", "acp_bridge", "ledger")}
    options.setdefault("level", "warning")
    options.setdefault("environ", {})
    running = logs.configure(descriptor=descriptor, **options)

    def lines() -> list[str]:
        running.close(WAIT)
        return path.read_text("utf-8").splitlines()

    try:
        yield lines
    finally:
        running.close(WAIT)
        os.close(descriptor)
        logging.raiseExceptions = True
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@pytest.fixture
def stderr(tmp_path: Path) -> Path:
    return tmp_path / "stderr"


def test_a_warning_is_one_short_line_with_its_fields(stderr: Path) -> None:
    with logging_to(stderr) as lines:
        log.warning(
            "gateway lost", extra={"fields": {"url": "ws://h", "why": "no route", "hint": None}}
        )

        assert lines() == ['acp-bridge: warning: gateway lost url=ws://h why="no route"']


def test_only_warnings_show_until_more_is_asked_for(stderr: Path) -> None:
    with logging_to(stderr) as lines:
        log.info("quiet")
        log.warning("loud")

        assert lines() == ["acp-bridge: warning: loud"]
    with logging_to(stderr, level="debug") as lines:
        log.debug("quiet")
        foreign.debug("a frame of the wire")
        foreign.warning("loud")

        assert lines() == ["acp-bridge: debug: quiet", "acp-bridge: warning: loud"]


def test_json_lines_hold_the_same_facts(stderr: Path) -> None:
    with logging_to(stderr, log_format="json") as lines:
        log.error("it broke", extra={"fields": {"run_id": "r1", "event": "chat", "n": [1, None]}})
        (line,) = lines()

    record = json.loads(line)
    assert record["ts"].endswith("+00:00")
    assert (record["level"], record["event"]) == ("error", "it broke")
    assert (record["logger"], record["pid"]) == (log.name, os.getpid())
    assert (record["run_id"], record["event_"], record["n"]) == ("r1", "chat", [1, None])


def test_the_file_hears_more_than_stderr_and_is_private(stderr: Path, tmp_path: Path) -> None:
    path = tmp_path / "bridge.log"
    with logging_to(stderr, log_file=path) as lines:
        log.info("quiet")
        log.debug("quieter")

        assert lines() == []
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["quiet"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_stays_private_when_it_rotates(
    stderr: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_bridge.logs.render._FILE_BYTES", 300)
    with logging_to(stderr, log_file=tmp_path / "bridge.log") as lines:
        for number in range(30):
            log.info("line", extra={"fields": {"number": number}})
        lines()

    files = sorted(path.name for path in tmp_path.glob("bridge.log*"))
    assert files == ["bridge.log", *(f"bridge.log.{n}" for n in range(1, 6))]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("bridge.log*")} == {0o600}


def test_a_file_that_cannot_be_written_is_an_error_at_once(stderr: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        logging_to(stderr, log_file=tmp_path / "missing" / "bridge.log"),
    ):
        pass


def test_an_exception_is_told_in_one_line_and_traced_only_at_debug(
    stderr: Path, tmp_path: Path
) -> None:
    def fail() -> None:
        try:
            int("1\n2")
        except ValueError:
            log.exception("it failed")

    path = tmp_path / "bridge.log"
    with logging_to(stderr, log_file=path) as lines:
        fail()

        (line,) = lines()
    assert line.startswith('acp-bridge: error: it failed error="ValueError(')
    assert "invalid literal" in line
    assert "Traceback" in json.loads(path.read_text())["exception"]
    with logging_to(stderr, level="debug") as lines:
        fail()

        assert "Traceback (most recent call last):" in lines()


@pytest.mark.requirement("C087")
@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_registered_secret_never_gets_out(stderr: Path, tmp_path: Path, log_format: str) -> None:
    register_secret(HIDDEN)
    path = tmp_path / "bridge.log"
    with logging_to(stderr, level="debug", log_format=log_format, log_file=path) as lines:
        log.warning("message %s", HIDDEN)
        log.warning("fields", extra={"fields": {"url": f"ws://h/{HIDDEN}", HIDDEN: [HIDDEN]}})
        foreign.warning("another library says %r", {"x": HIDDEN})
        try:
            int(HIDDEN)
        except ValueError:
            log.exception("trace")
        shown = "\n".join(lines())

    assert "message" in shown
    assert HIDDEN not in shown + path.read_text()


@pytest.mark.parametrize(
    "key",
    [
        "token",
        "deviceToken",
        "access-token",
        "password",
        "client_secret",
        "Authorization",
        "signature",
        "_meta",
        "api_key",
        "privateKey",
        "Cookie",
        "credentials",
    ],
)
def test_a_value_under_the_key_of_a_secret_is_hidden(key: str) -> None:
    assert clean_mapping({"frame": {key: {"a": "b"}}}) == {"frame": {key: REDACTED}}


def test_what_is_recorded_holds_no_registered_secret_at_any_depth() -> None:
    register_secret(HIDDEN)
    value = {"a": [f"x{HIDDEN}y", {HIDDEN: 1}], "b": (HIDDEN,), "token": "said", "n": None}

    assert without_secrets(value) == {
        "a": [f"x{REDACTED}y", {REDACTED: 1}],
        "b": [REDACTED],
        "token": "said",
        "n": None,
    }


def test_what_is_recorded_has_no_holes_for_short_secrets_and_is_not_copied() -> None:
    register_secret("secret")
    value = {"text": "a secret, token=said"}

    assert without_secrets(value) is value


def test_counts_and_places_of_secrets_are_shown() -> None:
    fields: dict[object, object] = {
        "inputTokens": 3,
        "token": None,
        "token_file": "/t",
        "token_source": "env",
    }

    assert clean_mapping(fields) == fields


@pytest.mark.parametrize(
    "text",
    [
        "GET /?token=abcdef&x=1",
        "authorization: Bearer abcdef",
        '{"deviceToken": "abcdef"}',
        '"{\\"signature\\":\\"abcdef\\"}"',
        "ws://user:abcdef@host/",
        "https://abcdef@host/",
        "postgresql+psycopg://user:abcdef@host/database",
        "postgres://:abcdef@host/database",
        "postgresql://user@host/database?password=abcdef",
    ],
)
def test_what_looks_like_a_secret_in_a_text_is_hidden(text: str) -> None:
    assert "abcdef" not in clean_text(text)


def test_the_user_of_a_database_is_no_secret() -> None:
    hint = "Write postgresql+psycopg://user@host/database or postgresql://me@host/database."
    assert clean_text(hint) == hint


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "\x9b1m", "a\u2028b", "\u202eb", "\ud800"])
def test_a_value_cannot_forge_a_line_or_drive_the_terminal(text: str) -> None:
    assert clean_text(text).isprintable()
    assert clean_text(text).isascii()


def test_long_and_deep_values_are_cut() -> None:
    deep: dict[str, Any] = {}
    deep["x"] = deep

    assert len(clean_text("x" * 100_000)) < 2_100
    assert clean(["x"] * 60) == ["x"] * 50 + ["+10"]
    assert len(json.dumps(clean(deep))) < 100
    assert clean(b"12345") == "<5 bytes>"


def test_a_value_that_cannot_be_shown_breaks_nothing(stderr: Path) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    with logging_to(stderr) as lines:
        log.warning("odd", extra={"fields": {"value": Broken()}})
        log.warning("%d", "no number")
        log.warning("after")

        assert lines() == ["acp-bridge: warning: odd value=<Broken>", "acp-bridge: warning: after"]


def test_what_changes_after_the_call_does_not_change_the_line(stderr: Path) -> None:
    fields = {"items": [1]}
    with logging_to(stderr) as lines:
        log.warning("first", extra={"fields": fields})
        fields["items"].append(2)

        assert lines() == ["acp-bridge: warning: first items=[1]"]


def test_a_stderr_that_nobody_reads_holds_nobody_up() -> None:
    reader, writer = os.pipe()
    running = logs.configure(level="warning", environ={}, descriptor=writer)
    logging.raiseExceptions = True
    try:
        for number in range(3_000):
            log.warning("noise", extra={"fields": {"number": number, "text": "x" * 500}})
        running.close(0.01)
    finally:
        os.close(reader)  # the blocked write ends
        running.close(WAIT)
        os.close(writer)


def test_as_many_lines_wait_as_the_limit_and_one_more_is_dropped() -> None:
    for more in (0, 1):
        gate = threading.Event()
        shown: list[str] = []

        class Target(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                shown.append(record.getMessage())  # noqa: B023 - used up within the turn

        def target() -> logging.Handler:
            gate.wait(WAIT)  # noqa: B023 - likewise
            return Target()

        sink = Sink(logging.WARNING, target)
        record = logging.makeLogRecord({"msg": "line", "levelno": logging.WARNING})
        for _ in range(1_000 + more):
            sink.put(record)
        gate.set()
        sink.stop()
        sink.join(WAIT)
        assert (shown.count("line"), len(shown) - shown.count("line")) == (1_000, more)


def test_lines_that_found_no_room_are_counted_and_the_count_is_told() -> None:
    gate = threading.Event()
    shown: list[tuple[str, dict[str, int]]] = []

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            gate.wait(WAIT)
            shown.append((record.getMessage(), getattr(record, "fields", {})))

    sink = Sink(logging.WARNING, Slow, limit=2)
    record = logging.makeLogRecord({"msg": "line", "levelno": logging.WARNING})
    for _ in range(10):
        sink.put(record)
    gate.set()
    sink.stop()
    sink.join(WAIT)

    lines = [message for message, _ in shown if message == "line"]
    told = [fields["count"] for message, fields in shown if message.startswith("log lines dropped")]
    assert told
    assert sum(told) + len(lines) == 10


@pytest.mark.parametrize(
    ("environ", "is_terminal", "expected"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    environ: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    assert logs.wants_colour(environ, is_terminal=is_terminal) is expected


def test_colour_adds_nothing_but_colour(stderr: Path) -> None:
    with logging_to(stderr, environ={"FORCE_COLOR": "1"}) as lines:
        log.warning("loud", extra={"fields": {"a": 1}})
        (line,) = lines()

    assert "\x1b[" in line
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m"):
        line = line.replace(code, "")
    assert line == "acp-bridge: warning: loud a=1"


def test_a_log_that_cannot_be_closed_ends_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    class Full(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            pass

        def close(self) -> None:
            super().close()
            raise OSError(28, "No space left on device")

    sink = Sink(logging.INFO, Full)
    sink.put(logging.makeLogRecord({}))
    sink.stop()
    sink.join(5.0)
    assert capsys.readouterr().err == ""

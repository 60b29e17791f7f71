"""What a hostile gateway can do to the bridge: nothing but waste its own words."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp_oracle import AcpOracle, parse_line
from tests.support.editor import EditorProcess, PromptHandle, agent_command, editor_environment
from tests.support.hostile import (
    ESCAPES,
    AcpKind,
    HostileGateway,
    Kind,
    OpenClawKind,
    hostile_gateway,
    nested,
)
from tests.support.permission_policies import never
from tests.support.waits import scaled

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

KINDS = [OpenClawKind, AcpKind]
PATIENCE = scaled(90)
EVENTS = 100_000
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
IDLE_MIB = 90
"""What the bridge takes with a ledger open, and the interpreter's slack."""


@pytest.fixture(params=KINDS, ids=["openclaw", "acp"])
def kind(request: pytest.FixtureRequest) -> Kind:
    made: Kind = request.param()
    return made


class AnyMessage(AcpOracle):
    """Takes what is JSON-RPC: nonsense that passes through stays nonsense."""

    def received(self, line: bytes) -> dict[str, Any]:
        return parse_line(line)


@asynccontextmanager
async def under_attack(
    home: Path, kind: Kind, *, conforms: bool = True
) -> AsyncIterator[tuple[HostileGateway, EditorProcess, PromptHandle]]:
    """A bridge with a prompt that the gateway has not ended. When the test has had its way, the
    bridge must still serve, must have told no terminal what to do, and must not have failed."""
    log = home / "bridge.log"
    async with hostile_gateway(kind) as gateway:
        url = gateway.url + ("/acp" if isinstance(kind, AcpKind) else "")
        command = agent_command("--url", url, "--log-file", str(log), "-v")
        environment = editor_environment(home)
        oracle = AcpOracle(extras=isinstance(kind, AcpKind)) if conforms else AnyMessage()
        async with EditorProcess(command, env=environment, cwd=home, oracle=oracle) as editor:
            session = await editor.open(home)
            turn = editor.prompt(session, "hello")
            await gateway.prompted()
            yield gateway, editor, turn
            again = editor.prompt(session, "still there?")
            await gateway.prompted()
            await gateway.send([kind.text("yes"), kind.end()])
            assert await again.stop_reason(PATIENCE) == "end_turn"
            assert "yes" in again.text
            await editor.initialize()
        assert not CONTROLS.search(editor.stderr)
        assert "Traceback" not in editor.stderr
        written = log.read_text("utf-8")
        assert not CONTROLS.search(written)
        assert '"level": "error"' not in written


async def ended(gateway: HostileGateway, turn: PromptHandle) -> None:
    await gateway.send([gateway.kind.end()])
    assert await turn.stop_reason(PATIENCE) == "end_turn"


async def test_a_hundred_thousand_events_are_shown_whole_and_take_no_memory(
    home: Path, kind: Kind
) -> None:
    async with under_attack(home, kind) as (gateway, editor, turn):
        await gateway.send(kind.text(f"{number} ") for number in range(EVENTS))
        await ended(gateway, turn)
        assert turn.text == "".join(f"{number} " for number in range(EVENTS))
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 60) * 1024


async def test_an_answer_without_end_is_cut_off_and_takes_bounded_memory(
    home: Path, kind: Kind
) -> None:
    part = "x" * 65_536
    async with under_attack(home, kind) as (gateway, editor, turn):
        await gateway.send([kind.text(part)] * 1_300)
        await gateway.send([kind.end()])
        assert await turn.stop_reason(PATIENCE) == "end_turn"
        assert "brought more than acp-bridge keeps" in turn.text
        assert len(turn.text) < 70 * 1024 * 1024
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 300) * 1024


MANY: dict[str, Callable[[Kind], Iterable[str]]] = {
    "tool calls": lambda kind: (kind.call(f"{n:0900}", "t") for n in range(20_000)),
    "approvals": lambda kind: (kind.approval(f"{n:0900}", "t") for n in range(20_000)),
}


@pytest.mark.parametrize("what", MANY)
async def test_names_without_end_take_bounded_memory(home: Path, kind: Kind, what: str) -> None:
    async with under_attack(home, kind) as (gateway, editor, turn):
        editor.permission_policy = never
        await gateway.send(MANY[what](kind))
        await ended(gateway, turn)
        assert len(editor.permissions) <= 100
        assert len(turn.tools) <= 5_000 + 100
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 150) * 1024


async def test_runs_of_others_without_end_take_bounded_memory(home: Path) -> None:
    kind = OpenClawKind()
    async with under_attack(home, kind) as (gateway, editor, turn):
        own = kind.run
        frames = []
        for number in range(30_000):
            kind.run = f"{number:0900}"
            frames.append(kind.text("x"))
        kind.run = own
        await gateway.send(frames)
        await ended(gateway, turn)
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 150) * 1024
        for number in range(50):  # or the next prompt would wait for them
            kind.run = f"{number:0900}"
            await gateway.send([kind.end()])


async def test_what_is_deep_or_many_is_not_read(home: Path, kind: Kind) -> None:
    wide = "[" + "[]," * 15_000_000 + "0]"
    deep = [nested(5_000), nested(5_000, "{}"), "[" * 1_000_000, nested(100_000)]
    whole = '{"type":"event","event":"chat","jsonrpc":"2.0","method":"x","params":%s,"payload":%s}'
    async with under_attack(home, kind) as (gateway, editor, turn):
        await gateway.send([*deep, *(whole % (each, each) for each in deep), wide])
        await ended(gateway, turn)
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 400) * 1024


async def test_absurd_values_disturb_nothing(home: Path, kind: Kind) -> None:
    async with under_attack(home, kind, conforms=False) as (gateway, editor, turn):
        editor.permission_policy = never
        await gateway.send([b"\xff\x00", "", " ", "\x00", "{", "null", "[]", '"x"', "1e999"])
        await gateway.send(kind.odd())
        if not turn.is_answered:  # an absurd end is an end
            await ended(gateway, turn)
        assert editor.rss_kib("VmHWM") < (IDLE_MIB + 300) * 1024


async def test_terminal_escapes_in_names_reach_no_terminal(home: Path, kind: Kind) -> None:
    async with under_attack(home, kind) as (gateway, editor, turn):
        editor.permission_policy = never
        await gateway.send([kind.call(f"c{ESCAPES}", ESCAPES), kind.approval("a", ESCAPES)])
        odd = {"type": "event", "event": ESCAPES, "jsonrpc": "2.0", "method": ESCAPES}
        shutdown = {"type": "event", "event": "shutdown", "payload": {"reason": ESCAPES}}
        await gateway.send([kind.text(ESCAPES), json.dumps(odd), json.dumps(shutdown)])
        await ended(gateway, turn)


async def test_a_gateway_that_goes_with_escapes_in_its_reason_leaves_none_behind(
    home: Path, kind: Kind
) -> None:
    async with under_attack(home, kind) as (gateway, editor, turn):
        await ended(gateway, turn)
        await gateway.close(ESCAPES.replace("\ud83d", ""))
        await editor.until(lambda: editor.stderr.count("connected to the gateway") == 2, "a link")

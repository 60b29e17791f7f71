"""Sessions that outlive their bridge, against real gateways."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.gateway import Gateway
from tests.real.install import Parts
from tests.real.model_script import counted
from tests.support.editor import EditorProcess, Json, agent_command, editor_environment
from tests.support.transcript import text_of, tool_cards

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(240)]


async def load(editor: EditorProcess, session: str, cwd: Path) -> list[Json]:
    """Load a session in a new process; what it shows before its answer."""
    await editor.initialize()
    params = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
    await editor.call("session/load", params).result(TURN)
    return list(editor.updates(session))


def kinds(editor: EditorProcess, session: str) -> list[str]:
    return [update["sessionUpdate"] for update in editor.updates(session)]


def users(updates: list[Json]) -> list[str]:
    chunks = [u for u in updates if u["sessionUpdate"] == "user_message_chunk"]
    return [chunk["content"]["text"] for chunk in chunks]


async def test_a_conversation_is_there_after_a_restart_and_goes_on(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        for prompt in ("fake:echo N=3", "fake:tool echo hi"):
            assert await editor.prompt(session, prompt).stop_reason(TURN) == "end_turn"
        before = editor.updates(session)
    async with bridge() as editor:
        after = await load(editor, session, tmp_path)
        assert users(after) == ["fake:echo N=3", "fake:tool echo hi"]
        permissions = [u for u in after if str(u.get("messageId")).endswith(":permission")]
        assert [u["content"]["text"] for u in permissions] == [
            "Permission asked: echo hi (allowed once)"
        ]
        assert text_of([u for u in after if u not in permissions]) == text_of(before)
        assert [card.status for card in tool_cards(after)] == ["completed"]
        turn = editor.prompt(session, "fake:say still here")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert turn.text == "still here"


async def test_a_list_has_the_session_under_the_id_that_loads(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        assert await editor.prompt(session, "fake:say listed").stop_reason(TURN) == "end_turn"
        assert await editor.prompt(session, "fake:say more").stop_reason(TURN) == "end_turn"
        await editor.until(lambda: "usage_update" in kinds(editor, session), "the facts", TURN)
        assert "session_info_update" not in kinds(editor, session)
    async with bridge() as editor:
        await editor.initialize()
        listed = await editor.call("session/list", {"cwd": str(tmp_path)}).result(TURN)
        assert [item["sessionId"] for item in listed["sessions"]] == [session]
        assert listed["sessions"][0]["title"] == "fake:say listed"


async def test_a_session_that_is_loaded_from_the_gateway_keeps_its_title(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        for prompt in ("fake:say a good title", "fake:say more"):
            assert await editor.prompt(session, prompt).stop_reason(TURN) == "end_turn"
    other = "--state-dir", str(tmp_path / "another machine")
    async with bridge(*other) as editor:
        await editor.initialize()
        listed = await editor.call("session/list", {}).result(TURN)
        found = next(i for i in listed["sessions"] if i["sessionId"].endswith(session))
        assert found["_meta"]["source"] == "gateway"
        await load(editor, found["sessionId"], tmp_path)
        turn = editor.prompt(found["sessionId"], "fake:say another line")
        assert await turn.stop_reason(TURN) == "end_turn"
    async with bridge(*other) as editor:
        await editor.initialize()
        listed = await editor.call("session/list", {"cwd": str(tmp_path)}).result(TURN)
        titles = {i["title"]: i["_meta"]["source"] for i in listed["sessions"]}
        assert titles == {"fake:say a good title": "ledger"}


@pytest.mark.requirement("C063")
@pytest.mark.parametrize("after", [0, 1, 2, 4, 6, 9])
async def test_a_bridge_killed_in_mid_answer_loses_and_doubles_nothing(
    bridge: Bridge, tmp_path: Path, after: int
) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, "fake:slow N=20 MS=100")
        if after:
            await turn.shows(f"slow-{after}", TURN)
        was_shown = turn.text
        editor.may_tear = True
        editor.signal(signal.SIGKILL)
        await editor.process_ended()
    async with bridge() as editor:
        await load(editor, session, tmp_path)
        whole = counted("slow-", 20)
        if after:
            await editor.until(
                lambda: text_of(editor.updates(session)) == whole, "the whole answer", TURN
            )
        shown = editor.updates(session)
        assert text_of(shown).startswith(was_shown)
        assert users(shown) in (["fake:slow N=20 MS=100"], [])


class NamedSession:
    """A named session of acpx, whose agent is started anew for each prompt."""

    def __init__(self, parts: Parts, gateway: Gateway, home: Path) -> None:
        agent = agent_command("--url", gateway.url, "--token-file", str(gateway.token_file))
        self._command = [str(parts.node), str(parts.acpx), "--agent", shlex.join(agent)]
        self._command += ["--cwd", str(home), "--approve-all", "--ttl", "1", "--format", "json"]
        self._env = editor_environment(home) | {"PATH": parts.path}
        self._home = home

    def run(self, *arguments: str) -> list[dict[str, Any]]:
        """What acpx prints, which for a prompt is the wire; returns when the agent has ended."""
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._env,
            cwd=self._home,
            capture_output=True,
            timeout=TURN * 2,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout.decode()}\n{done.stderr.decode()}"
        deadline = time.monotonic() + TURN
        while self._agents():
            assert time.monotonic() < deadline, "the agent of acpx does not end"
            time.sleep(0.1)  # nothing tells of the end of somebody else's child
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]

    def _agents(self) -> list[str]:
        mark = f"HOME={self._home}".encode()
        found = []
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if process.name.isdigit() and mark in (process / "environ").read_bytes():
                    found.append(process.name)
        return found


def test_a_named_session_of_acpx_survives_the_restart_of_its_agent(
    parts: Parts, gateway: Gateway, tmp_path: Path
) -> None:
    named = NamedSession(parts, gateway, tmp_path)
    named.run("sessions", "ensure", "--name", "mine")
    named.run("prompt", "-s", "mine", "fake:say first")
    wire = named.run("prompt", "-s", "mine", "fake:say second")
    called = [message["method"] for message in wire if "method" in message]
    assert "session/new" not in called
    assert {"session/resume", "session/load"} & set(called)
    shown = [m["params"]["update"] for m in wire if m.get("method") == "session/update"]
    assert text_of(shown).endswith("second")

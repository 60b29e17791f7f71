"""Tool calls and approvals, against real gateways that ask before every command."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.gateway import Gateway
from tests.support import permission_policies as policies

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]


async def test_a_tool_call_is_shown_from_its_start_to_its_output(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:tool echo hi there")
        assert await turn.stop_reason(TURN) == "end_turn"
        (card,) = turn.tools
        assert (card.kind, card.status) == ("execute", "completed")
        assert "echo hi there" in card.title
        assert "hi there" in card.text
        assert card.fields["rawInput"]["command"] == "echo hi there"
        # The text before and after the tool are messages of their own, without glue between.
        assert turn.texts == ["Calling a tool.", "The tool said: hi there"]
        kinds = [u["sessionUpdate"] for u in turn.updates]
        assert kinds.index("agent_message_chunk") < kinds.index("tool_call")


async def test_a_failing_tool_is_shown_as_failed_and_the_turn_goes_on(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, "fake:tool ls /no/such/directory")
        assert await turn.stop_reason(TURN) == "end_turn"
        (card,) = turn.tools
        assert card.status == "failed"
        assert "/no/such/directory" in card.text
        assert turn.texts[0] == "Calling a tool."
        assert turn.texts[1].startswith("The tool said: ")
        # 2026.6.11 reports the failed tool again, after the end of the turn.
        after = editor.prompt(session, "fake:say fine")
        assert await after.stop_reason(TURN) == "end_turn"
        assert after.texts == ["fine"]


async def test_reading_a_file_is_shown_with_its_place(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    target = gateway.workspace / f"{uuid.uuid4().hex}.txt"
    target.write_text("the contents\n")
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), f"fake:read {target}")
        assert await turn.stop_reason(TURN) == "end_turn"
        (card,) = turn.tools
        assert (card.kind, card.status) == ("read", "completed")
        assert card.paths == [str(target)]
        assert turn.text.startswith("The tool said: the contents")


async def test_writing_a_file_is_shown_as_a_diff(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    target = gateway.workspace / f"{uuid.uuid4().hex}.txt"
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), f"fake:write {target}")
        assert await turn.stop_reason(TURN) == "end_turn"
        (card,) = turn.tools
        assert (card.kind, card.status) == ("edit", "completed")
        assert [(d["path"], d["newText"]) for d in card.diffs] == [(str(target), "written\n")]
        assert target.read_text() == "written\n"


async def test_editing_a_file_is_shown_as_a_diff(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    target = gateway.workspace / f"{uuid.uuid4().hex}.txt"
    target.write_text("before\n")
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), f"fake:edit {target}")
        assert await turn.stop_reason(TURN) == "end_turn"
        (card,) = turn.tools
        assert (card.kind, card.status) == ("edit", "completed")
        (diff,) = card.diffs
        assert diff["path"] == str(target)
        assert "before" in diff["oldText"]
        assert "after" in diff["newText"]
        assert target.read_text() == "after\n"


async def test_two_tools_at_once_are_two_calls(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:two")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert [card.status for card in turn.tools] == ["completed", "completed"]
        assert sorted(card.text.strip() for card in turn.tools) == ["one", "two"]


async def test_an_allowed_command_runs(bridge: Bridge, gateway: Gateway, tmp_path: Path) -> None:
    target = gateway.workspace / uuid.uuid4().hex
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), f"fake:tool touch {target}")
        assert await turn.stop_reason(TURN) == "end_turn"
        (asked,) = editor.permissions
        assert asked["params"]["toolCall"]["toolCallId"] == turn.tools[0].tool_call_id
        # The gateway always asks, so it does not offer to remember.
        kinds = {option["kind"] for option in asked["params"]["options"]}
        assert kinds == {"allow_once", "reject_once"}
        assert target.exists()


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policies.reject_once, id="denied"),
        pytest.param(policies.cancelled, id="cancelled"),
        pytest.param(policies.fail, id="error"),
    ],
)
async def test_a_command_that_was_not_allowed_does_not_run_and_the_turn_goes_on(
    bridge: Bridge, gateway: Gateway, tmp_path: Path, policy: policies.PermissionPolicy
) -> None:
    target = gateway.workspace / uuid.uuid4().hex
    async with bridge() as editor:
        editor.permission_policy = policy
        turn = editor.prompt(await editor.open(tmp_path), f"fake:tool touch {target}")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert [card.status for card in turn.tools] == ["failed"]
        assert len(editor.permissions) == 1
        assert turn.texts[1].startswith("The tool said: ")
        assert not target.exists()


async def test_a_cancelled_turn_withdraws_its_open_question(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    target = gateway.workspace / uuid.uuid4().hex
    async with bridge() as editor:
        editor.permission_policy = policies.never
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, f"fake:tool touch {target}")
        await editor.until(lambda: bool(editor.permissions), "a permission request", TURN)
        editor.send(editor.cancel_message(session))
        assert await turn.stop_reason(2.0) == "cancelled"
        assert [card.status for card in turn.tools] == ["failed"]
        assert editor.withdrawn() == [editor.permissions[0]["id"]]
        editor.permission_policy = policies.allow_once
        after = editor.prompt(session, "fake:say on we go")
        assert await after.stop_reason(TURN) == "end_turn"
        assert after.texts == ["on we go"]
        assert not target.exists()


async def test_a_turn_cancelled_as_acp_asks_answers_its_open_question(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    target = gateway.workspace / uuid.uuid4().hex
    async with bridge() as editor:
        editor.permission_policy = policies.never
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, f"fake:tool touch {target}")
        await editor.until(lambda: bool(editor.permissions), "a permission request", TURN)
        editor.cancel(session)
        assert await turn.stop_reason(2.0) == "cancelled"
        assert turn.texts == ["Calling a tool."]
        assert [card.status for card in turn.tools] == ["failed"]
        assert not target.exists()

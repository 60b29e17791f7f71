"""Turns whose link breaks, or is not there yet."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, ProbeRun, StartRun
from acp_bridge.core.transcript import SaidText, UsedTool
from acp_bridge.errors import GatewayTimeout, OutcomeUnknown, PairingRequired
from acp_bridge.ids import RunId, ToolCallId
from tests.support.service import conversation


def text(run: RunId, delta: str, snapshot: str | None = None) -> ev.TextProgress:
    return ev.TextProgress(run, delta, replace=False, snapshot=snapshot)


def finished(run: RunId, snapshot: str | None = None, **more: Any) -> ev.RunEnded:
    return ev.RunEnded(run, ev.EndKind.FINISHED, snapshot=snapshot, **more)


async def test_a_prompt_without_a_link_waits_for_one() -> None:
    async with conversation() as talk:
        session = await talk.session()
        await talk.gateway.down()
        answer = talk.send(session)
        await talk.settle()
        assert talk.commands(StartRun) == []

        await talk.gateway.up()
        run = (await talk.started()).run_id
        await talk.gateway.emit(finished(run, "after all"))
        assert await answer.stop_reason() == "end_turn"


async def test_a_refusal_that_waiting_cannot_heal_fails_the_waiting_prompt() -> None:
    async with conversation() as talk:
        session = await talk.session()
        await talk.gateway.down(trouble=PairingRequired())
        answer = talk.send(session)

        assert (await answer.failure()).code == "pairing_required"


@pytest.mark.requirement("C048")
async def test_a_run_survives_a_drop_and_the_missed_text_is_shown_once() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), text(run, "one ", "one "))
        for already in ("one two ", "one two three "):
            await talk.gateway.down()
            await talk.gateway.up()
            assert isinstance(talk.gateway.submitted[-1], ProbeRun)
            report = ev.RunReported(run, ev.RunState.RUNNING, snapshot=already)
            await talk.gateway.emit(report)
        await talk.gateway.emit(text(run, "four", "one two three four"), finished(run))

        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "one two three four"
        assert len(talk.commands(StartRun)) == 1


@pytest.mark.requirement("C047")
async def test_an_end_that_fell_into_the_gap_is_recovered() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        started = ev.ToolStarted(run, ToolCallId("t"), "exec", {"command": "make"})
        await talk.gateway.emit(ev.RunAccepted(run), text(run, "Making.", "Making."), started)
        await talk.gateway.down()
        await talk.gateway.up()
        report = ev.RunReported(
            run,
            ev.RunState.FINISHED,
            snapshot="Making.Done.",
            parts=(UsedTool(ToolCallId("t"), "exec", None, "ok", failed=False),),
        )
        await talk.gateway.emit(report)

        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "Making.Done."
        assert [u["status"] for _, u in talk.outbox.shown if u.get("status")][-1] == "completed"


async def test_a_tool_that_ran_in_a_gap_is_shown_where_it_stands_in_the_text() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), text(run, "First", "First"))
        await talk.gateway.down()
        await talk.gateway.up()
        parts = (
            SaidText("First this. "),
            UsedTool(ToolCallId("t"), "exec", {"command": "make"}, "no", failed=True),
            SaidText("Then that. "),
            UsedTool(ToolCallId("u"), "exec", {"command": "true"}, None, failed=False),
        )
        snapshot = "First this.\n\nThen that."
        report = ev.RunReported(run, ev.RunState.RUNNING, snapshot=snapshot, parts=parts)
        await talk.gateway.emit(report, finished(run, f"{snapshot}\n\nDone."))

        assert await answer.stop_reason() == "end_turn"
        shown = [u for s, u in talk.outbox.shown if s == session]
        kinds = [(u["sessionUpdate"], u.get("content"), u.get("title")) for u in shown]
        order = [c["text"] if isinstance(c, dict) else title for _, c, title in kinds]
        assert [each for each in order if each] == [
            "First",
            " this.",
            "exec: command: make",
            "Then that.",
            "exec: command: true",
            "Done.",
        ]
        ends = [(u["toolCallId"], u["status"]) for u in shown if "update" in u["sessionUpdate"]]
        assert ends == [("t", "failed"), ("u", "completed")]


@pytest.mark.requirement("C052")
async def test_an_unacknowledged_prompt_that_was_not_taken_is_sent_again_under_its_key() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        first = await talk.started()
        await talk.gateway.down()
        await talk.gateway.up()
        await talk.gateway.emit(ev.RunReported(first.run_id, ev.RunState.NOT_TAKEN))

        assert await talk.started(2) == first
        await talk.gateway.emit(finished(first.run_id, "once"))
        assert await answer.stop_reason() == "end_turn"


@pytest.mark.requirement("C052")
@pytest.mark.parametrize("state", [ev.RunState.NOT_TAKEN, ev.RunState.UNKNOWN])
async def test_an_acknowledged_prompt_is_never_sent_twice(state: ev.RunState) -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run))
        await talk.gateway.down()
        await talk.gateway.up()
        await talk.gateway.emit(ev.RunReported(run, state))

        error = await answer.failure()
        assert isinstance(error, OutcomeUnknown)
        assert error.message in talk.text(session)
        assert len(talk.commands(StartRun)) == 1


async def test_a_cancel_while_the_link_is_down_is_answered_and_aborts_over_the_next_link() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run))
        await talk.gateway.down()
        talk.bridge.cancel(session)
        talk.clock.advance(2.0)
        assert await answer.stop_reason() == "cancelled"
        assert talk.commands(AbortRun) == []

        await talk.gateway.up()
        assert len(talk.commands(AbortRun)) == 1


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_gateway_that_never_acknowledges_fails_the_prompt_and_hears_an_abort(
    is_answered: bool,
) -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        talk.clock.advance(60.0)
        assert [probe.run_id for probe in talk.commands(ProbeRun)] == [run]
        if is_answered:
            await talk.gateway.emit(ev.RunReported(run, ev.RunState.NOT_TAKEN))
        talk.clock.advance(59.0)
        assert answer.is_answered is is_answered
        talk.clock.advance(1.0)

        error = GatewayTimeout if is_answered else OutcomeUnknown
        assert isinstance(await answer.failure(), error)
        assert len(talk.commands(AbortRun)) == 1
        assert len(talk.commands(StartRun)) == 1


async def test_a_prompt_into_a_dead_link_waits_for_the_next_one() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        talk.clock.advance(64.0)
        await talk.gateway.down()  # its watch has noticed
        talk.clock.advance(600.0)
        await talk.gateway.up()
        await talk.gateway.emit(ev.RunReported(run, ev.RunState.NOT_TAKEN))
        assert len(talk.commands(StartRun)) == 2
        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, "done"))
        assert await answer.stop_reason() == "end_turn"


@pytest.mark.parametrize("state", [ev.RunState.RUNNING, ev.RunState.FINISHED])
async def test_a_lost_acknowledgement_is_made_good(state: ev.RunState) -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        talk.clock.advance(60.0)
        await talk.gateway.emit(ev.RunReported(run, state, "so far"))
        if state is ev.RunState.RUNNING:
            talk.clock.advance(600.0)
            await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, "so far so good"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session).startswith("so far")
        assert talk.commands(AbortRun) == []


async def test_a_link_that_stays_down_ends_in_outcome_unknown() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run))
        await talk.gateway.down()
        talk.clock.advance(1_800.0)

        error = await answer.failure()
        assert isinstance(error, OutcomeUnknown)
        assert error.message in talk.text(session)


@pytest.mark.requirement("C021")
@pytest.mark.parametrize(("code", "sends"), [(1009, 1), (1006, 3)])
async def test_a_prompt_that_breaks_the_connection_is_not_sent_for_ever(
    code: int, sends: int
) -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        for count in range(1, sends + 1):
            run = (await talk.started(count)).run_id
            await talk.gateway.down(close_code=code)
            await talk.gateway.up()
            await talk.gateway.emit(ev.RunReported(run, ev.RunState.NOT_TAKEN))
        error = await answer.failure()
        assert error.code == ("too_large" if code == 1009 else "link_lost")
        assert len(talk.commands(StartRun)) == sends

        talk.send(session, "next")
        assert (await talk.started(sends + 1)).message == "next"


async def test_a_cancel_while_a_prompt_waits_to_be_taken_holds_up_nobody() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session, "same")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunDeferred(run))
        talk.bridge.cancel(session)
        assert await answer.stop_reason() == "cancelled"
        talk.send(session, "next")
        assert (await talk.started(2)).message == "next"

"""Whole turns through the service: what the editor is shown and what the gateway is told."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, StartRun
from acp_bridge.core.sessions import SessionOptions
from acp_bridge.errors import (
    GatewayRefused,
    GatewayUnreachable,
    PairingRequired,
    RunFailed,
    SessionNotFound,
)
from acp_bridge.ids import RunId, SessionId, ToolCallId
from tests.support.service import conversation


def text(run: RunId, delta: str, snapshot: str | None = None) -> ev.TextProgress:
    return ev.TextProgress(run, delta, replace=False, snapshot=snapshot)


def finished(run: RunId, snapshot: str | None = None, **more: Any) -> ev.RunEnded:
    return ev.RunEnded(run, ev.EndKind.FINISHED, snapshot=snapshot, **more)


def aborted(run: RunId, **more: Any) -> ev.RunEnded:
    return ev.RunEnded(run, ev.EndKind.ABORTED, **more)


async def test_a_prompt_is_streamed_and_answered_with_its_stop_reason() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session, "hi")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), text(run, "Hel"), text(run, "lo"))
        await talk.gateway.emit(finished(run, "Hello"))

        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "Hello"


@pytest.mark.requirement("C025")
async def test_the_tail_that_only_the_end_carries_is_shown_before_the_answer() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(text(run, "Hello wor"), finished(run, "Hello world END"))

        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "Hello world END"
        assert answer.shown_before == len(talk.outbox.shown)


async def test_the_prompt_is_committed_before_it_is_sent() -> None:
    async with conversation() as talk:
        session = await talk.session()
        talk.outbox.holds_commits = True
        talk.send(session, "precious")
        await talk.settle()
        assert talk.commands(StartRun) == []

        talk.outbox.commit()
        assert (await talk.started()).message == "precious"
        assert talk.outbox.records[1].record.kind == "prompt"


async def test_a_command_that_ends_in_its_acknowledgement_is_answered() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session, "/stop")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAnsweredAtOnce(run, "Nothing was running."))

        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "Nothing was running."


async def test_an_end_without_any_text_says_so() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), finished(run))

        assert await answer.stop_reason() == "end_turn"
        assert "without a reply" in talk.text(session)


@pytest.mark.requirement("C026")
async def test_late_messages_of_an_answered_run_show_nothing() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(finished(run, "done"))
        await answer.stop_reason()
        late = [text(run, f"late {number}") for number in range(50)]
        await talk.gateway.emit(*late, ev.RunEnded(run, ev.EndKind.FAILED, error="second end"))

        assert talk.text(session) == "done"


@pytest.mark.requirement("C029")
async def test_a_foreign_run_in_the_same_session_never_touches_the_prompt() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        other = RunId("somebody-elses")
        await talk.gateway.emit(text(other, "not yours"), finished(other, "not yours"))
        assert not answer.is_answered

        await talk.gateway.emit(finished(run, "mine"))
        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "mine"


async def test_a_prompt_that_was_not_taken_is_sent_again_under_its_key_until_it_is() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session, "same text")
        first = await talk.started()
        for attempt in (2, 3):
            await talk.gateway.emit(ev.RunDeferred(first.run_id))
            talk.clock.advance(2.0)
            assert await talk.started(attempt) == first
        await talk.gateway.emit(ev.RunAccepted(first.run_id), finished(first.run_id, "at last"))

        assert await answer.stop_reason() == "end_turn"
        assert talk.text(session) == "at last"


@pytest.mark.parametrize(
    ("end", "stop_reason"),
    [
        (ev.RunEnded(RunId("id-2"), ev.EndKind.FINISHED, stop_reason="max_tokens"), "max_tokens"),
        (
            ev.RunEnded(RunId("id-2"), ev.EndKind.FINISHED, stop_reason="max_turn_requests"),
            "max_turn_requests",
        ),
        (ev.RunEnded(RunId("id-2"), ev.EndKind.FAILED, error_kind="refusal"), "refusal"),
        (ev.RunEnded(RunId("id-2"), ev.EndKind.FAILED, error_kind="context_length"), "max_tokens"),
        (ev.RunEnded(RunId("id-2"), ev.EndKind.ABORTED), "cancelled"),
    ],
)
async def test_each_ending_has_its_stop_reason(end: ev.RunEnded, stop_reason: str) -> None:
    async with conversation() as talk:
        answer = talk.send(await talk.session())
        await talk.started()
        await talk.gateway.emit(end)

        assert await answer.stop_reason() == stop_reason


async def test_a_failed_run_shows_its_text_and_is_answered_with_an_error() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FAILED, error="the model is on fire"))

        error = await answer.failure()
        assert isinstance(error, RunFailed)
        assert error.code == "run_failed"
        assert error.data["runId"] == run
        assert "the model is on fire" in talk.text(session)


async def test_a_refused_prompt_is_answered_with_the_gateways_reason() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunRefused(run, GatewayRefused("no such agent")))

        assert (await answer.failure()).message == "no such agent"
        assert "no such agent" in talk.text(session)


# --- cancelling --------------------------------------------------------------------------


@pytest.mark.requirement("C042")
@pytest.mark.requirement("C043")
async def test_a_cancelled_run_is_aborted_once_and_answered_cancelled() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run), text(run, "so "))
        for _ in range(5):
            talk.bridge.cancel(session)
        await talk.gateway.emit(aborted(run, snapshot="so far"), ev.AbortAnswered(run, True))

        assert await answer.stop_reason() == "cancelled"
        assert talk.text(session) == "so far"
        assert talk.commands(AbortRun) == [AbortRun(run, talk.commands(StartRun)[0].session_key)]


@pytest.mark.parametrize(
    "reaction",
    [
        [],
        [finished(RunId("id-2"), "too late")],
        [ev.RunEnded(RunId("id-2"), ev.EndKind.FAILED, error="aborted")],
        [ev.AbortAnswered(RunId("id-2"), aborted=False)],
        [ev.AbortAnswered(RunId("id-2"), aborted=True, error=GatewayRefused("no"))],
    ],
    ids=["silence", "final", "error", "nothing to abort", "abort refused"],
)
@pytest.mark.requirement("C043")
async def test_whatever_the_gateway_does_a_cancel_is_answered_within_two_seconds(
    reaction: list[ev.GatewayEvent],
) -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run))
        talk.bridge.cancel(session)
        await talk.gateway.emit(*reaction)
        talk.clock.advance(2.0)

        assert await answer.stop_reason() == "cancelled"


async def test_a_cancel_before_the_acknowledgement_aborts_after_it() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        talk.bridge.cancel(session)
        assert talk.commands(AbortRun) == []

        await talk.gateway.emit(ev.RunAccepted(run))
        assert len(talk.commands(AbortRun)) == 1
        await talk.gateway.emit(aborted(run))
        assert await answer.stop_reason() == "cancelled"


async def test_an_acknowledgement_after_the_cancel_was_answered_still_aborts() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        talk.bridge.cancel(session)
        talk.clock.advance(2.0)
        assert await answer.stop_reason() == "cancelled"

        await talk.gateway.emit(ev.RunAccepted(run))
        assert len(talk.commands(AbortRun)) == 1


async def test_a_cancel_in_the_same_breath_as_the_prompt_sends_nothing() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        talk.bridge.cancel(session)
        await talk.settle()

        assert await answer.stop_reason() == "cancelled"
        assert talk.gateway.submitted == []


@pytest.mark.requirement("C045")
async def test_cancelling_idle_and_unknown_sessions_is_silent() -> None:
    async with conversation() as talk:
        session = await talk.session()
        talk.bridge.cancel(session)
        talk.bridge.cancel(SessionId("nobody"))
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(finished(run, "fine"))

        assert await answer.stop_reason() == "end_turn"


@pytest.mark.requirement("C044")
@pytest.mark.parametrize("reason", ["the host needs to restart", None])
async def test_the_reason_of_an_abort_that_nobody_asked_for_is_shown(reason: str | None) -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(
            text(run, "so far"), ev.RunEnded(run, ev.EndKind.ABORTED, error=reason)
        )

        assert await answer.stop_reason() == "cancelled"
        assert talk.text(session).removeprefix("so far").strip() == (reason or "")


# --- several prompts ---------------------------------------------------------------------


@pytest.mark.requirement("C046")
async def test_a_second_prompt_cancels_the_first_and_waits_until_its_run_is_over() -> None:
    async with conversation() as talk:
        session = await talk.session()
        first = talk.send(session, "first")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run))
        second = talk.send(session, "second")
        await talk.settle()
        assert len(talk.commands(StartRun)) == 1

        await talk.gateway.emit(aborted(run))
        assert await first.stop_reason() == "cancelled"
        await talk.settle()
        assert len(talk.commands(StartRun)) == 1  # a stopped run lingers at 2026.6.11
        talk.clock.advance(1.0)
        following = await talk.started(2)
        assert following.message == "second"
        await talk.gateway.emit(finished(following.run_id, "2"))
        assert await second.stop_reason() == "end_turn"


@pytest.mark.requirement("C046")
async def test_of_ten_prompts_at_once_each_is_answered_once_and_only_the_last_runs() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answers = [talk.send(session, f"prompt {number}") for number in range(10)]
        start = await talk.started()
        await talk.gateway.emit(finished(start.run_id, "last"))

        reasons = [await answer.stop_reason() for answer in answers]
        assert reasons == ["cancelled"] * 9 + ["end_turn"]
        assert [command.message for command in talk.commands(StartRun)] == ["prompt 9"]


async def test_two_sessions_with_one_key_take_turns_and_cancel_nobody() -> None:
    async with conversation(options=SessionOptions(session_key="main", prefix_cwd=False)) as talk:
        one, other = await talk.session(), await talk.session()
        first, second = talk.send(one, "one"), talk.send(other, "other")
        run = (await talk.started()).run_id
        await talk.settle()
        assert len(talk.commands(StartRun)) == 1

        await talk.gateway.emit(finished(run, "1"))
        following = await talk.started(2)
        await talk.gateway.emit(finished(following.run_id, "2"))
        assert [await first.stop_reason(), await second.stop_reason()] == ["end_turn", "end_turn"]
        assert (talk.text(one), talk.text(other)) == ("1", "2")


async def test_a_cancelled_run_that_nobody_confirms_holds_the_next_prompt_only_for_a_while() -> (
    None
):
    async with conversation() as talk:
        session = await talk.session()
        first = talk.send(session, "first")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run))
        talk.send(session, "second")
        talk.clock.advance(2.0)
        assert await first.stop_reason() == "cancelled"
        await talk.settle()
        assert len(talk.commands(StartRun)) == 1

        talk.clock.advance(10.0)
        assert (await talk.started(2)).message == "second"


# --- tools -------------------------------------------------------------------------------


@pytest.mark.requirement("C032")
@pytest.mark.parametrize(
    ("end", "status"),
    [
        (ev.EndKind.FINISHED, "completed"),
        (ev.EndKind.ABORTED, "failed"),
        (ev.EndKind.FAILED, "failed"),
    ],
)
async def test_an_open_tool_call_ends_before_the_answer(end: ev.EndKind, status: str) -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        call = ev.ToolStarted(run, ToolCallId("call-1"), "exec", {"command": "sleep 9"})
        await talk.gateway.emit(call, ev.RunEnded(run, end))
        await talk.until(lambda: answer.is_answered)

        states = [update["status"] for _, update in talk.outbox.shown if "status" in update]
        assert states == ["in_progress", status]
        assert answer.shown_before >= len(states)


async def test_text_after_a_tool_is_a_message_of_its_own() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(
            text(run, "Calling a tool.", "Calling a tool."),
            ev.ToolStarted(run, ToolCallId("c"), "exec", {"command": "ls"}),
            ev.ToolEnded(run, ToolCallId("c"), "exec", False, {"content": []}),
            text(run, "It said ls.", "Calling a tool.It said ls."),
            finished(run, "Calling a tool.It said ls."),
        )
        await answer.stop_reason()

        messages = [
            (update["messageId"], update["content"]["text"])
            for _, update in talk.outbox.shown
            if update["sessionUpdate"] == "agent_message_chunk"
        ]
        assert [shown for _, shown in messages] == ["Calling a tool.", "It said ls."]
        assert messages[0][0] != messages[1][0]
        assert talk.kinds().index("tool_call") == 1


# --- sessions ----------------------------------------------------------------------------


async def test_prompting_a_closed_session_is_refused_by_name() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        closing = talk.bridge.close_session(session)
        talk.gateway.script = lambda command: (
            [aborted(run)] if isinstance(command, AbortRun) else []
        )
        await talk.gateway.emit(ev.RunAccepted(run))

        assert await closing == {}
        assert await answer.stop_reason() == "cancelled"
        with pytest.raises(SessionNotFound, match=session):
            talk.send(session)


async def test_stopping_answers_every_prompt_as_cancelled() -> None:
    async with conversation() as talk:
        sessions = [await talk.session(f"/s/{number}") for number in range(3)]
        answers = [talk.send(session) for session in sessions]
        await talk.started(3)
        await talk.bridge.stop(0, detach=False)

        assert [await answer.stop_reason() for answer in answers] == ["cancelled"] * 3


async def test_session_new_without_a_gateway_fails_with_the_reason() -> None:
    async with conversation(link=False) as talk:
        await talk.gateway.down(trouble=PairingRequired("approve me"))

        with pytest.raises(PairingRequired, match="approve me"):
            await talk.session()


async def test_initialize_needs_no_gateway() -> None:
    async with conversation(link=False) as talk:
        await talk.gateway.down(trouble=PairingRequired())
        result = await talk.bridge.initialize({"protocolVersion": "2025-06-18"})

        assert result["protocolVersion"] == 1
        assert isinstance(talk.gateway.trouble, GatewayUnreachable | PairingRequired)


async def test_a_thought_after_a_tool_that_begins_alike_is_shown() -> None:
    async with conversation() as talk:
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(
            ev.ThoughtProgress(run, "Let me look.", "Let me look."),
            ev.ToolStarted(run, ToolCallId("t"), "read", {"path": "a"}),
            ev.ThoughtProgress(run, "Let me look.", "Let me look."),
            ev.RunEnded(run, ev.EndKind.FINISHED, "ok", thought="Let me look.\nLet me look."),
        )
        await answer.stop_reason()

        assert talk.text(session, "agent_thought_chunk") == "Let me look.Let me look."


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("has_second_end", [False, True])
async def test_after_a_failed_run_the_next_prompt_waits_for_its_second_end_or_a_moment(
    is_cancelled: bool, has_second_end: bool
) -> None:
    async with conversation() as talk:
        session = await talk.session()
        talk.send(session, "first")
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunAccepted(run))
        if is_cancelled:
            talk.bridge.cancel(session)
        failed = ev.RunEnded(run, ev.EndKind.FAILED, error="no")
        await talk.gateway.emit(failed)
        talk.send(session, "second")
        await talk.settle()
        assert len(talk.commands(StartRun)) == 1

        if has_second_end:
            await talk.gateway.emit(failed)
        else:
            talk.clock.advance(1.0)
        assert (await talk.started(2)).message == "second"

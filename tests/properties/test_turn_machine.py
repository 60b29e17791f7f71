"""The turn under every order of frames, cuts, cancels, approvals, probes and deadlines.

A turn and a gateway with one run (``tests.support.turn_world``) are driven at random. What the
gateway really did says what the editor must have seen: one answer and the right one, all of the
text once, no tool call left open, nothing after the answer, nothing run twice.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from acp_bridge.core import effects as fx
from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, AnswerPermission, StartRun
from acp_bridge.core.live_turn import Turn
from acp_bridge.core.ports import EditorAnswer
from acp_bridge.core.turn import TurnState
from acp_bridge.errors import GatewayUnreachable, OutcomeUnknown, RunFailed
from acp_bridge.ids import ApprovalId, Json, SessionId
from tests.support.turn_world import KEY, RUN, Event, GatewayModel

PIECES = st.text(alphabet="abc \n", min_size=1, max_size=6)
CLOSE_CODES = st.sampled_from([None, 1000, 1001, 1005, 1006, 1008, 1009, 1012, 1013, 4000])
OFTEN = st.sampled_from([True] * 5 + [False])
SELDOM = st.sampled_from([False] * 5 + [True])
EXAMPLES = int(os.environ.get("ACP_BRIDGE_TURN_EXAMPLES", "300"))
ENOUGH = 300
"""Moves after which a world that is left to itself has come to rest."""


def bare(text: str) -> str:
    """Without white space: it may differ between segments."""
    return "".join(text.split())


class TurnMachine(RuleBasedStateMachine):
    """Plays editor, service and gateway for one turn."""

    def __init__(self) -> None:
        super().__init__()
        self.gateway = GatewayModel()
        self.turn = Turn(SessionId("s"), StartRun(RUN, KEY, "hello"), cwd="/w", prompt={})
        self.timer: fx.Arm | None = None
        self.recording = False
        """Whether the prompt is on its way into the ledger."""
        self.has_slot = False
        self.was_cancelled = False
        self.excuses: set[str] = set()
        """Why the bridge may not know the run's end."""
        self.answers: list[fx.Answer | fx.Reject] = []
        self.is_released = False
        self.text = ""
        self.thoughts: dict[str, str] = {}
        """By message."""
        self.cards: dict[str, str] = {}
        self.questions: dict[ApprovalId, str] = {}
        """``open``, ``withdrawn`` or the editor's choice."""
        self.decisions: dict[ApprovalId, set[str]] = {}
        self.is_last_dropped = False
        self.aborts_under_way = 0
        self.cancelled_while_taken = False

    # --- the service -----------------------------------------------------------------------

    def carry_out(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            assert not self.is_released, f"{effect} after the release"
            match effect:
                case fx.Record(kind="prompt"):
                    self.recording = True
                case fx.Send():
                    self.send(effect)
                case fx.Show():
                    self.show(effect.update)
                case fx.Answer() | fx.Reject():
                    self.answered(effect)
                case fx.Arm() | fx.Disarm():
                    self.timer = effect if isinstance(effect, fx.Arm) else None
                case fx.AskPermission():
                    self.asked(effect.asked.approval_id, effect.tool_call_id)
                case fx.WithdrawPermission():
                    assert self.questions[effect.approval_id] == "open"
                    self.questions[effect.approval_id] = "withdrawn"
                case fx.Release():
                    self.is_released = True

        assert self.answers or not self.is_released, "released before the answer"

    def send(self, send: fx.Send) -> None:
        command = send.command
        if isinstance(command, AnswerPermission):
            self.decided(command)
        if isinstance(command, StartRun):
            assert not self.was_cancelled, "a prompt is sent after its cancel"
            assert not self.answers
        if isinstance(command, AbortRun):
            assert self.aborts_under_way == 0, "a second abort over one connection"
            assert self.gateway.is_connected
            self.aborts_under_way += 1
        if self.gateway.is_connected:
            self.gateway.to_gateway.append(command)

    def decided(self, command: AnswerPermission) -> None:
        approval, decision = command.approval_id, command.decision
        self.decisions.setdefault(approval, set()).add(decision)
        assert len(self.decisions[approval]) == 1, "two decisions on one approval"
        if decision != "deny":
            assert self.questions[approval] == decision, "the editor did not say that"
            assert not self.answers, "allowed after the end"
            assert not self.was_cancelled, "allowed after the cancel"

    def show(self, update: Json) -> None:
        assert not self.answers, f"shown after the answer: {update}"
        match update["sessionUpdate"]:
            case "agent_message_chunk" if ":text:" in update["messageId"]:
                self.text += update["content"]["text"]
            case "agent_thought_chunk":
                message = update["messageId"]
                self.thoughts[message] = self.thoughts.get(message, "") + update["content"]["text"]
            case "tool_call":
                assert update["toolCallId"] not in self.cards, "a card begins twice"
                self.cards[update["toolCallId"]] = update["status"]
            case "tool_call_update":
                before = self.cards[update["toolCallId"]]
                after = update.get("status", before)
                assert before == after or before == "in_progress"
                self.cards[update["toolCallId"]] = after

    def asked(self, approval: ApprovalId, tool_call: str) -> None:
        assert approval not in self.questions, "asked twice"
        assert not self.answers, "asked after the answer"
        assert not self.was_cancelled, "asked after the cancel"
        assert tool_call in self.cards
        self.questions[approval] = "open"

    def answered(self, answer: fx.Answer | fx.Reject) -> None:
        assert not self.answers, "answered twice"
        still_open = [card for card, status in self.cards.items() if status == "in_progress"]
        assert not still_open, f"answered with open tool calls: {still_open}"
        assert "open" not in self.questions.values(), "answered with an open question"
        self.answers.append(answer)
        self.judge(answer)

    def judge(self, answer: fx.Answer | fx.Reject) -> None:
        """Whether it is the right answer, by what the gateway really did."""
        status = self.gateway.status
        if self.was_cancelled:
            assert answer == fx.Answer("cancelled")
            return
        if isinstance(answer, fx.Answer):
            assert (answer.stop_reason, status) in [
                ("end_turn", "finished"),
                ("cancelled", "aborted"),
            ]
        elif isinstance(answer.error, RunFailed):
            assert status == "failed"
        elif isinstance(answer.error, OutcomeUnknown):
            assert self.excuses & {"restart", "deadline"}, "the gateway could tell the end"
        else:
            assert self.excuses & {"refused", "deadline", "close"}
        if status in ("finished", "aborted", "failed") and "deadline" not in self.excuses:
            self.judge_text()

    def judge_text(self) -> None:
        assert bare(self.text) == bare(self.gateway.text)

    # --- before sending ----------------------------------------------------------------------

    @initialize(is_link_up=SELDOM.map(lambda is_seldom: not is_seldom), is_taken=OFTEN)
    def begin(self, is_link_up: bool, is_taken: bool) -> None:
        self.gateway.is_connected = is_link_up
        self.carry_out(self.turn.begin(is_link_up=is_link_up))
        if is_link_up and is_taken:  # most of the story comes after this
            self.prompt_is_recorded()
            self.slot_is_free()
            self.gateway_reads("take")

    @precondition(lambda self: self.recording)
    @rule()
    def prompt_is_recorded(self) -> None:
        self.recording = False
        self.carry_out(self.turn.recorded())

    @precondition(lambda self: not self.has_slot)
    @rule()
    def slot_is_free(self) -> None:
        self.has_slot = True
        self.carry_out(self.turn.grant_slot())

    # --- the link ----------------------------------------------------------------------------

    @precondition(lambda self: self.gateway.is_connected)
    @rule(code=CLOSE_CODES, arrived=st.integers(0, 2), is_due=st.booleans())
    def link_breaks(self, code: int | None, arrived: int, is_due: bool) -> None:
        if not is_due:
            return
        self.gateway.cut(arrived)
        self.link_is_lost(code)

    def link_is_lost(self, code: int | None) -> None:
        self.aborts_under_way = 0
        if self.turn.state is TurnState.SENT:
            self.excuses.add("close")
        self.carry_out(self.turn.link_lost(code))

    @precondition(lambda self: not self.gateway.is_connected)
    @rule()
    def link_comes_back(self) -> None:
        self.gateway.is_connected = True
        self.carry_out(self.turn.link_up())

    @precondition(lambda self: self.gateway.is_connected)
    @rule(is_due=SELDOM)
    def gateway_restarts(self, is_due: bool) -> None:
        if not is_due:
            return
        self.gateway.restart()
        self.excuses.add("restart")
        self.link_is_lost(1012)

    @precondition(lambda self: self.gateway.to_gateway)
    @rule(answer=st.sampled_from(["take"] * 8 + ["defer", "refuse"]))
    def gateway_reads(self, answer: str) -> None:
        if answer == "refuse":
            self.excuses.add("refused")
        self.gateway.read(answer=answer)

    @precondition(lambda self: self.gateway.to_bridge)
    @rule(count=st.integers(1, 4))
    def bridge_reads(self, count: int) -> None:
        for _ in range(min(count, len(self.gateway.to_bridge))):
            self.deliver(self.gateway.to_bridge.pop(0))

    def deliver(self, event: Event) -> None:
        if self.is_released:
            return  # the table of turns has dropped the turn
        match event:
            case ev.PermissionAsked():
                self.carry_out(self.turn.permission_asked(event))
            case ev.PermissionClosed():
                self.carry_out(self.turn.permissions.closed(event.approval_id, event.decision))
            case ev.PermissionSettled():
                self.carry_out(self.turn.permissions.settled(event))
            case _:
                if isinstance(event, ev.AbortAnswered):
                    self.aborts_under_way = 0
                self.carry_out(self.turn.handle(event))

    # --- the agent ---------------------------------------------------------------------------

    def is_running(self) -> bool:
        return self.gateway.status == "running"

    @precondition(is_running)
    @rule(text=PIECES, has_delta=st.booleans(), is_dropped=st.booleans())
    def agent_says(self, text: str, has_delta: bool, is_dropped: bool) -> None:
        before = self.gateway.text
        self.gateway.say(text, has_delta=has_delta, is_dropped=is_dropped)
        if self.gateway.text != before:
            self.is_last_dropped = is_dropped

    @precondition(is_running)
    @rule(text=PIECES)
    def agent_thinks(self, text: str) -> None:
        if not self.gateway.approvals and not self.gateway.open_tools:  # the model waits for them
            self.gateway.think(text)

    @precondition(is_running)
    @rule()
    def agent_begins_tool(self) -> None:
        self.gateway.begin_tool()

    @precondition(lambda self: self.is_running() and self.gateway.open_tools)
    @rule(failed=st.booleans())
    def agent_ends_tool(self, failed: bool) -> None:
        if not self.gateway.approvals:
            self.gateway.end_tool(failed)

    @precondition(lambda self: self.is_running() and self.gateway.open_tools)
    @rule()
    def agent_asks(self) -> None:
        if not self.gateway.approvals:
            self.gateway.ask()

    @precondition(is_running)
    @rule(
        status=st.sampled_from(["finished", "finished", "failed", "aborted"]),
        is_due=SELDOM,
        carries_text=st.booleans(),
    )
    def run_ends(self, status: str, is_due: bool, carries_text: bool) -> None:
        if not is_due:
            return
        carries_text = carries_text and status != "failed"
        if self.is_last_dropped and not carries_text:
            self.gateway.say("z")  # the last event is never dropped then
        self.gateway.end(status, carries_text=carries_text)

    # --- the editor --------------------------------------------------------------------------

    @precondition(lambda self: not self.answers)
    @rule(is_due=SELDOM)
    def editor_cancels(self, is_due: bool) -> None:
        if not is_due:
            return
        effects = self.turn.cancel()
        if self.was_cancelled:
            assert not effects, "a second cancel does nothing"
        self.was_cancelled = True
        self.cancelled_while_taken |= not self.turn.is_over
        self.carry_out(effects)

    def open_question(self) -> ApprovalId | None:
        return next((key for key, value in self.questions.items() if value == "open"), None)

    @precondition(lambda self: self.open_question())
    @rule(choice=st.sampled_from(["allow-once", "deny"]))
    def editor_answers(self, choice: str) -> None:
        approval = self.open_question()
        assert approval is not None
        self.questions[approval] = choice
        outcome = {"outcome": {"outcome": "selected", "optionId": choice}}
        answer, is_up = EditorAnswer(result=outcome), self.gateway.is_connected
        self.carry_out(self.turn.permissions.answered(approval, answer, is_link_up=is_up))

    @precondition(lambda self: self.gateway.approvals)
    @rule(decision=st.sampled_from(["allow-once", "deny"]))
    def another_client_answers(self, decision: str) -> None:
        self.gateway.settle(next(iter(self.gateway.approvals)), decision)

    @precondition(lambda self: self.open_question())
    @rule()
    def question_expires(self) -> None:
        approval = self.open_question()
        assert approval is not None
        self.carry_out(self.turn.permissions.expired(approval))
        self.gateway.approvals.pop(approval, None)

    # --- time --------------------------------------------------------------------------------

    @precondition(lambda self: self.timer)
    @rule(is_due=SELDOM)
    def deadline_passes(self, is_due: bool) -> None:
        arm = self.timer
        if arm is None or not is_due:
            return
        if arm.kind is fx.DeadlineKind.CONNECT and self.gateway.is_connected:
            return  # the service waits for the hello, which has come
        self.timer = None
        if arm.kind not in (fx.DeadlineKind.RESEND, fx.DeadlineKind.CANCEL):
            self.excuses.add("deadline")
        self.carry_out(self.turn.deadline(arm.kind, arm.serial, GatewayUnreachable("no")))

    @rule()
    def an_old_deadline_passes(self) -> None:
        if self.timer is not None:
            serial = self.timer.serial - 1
            assert self.turn.deadline(fx.DeadlineKind.RECONNECT, serial) == []

    # --- what holds at any time --------------------------------------------------------------

    @invariant()
    def runs_once(self) -> None:
        assert self.gateway.starts <= 1

    @invariant()
    def says_nothing_twice(self) -> None:
        assert bare(self.gateway.text).startswith(bare(self.text))
        thoughts = iter(self.gateway.thoughts)
        for shown in self.thoughts.values():
            assert any(bare(thought).startswith(bare(shown)) for thought in thoughts)

    @invariant()
    def waits_for_something(self) -> None:
        """Whoever waits for the gateway does so under a deadline, but for a run at work."""
        if self.answers or (not self.gateway.is_connected and self.timer):
            return
        is_waiting = self.turn.state in (TurnState.SENT, TurnState.PROBING, TurnState.CANCELLING)
        assert self.timer or not is_waiting
        assert self.timer or self.gateway.is_connected

    def teardown(self) -> None:
        """Left to itself, the world comes to rest: answered, released, nothing left running that
        the editor wanted stopped."""
        if self.recording:
            self.prompt_is_recorded()
        if not self.has_slot:
            self.slot_is_free()
        for _ in range(ENOUGH):
            self.step()
        assert len(self.answers) == 1, "the prompt is not answered"
        assert self.is_released, "the session's next prompt waits for ever"
        is_given_up = "deadline" in self.excuses
        if self.was_cancelled and self.cancelled_while_taken and not is_given_up:
            assert self.gateway.status != "running", "the cancelled run goes on"

    def step(self) -> None:
        gateway = self.gateway
        if not gateway.is_connected:
            self.link_comes_back()
        elif gateway.to_gateway:
            gateway.read()
        elif gateway.to_bridge:
            self.deliver(gateway.to_bridge.pop(0))
        elif self.is_running() and not self.was_cancelled and not self.answers:
            gateway.end("finished")
        elif self.timer:
            self.deadline_passes(True)


@pytest.mark.timeout(300)
def test_a_turn_keeps_its_promises_in_every_order_of_events() -> None:
    run_state_machine_as_test(
        TurnMachine, settings=settings(max_examples=EXAMPLES, stateful_step_count=60, deadline=None)
    )

"""A gateway with one run and one connection, as far as a turn can notice: the model for the state
machine test of ``core.live_turn``.

Commands travel in one queue and events in another, so that a cut may lose either. The gateway
knows what it really did: how often the prompt ran, what was said, how it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from acp_bridge.core import endings
from acp_bridge.core import events as ev
from acp_bridge.core.commands import AbortRun, AnswerPermission, ProbeRun, RunCommand, StartRun
from acp_bridge.core.transcript import Part, SaidText, UsedTool
from acp_bridge.errors import GatewayRefused
from acp_bridge.ids import ApprovalId, RunId, SessionKey, ToolCallId

RUN = RunId("run")
KEY = SessionKey("agent:main:key")

Event = ev.RunEvent | ev.PermissionAsked | ev.PermissionClosed | ev.PermissionSettled


@dataclass
class GatewayModel:
    """One gateway. ``status`` is of the run: ``none``, ``running``, ``finished``, ``failed``,
    ``aborted``, or ``cut`` by a restart, after which nobody knows."""

    status: str = "none"
    starts: int = 0
    """How often the prompt was really run."""
    asked: int = 0
    segments: list[str] = field(default_factory=lambda: [""])
    thoughts: list[str] = field(default_factory=lambda: [""])
    open_tools: list[ToolCallId] = field(default_factory=list)
    tools: list[ToolCallId] = field(default_factory=list)
    ended_tools: dict[ToolCallId, bool] = field(default_factory=dict)
    approvals: dict[ApprovalId, ev.PermissionAsked] = field(default_factory=dict)
    decided: dict[ApprovalId, str] = field(default_factory=dict)
    to_gateway: list[RunCommand] = field(default_factory=list)
    to_bridge: list[Event] = field(default_factory=list)
    is_connected: bool = False
    silences: int = 0
    """How often in a row it has not told what became of the run."""

    # --- the wire ------------------------------------------------------------------------

    def cut(self, arrived: int) -> None:
        """The connection ends. The first commands under way still arrive, unanswered."""
        self.is_connected = False
        for command in self.to_gateway[:arrived]:
            self._carry_out(command)
        self.to_gateway.clear()
        self.to_bridge.clear()

    def read(self, *, answer: str = "take") -> None:
        """Take the next command. ``answer`` is what becomes of a prompt: ``take``, ``defer`` or
        ``refuse``, which leaves also a question about the run unanswered."""
        self._carry_out(self.to_gateway.pop(0), answer)

    def restart(self) -> None:
        """Forget all but the transcript; the connection is cut."""
        self.cut(0)
        if self.status == "running":
            self.status = "cut"
        self.approvals.clear()

    def tell(self, event: Event) -> None:
        """Send an event, if there is a connection."""
        if self.is_connected:
            self.to_bridge.append(event)

    # --- the agent -----------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The whole text so far, glued as 2026.9.6 does."""
        return "\n\n".join(part for part in map(str.rstrip, self.segments) if part)

    def say(self, text: str, *, has_delta: bool = True, is_dropped: bool = False) -> None:
        """More text. The whole text so far comes along, so that a dropped event is made good."""
        before = self.text
        self.segments[-1] += text
        after = self.text
        if after != before and not is_dropped:
            delta = after[len(before) :] if has_delta else None
            self.tell(ev.TextProgress(RUN, delta, False, after))

    def think(self, text: str) -> None:
        """More of the current thought, which comes along as a whole."""
        self.thoughts[-1] += text
        self.tell(ev.ThoughtProgress(RUN, text, self.thoughts[-1]))

    def begin_tool(self) -> None:
        """A tool call stands in the text."""
        call = ToolCallId(f"call-{len(self.tools)}")
        self.tools.append(call)
        self.open_tools.append(call)
        self.segments.append("")
        self.thoughts.append("")
        self.tell(ev.ToolStarted(RUN, call, "exec", {"command": f"make {call}"}))

    def end_tool(self, failed: bool) -> None:
        """The newest open tool call ends."""
        call = self.open_tools.pop()
        self.ended_tools[call] = failed
        self.tell(ev.ToolEnded(RUN, call, "exec", failed, "output"))

    def ask(self) -> ApprovalId:
        """The newest open tool call needs a decision."""
        call = self.open_tools[-1]
        self.asked += 1
        approval = ApprovalId(f"approval-{self.asked}")
        asked = ev.PermissionAsked(
            approval, RUN, KEY, call, f"make {call}", None, None, ("allow-once", "deny"), 60.0
        )
        self.approvals[approval] = asked
        self.thoughts.append("")  # nobody thinks while a tool waits
        self.tell(asked)
        return approval

    def settle(self, approval: ApprovalId, decision: str) -> None:
        """An approval is decided; everybody hears of it."""
        del self.approvals[approval]
        self.decided[approval] = decision
        self.tell(ev.PermissionClosed(approval, decision))

    def end(self, status: str, *, carries_text: bool = True) -> None:
        """The run ends by itself, or by somebody's abort."""
        self.status = status
        for approval in list(self.approvals):
            self.settle(approval, "deny")
        snapshot = self.text if carries_text and self.text else None
        match status:
            case "finished":
                self.tell(ev.RunEnded(RUN, ev.EndKind.FINISHED, snapshot, stop_reason="end_turn"))
            case "aborted":
                self.tell(ev.RunEnded(RUN, ev.EndKind.ABORTED, snapshot))
            case "failed":
                self.tell(ev.RunEnded(RUN, ev.EndKind.FAILED, error="broken"))
        # 2026.6.11 tells a failed run's end twice.
        if status == "failed":
            self.tell(
                ev.RunEnded(RUN, ev.EndKind.FAILED, error="Agent failed before reply: broken")
            )

    # --- what the gateway does -------------------------------------------------------------

    def _carry_out(self, command: RunCommand, answer: str = "take") -> None:
        match command:
            case StartRun():
                self._start(answer)
            case AbortRun():
                was_running = self.status == "running"
                self.tell(ev.AbortAnswered(RUN, aborted=was_running))
                if was_running:
                    self.end("aborted")
            case ProbeRun() if answer == "refuse" and self.silences < endings.MAX_PROBES - 1:
                self.silences += 1
                self.tell(ev.RunReported(RUN, ev.RunState.UNTOLD))
            case ProbeRun():
                self.silences = 0
                for approval in self.approvals.values():
                    self.tell(approval)
                self.tell(self._report())
            case AnswerPermission():
                self._decide(command)

    def _start(self, answer: str) -> None:
        if self.status in ("running", "finished", "failed", "aborted"):
            self.tell(ev.RunAccepted(RUN))
            self.tell(self._report())
        elif answer == "defer":
            self.tell(ev.RunDeferred(RUN))
        elif answer == "refuse":
            self.tell(ev.RunRefused(RUN, GatewayRefused("no")))
        else:
            self.starts += 1
            self.status = "running"
            self.tell(ev.RunAccepted(RUN))

    def _decide(self, command: AnswerPermission) -> None:
        approval, decision = command.approval_id, command.decision
        if approval in self.approvals:
            self.settle(approval, decision)
            self.tell(ev.PermissionSettled(approval, None))
        elif self.decided.get(approval) == decision:
            self.tell(ev.PermissionSettled(approval, None))
        else:
            self.tell(ev.PermissionSettled(approval, GatewayRefused("unknown approval")))

    def _report(self) -> ev.RunReported:
        states = {
            "none": ev.RunState.NOT_TAKEN,
            "running": ev.RunState.RUNNING,
            "finished": ev.RunState.FINISHED,
            "failed": ev.RunState.FAILED,
            "aborted": ev.RunState.ABORTED,
            "cut": ev.RunState.CUT,
        }
        return ev.RunReported(
            RUN,
            states[self.status],
            snapshot=self.text or None,
            error="broken" if self.status == "failed" else None,
            stop_reason="end_turn" if self.status == "finished" else None,
            parts=tuple(self._parts()),
        )

    def _parts(self) -> Iterator[Part]:
        for place, segment in enumerate(self.segments):
            if segment.strip():
                yield SaidText(segment.rstrip())
            if place < len(self.tools):
                call = self.tools[place]
                output = "output" if call in self.ended_tools else None
                args = {"command": f"make {call}"}
                yield UsedTool(call, "exec", args, output, self.ended_tools.get(call, False))

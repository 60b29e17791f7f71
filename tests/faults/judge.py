"""What went wrong in a run of the campaign, judged by what the gateway really did."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from acp_bridge.core.endings import PARTIAL
from tests.faults.agent import Truth
from tests.faults.conversation import Asked, Story
from tests.faults.plan import PROBES, SCALE
from tests.faults.rig import Json
from tests.support.waits import scaled

LOST: Final = "characters lost"
DOUBLED: Final = "characters doubled"
RUN_TWICE: Final = "runs doubled"
UNANSWERED: Final = "prompts unanswered"
WRONG_END: Final = "wrong endings"
LEFT_RUNNING: Final = "cancelled runs that go on"
SLOW_CANCEL: Final = "cancels slower than 2 s"
CARDS: Final = "tool calls lost or wrong"
PERMISSIONS: Final = "permissions wrong"
ORDER: Final = "messages out of order"
REPLAY: Final = "replays that differ"
BROKEN: Final = "runs that broke off"
CATEGORIES: Final = (
    LOST,
    DOUBLED,
    RUN_TWICE,
    UNANSWERED,
    WRONG_END,
    LEFT_RUNNING,
    SLOW_CANCEL,
    CARDS,
    PERMISSIONS,
    ORDER,
    REPLAY,
    BROKEN,
)

CANCEL_LIMIT: Final = 2.0
BUSY: Final = scaled(1.0)
"""Seconds of the wall that a busy machine takes."""
RACE: Final = scaled(0.3)
"""Seconds of the wall in which a cancel and an end may cross on a busy machine."""
_NEVER_SENT: Final = {
    "gateway_unreachable",
    "connect_timeout",
    "link_lost",
    "gateway_timeout",
    "too_large",
}


class Finding(NamedTuple):
    """Something that went wrong, so many times or characters."""

    category: str
    detail: str
    amount: int = 1


def judge(story: Story, *, scale: float = SCALE) -> list[Finding]:
    """All findings of a run; none if it went well. ``scale`` is how fast the bridge's time ran."""
    findings = [Finding(ORDER, violation) for violation in story.violations]
    for asked in story.prompts:
        truth = story.agent.truths[asked.plan.text]
        findings += _judge_ending(story, asked, truth)
        findings += _judge_cancel(asked, truth, CANCEL_LIMIT / scale + BUSY)
        findings += _judge_permissions(asked, truth)
        if truth.runs and asked.answer is not None:
            updates = _of_run(story.shown[asked.session_id], truth)
            findings += _judge_text(story, asked, truth, updates)
            findings += _judge_cards(story, asked, truth, updates)
    for session_id, shown in story.shown.items():
        findings += _judge_replay(shown, story.replayed.get(session_id, []))
    return findings


def bare(text: str) -> str:
    """Without white space, which may differ where a tool call stands in the text."""
    return re.sub(r"\s+", "", text)


def ending_of(answer: Json) -> str:
    """The stop reason, or the code of the error."""
    if "result" in answer:
        return str(answer["result"]["stopReason"])
    return str(answer["error"].get("data", {}).get("code"))


# --- how it ended ----------------------------------------------------------------------------


def _judge_ending(story: Story, asked: Asked, truth: Truth) -> list[Finding]:
    findings = []
    if len(truth.runs) > 1:
        findings.append(Finding(RUN_TWICE, asked.plan.text, len(truth.runs) - 1))
    if asked.answer is None:
        return [*findings, Finding(UNANSWERED, f"{asked.plan.text}, run {truth.status}")]
    ending = ending_of(asked.answer)
    right = _right_endings(story, asked, truth)
    if ending not in right:
        detail = f"{asked.plan.text}: {ending} for a run that is {truth.status} (right: {right})"
        findings.append(Finding(WRONG_END, detail))
    return findings


def _right_endings(story: Story, asked: Asked, truth: Truth) -> set[str]:
    by_status = {
        "ok": {"end_turn"},
        "error": {"run_failed"},
        "aborted": {"cancelled"},
        "cut": {"outcome_unknown"},
        "running": set(),
        "none": _NEVER_SENT,
    }
    right = set(by_status[truth.status])
    was_cut_early = truth.status == "none" and story.plan.restarts
    if PROBES & story.dropped or was_cut_early:
        right.add("outcome_unknown")  # the bridge asked, and the gateway could not tell
    if asked.cancelled_at is not None:
        is_race = asked.answered_at - asked.cancelled_at < RACE
        right = right | {"cancelled"} if is_race else {"cancelled"}
    return right


def _judge_cancel(asked: Asked, truth: Truth, limit: float) -> list[Finding]:
    findings = []
    if asked.cancelled_at is not None:
        took = asked.answered_at - asked.cancelled_at
        if took > limit:
            findings.append(Finding(SLOW_CANCEL, f"{asked.plan.text}: {took:.3f} s of the wall"))
    if truth.status == "running":
        findings.append(Finding(LEFT_RUNNING, asked.plan.text))
    return findings


def _judge_permissions(asked: Asked, truth: Truth) -> list[Finding]:
    calls = Counter(q["params"]["toolCall"]["toolCallId"] for q in asked.questions)
    findings = [Finding(PERMISSIONS, f"{call} asked twice") for call, n in calls.items() if n > 1]
    if "allowed" in truth.decisions and asked.plan.choice != "allow-once":
        findings.append(Finding(PERMISSIONS, f"{asked.plan.text}: allowed without a word"))
    return findings


# --- what was shown --------------------------------------------------------------------------


def _of_run(updates: Iterable[Json], truth: Truth) -> list[Json]:
    """The updates from a run's prompt on that name it, and its cards."""
    run_id = truth.runs[0].run_id
    own = set(truth.tools)
    return [
        update
        for update in updates
        if str(update.get("messageId", "")).startswith(run_id) or update.get("toolCallId") in own
    ]


def text_of(updates: Iterable[Json], part: str = ":text:") -> str:
    """The agent's text, or with ``:thought:`` its thoughts."""
    return "".join(
        update["content"]["text"] for update in updates if part in str(update.get("messageId"))
    )


def _judge_text(story: Story, asked: Asked, truth: Truth, updates: list[Json]) -> list[Finding]:
    shown, said = bare(text_of(updates)), bare(truth.said)
    thoughts = Counter(text_of(updates, ":thought:").split())
    findings = [Finding(DOUBLED, f"thought {w}", n - 1) for w, n in thoughts.items() if n > 1]
    assert asked.answer is not None
    ending = ending_of(asked.answer)
    # Without an answer to its questions about the text, be it dropped or too late, the bridge
    # cannot know what it missed; then it says so.
    has_told = PARTIAL in text_of(updates, ":notice:")
    may_be_cut = ending in {"cancelled", "outcome_unknown"}
    may_be_cut = may_be_cut or has_told
    if asked.plan.replaces:
        # What was shown before a rewrite stays; the final text follows as a whole.
        if not (shown.endswith(said) or may_be_cut):
            findings.append(
                Finding(LOST, f"{asked.plan.text}: {said!r} not at the end of {shown!r}")
            )
        return findings
    if said.startswith(shown):
        if said != shown and not may_be_cut:
            lost = f"{asked.plan.text}: {said[len(shown) :]!r} after {shown!r}"
            findings.append(Finding(LOST, lost, len(said) - len(shown)))
        return findings
    detail = f"{asked.plan.text}: said {said!r}, shown {shown!r}"
    if len(shown) < len(said):
        findings.append(Finding(LOST, detail, len(said) - len(shown)))
    else:
        findings.append(Finding(DOUBLED, detail, max(len(shown) - len(said), 1)))
    return findings


def _judge_cards(story: Story, asked: Asked, truth: Truth, updates: list[Json]) -> list[Finding]:
    statuses: dict[str, str] = {}
    for update in updates:
        if "toolCallId" in update and "status" in update:
            statuses[update["toolCallId"]] = update["status"]
    if truth.status not in ("ok", "error") or asked.cancelled_at is not None:
        return []
    if any(name.startswith("agent ") for name in story.dropped) or PROBES & story.dropped:
        return []  # the gateway did not tell
    return [
        Finding(CARDS, f"{call} is {statuses.get(call)}, failed: {failed}")
        for call, failed in truth.tools.items()
        if statuses.get(call) != ("failed" if failed else "completed")
    ]


# --- what a load shows -----------------------------------------------------------------------


def _judge_replay(shown: list[Json], replayed: list[Json]) -> list[Finding]:
    return [
        Finding(REPLAY, f"{name}: shown {before!r}, loaded {after!r}")
        for name, before, after in (
            ("texts", _texts(shown), _texts(replayed)),
            ("tool calls", _cards(shown), _cards(replayed)),
        )
        if before != after
    ]


def _texts(updates: Iterable[Json]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for update in updates:
        message = str(update.get("messageId"))
        if ":text:" in message or ":thought:" in message:
            texts[message] = texts.get(message, "") + update["content"]["text"]
    return texts


def _cards(updates: Iterable[Json]) -> dict[str, str]:
    return {
        update["toolCallId"]: update["status"]
        for update in updates
        if "toolCallId" in update and "status" in update
    }

"""From the entries of the ledger to the session updates of a load.

A replay shows the conversation as it was, not how it arrived: one chunk for each message, one card
for each tool call in its final state, one plan for each turn in its last state, permissions as
text. State that is fetched afresh (title, usage, commands, modes) is left out, and so is all that
means nothing any more: questions, terminals (ACP, session setup; field cases C034, C054).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from acp_bridge.core.endings import is_guess
from acp_bridge.core.turn_view import text_of
from acp_bridge.ids import Json, RunId
from acp_bridge.wire import updates
from acp_bridge.wire.content import text_block

MAX_CHUNK: Final = 128 * 1024
"""Characters of one chunk; a line of the editor's stays far below its bound."""

_CHUNKS: Final = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})
STATE: Final = frozenset(
    {
        "session_info_update",
        "usage_update",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
    }
)
"""Updates that are told afresh when a session is opened."""

_DECISIONS: Final = {
    "allow-once": "allowed once",
    "allow-always": "allowed always",
    "deny": "denied",
    "expired": "expired without an answer, which counts as denied",
    "elsewhere": "answered elsewhere",
}

INTERRUPTED: Final = (
    "(This turn was interrupted, and its outcome is unknown: look at the workspace before you send"
    " the prompt again.)"
)


INCOMPLETE: Final = "(Not all of this session was recorded.)"


class Recorded(NamedTuple):
    """One entry of the ledger, as far as a replay needs it."""

    kind: str
    payload: Json
    run_id: RunId | None
    at: int


class _Group(NamedTuple):
    """The entries of one run, or a single entry without one."""

    run_id: RunId | None
    entries: list[Recorded]


def replay_updates(
    entries: Sequence[Recorded],
    *,
    running: Collection[RunId] = (),
    trimmed: int = 0,
    complete: bool = True,
) -> list[Json]:
    """The updates of a load, in order. ``running`` are runs that go on after it; ``trimmed`` is
    how many entries were dropped at the head of the session, and ``complete`` says whether all
    else was recorded."""
    shown: list[Json] = []
    if trimmed:
        text = f"(The beginning of this session, {trimmed} entries, is no longer kept.)"
        shown.append(updates.message_chunk(text, "trimmed"))
    elif not complete:
        shown.append(updates.message_chunk(INCOMPLETE, "incomplete"))
    for group in _groups(entries):
        shown += _Turn(group, is_running=group.run_id in running).updates()
    return shown


def distinct(entries: Iterable[Recorded]) -> list[Recorded]:
    """The entries without what several processes have recorded of one turn: each part of a text
    once, by its place in it, and one prompt a run, the editor's own rather than the gateway's.

    A prompt that follows other entries of its run begins the run anew: their beginning was lost,
    and was found again at the gateway.
    """
    kept: list[Recorded] = []
    prompts: dict[RunId, int] = {}
    reached: dict[tuple[RunId, str], int] = {}
    for entry in _from_their_beginnings(list(entries)):
        if entry.run_id is None:
            kept.append(entry)
        elif entry.kind == "update" and "until" in entry.payload:
            if (fresh := _fresh(entry.run_id, entry.payload, reached)) is not None:
                kept.append(entry._replace(payload=fresh))
        elif entry.kind != "prompt" or entry.run_id not in prompts:
            if entry.kind == "prompt":
                prompts[entry.run_id] = len(kept)
            kept.append(entry)
        elif kept[prompts[entry.run_id]].payload.get("source") == "gateway":
            kept[prompts[entry.run_id]] = entry
    return kept


def _from_their_beginnings(entries: list[Recorded]) -> list[Recorded]:
    begun: dict[RunId | None, int] = {}
    for number, entry in enumerate(entries):
        if entry.kind == "prompt" and entry.run_id is not None:
            begun.setdefault(entry.run_id, number)
    return [e for number, e in enumerate(entries) if number >= begun.get(e.run_id, 0)]


def _fresh(run_id: RunId, payload: Json, reached: dict[tuple[RunId, str], int]) -> Json | None:
    """A chunk as it was shown, without what was there before; None if nothing is left."""
    update = {name: value for name, value in payload.items() if name not in ("offset", "until")}
    track = run_id, str(payload.get("messageId")).rpartition(":")[0]
    before, offset, until = reached.get(track, 0), payload["offset"], payload["until"]
    if until <= before:
        return None
    reached[track] = until
    if offset >= before:
        return update
    text = update["content"]["text"][before - offset :]
    return {**update, "content": {**update["content"], "text": text}}


def open_runs(entries: Iterable[Recorded]) -> list[RunId]:
    """Runs of this session that have begun here and whose end is not recorded, oldest first."""
    begun: dict[RunId, bool] = {}
    for entry in entries:
        if entry.run_id is None:
            continue
        if entry.kind == "prompt":
            begun.setdefault(entry.run_id, True)
        elif entry.kind == "outcome" and entry.run_id in begun:
            begun[entry.run_id] = False
    return [run_id for run_id, is_open in begun.items() if is_open]


def runs_given_up(entries: Iterable[Recorded]) -> list[RunId]:
    """Runs that were answered without knowing their end, oldest first."""
    ends = {
        entry.run_id: is_guess(entry.payload)
        for entry in entries
        if entry.kind == "outcome" and entry.run_id is not None
    }
    return [run_id for run_id, is_given_up in ends.items() if is_given_up]


def last_usage(entries: Iterable[Recorded]) -> Json | None:
    """The last token counts that were shown."""
    shown = (entry.payload for entry in entries if entry.kind == "update")
    found = [each for each in shown if each.get("sessionUpdate") == "usage_update"]
    return found[-1] if found else None


def runs_at_gateway(entries: Iterable[Recorded]) -> dict[RunId, RunId]:
    """The runs that the gateway has taken up again under another name, with that name."""
    return {
        entry.run_id: RunId(entry.payload["runId"])
        for entry in entries
        if entry.kind == "resumed" and entry.run_id is not None
    }


def _groups(entries: Iterable[Recorded]) -> list[_Group]:
    """Runs in the order of their beginning; one that names a run that it follows comes after it,
    however late it was recorded."""
    by_run: dict[RunId, _Group] = {}
    groups: list[_Group] = []
    for entry in entries:
        if entry.run_id is not None and entry.run_id in by_run:
            by_run[entry.run_id].entries.append(entry)
            continue
        group = _Group(entry.run_id, [entry])
        after = entry.payload.get("after") if entry.kind == "prompt" else None
        place = _place(groups, after) if after is not None else len(groups)
        groups.insert(place, group)
        if entry.run_id is not None:
            by_run[entry.run_id] = group
    return groups


def _place(groups: list[_Group], after: Any) -> int:
    if after == "":  # it was there before anything of ours
        return 0
    for index, group in enumerate(groups):
        if group.run_id == after:
            return index + 1
    return len(groups)


class _Turn:
    """One turn, put together from its entries."""

    def __init__(self, group: _Group, *, is_running: bool) -> None:
        self._group = group
        self._is_running = is_running
        self._shown: list[Json] = []
        self._cards: dict[str, Json] = {}
        self._questions: dict[str, tuple[Json, str]] = {}
        self._texts: list[tuple[Json, list[str]]] = []
        """Chunks and the parts of their texts, put together in the end."""
        self._plan: Json | None = None
        self._has_prompt = False
        self._is_ended = False

    def updates(self) -> list[Json]:
        """What the turn shows."""
        for entry in self._group.entries:
            match entry.kind:
                case "prompt":
                    self._prompt(entry)
                case "update":
                    self._update(entry.payload)
                case "permission":
                    self._question(entry.payload)
                case "decision":
                    self._decision(entry.payload)
                case "outcome":
                    self._is_ended = True
                case _:  # of a later version, which an older one may meet
                    pass
        self._close()
        return list(_split(self._shown))

    def _prompt(self, entry: Recorded) -> None:
        self._has_prompt = True
        for block in entry.payload.get("prompt") or ():
            if isinstance(block, dict):
                self._shown.append(updates.user_chunk(block, f"{entry.run_id}:user"))
        note = entry.payload.get("note")
        if isinstance(note, str):
            self._shown.append(updates.message_chunk(note, f"{entry.run_id}:note"))

    def _update(self, update: Json) -> None:
        kind = update.get("sessionUpdate")
        if kind in _CHUNKS:
            self._chunk(update)
        elif kind == "tool_call":
            self._card(update)
        elif kind == "tool_call_update":
            self._change(update)
        elif kind == "plan":
            if self._plan is not None:
                self._shown.remove(self._plan)
            self._plan = {**update}
            self._shown.append(self._plan)
        elif kind not in STATE:
            self._shown.append({**update})

    def _chunk(self, update: Json) -> None:
        text = text_of(update)
        if text is None:
            self._shown.append({**update})
            return
        last = self._shown[-1] if self._shown else None
        if self._texts and last is self._texts[-1][0] and _joins(last, update):
            self._texts[-1][1].append(text)
            return
        chunk = {**update, "content": {**update["content"]}}
        self._texts.append((chunk, [text]))
        self._shown.append(chunk)

    def _card(self, update: Json) -> None:
        call_id = str(update.get("toolCallId"))
        if call_id in self._cards:
            self._change(update)
            return
        self._cards[call_id] = {**update}
        self._shown.append(self._cards[call_id])

    def _change(self, update: Json) -> None:
        call_id = str(update.get("toolCallId"))
        if call_id not in self._cards:
            self._card({"title": "tool", **update, "sessionUpdate": "tool_call"})
            return
        card = self._cards[call_id]
        is_paraphrase = update.get("sessionUpdate") == "tool_call" and "rawInput" not in update
        # Another process that only watched the turn was told what the tool does in other words.
        kept = {"title", "kind"} if is_paraphrase and "rawInput" in card else set()
        left_out = {"sessionUpdate", *kept}
        card.update({name: value for name, value in update.items() if name not in left_out})

    def _question(self, params: Json) -> None:
        call = params.get("toolCall")
        raw = call.get("rawInput") if isinstance(call, dict) else None
        command = raw.get("command") if isinstance(raw, dict) else None
        text = f"Permission asked: {command}" if isinstance(command, str) else "Permission asked"
        approval = str(params.get("approvalId"))
        chunk = updates.message_chunk(text, f"{approval}:permission")
        self._questions[approval] = chunk, text
        self._shown.append(chunk)

    def _decision(self, payload: Json) -> None:
        if question := self._questions.get(str(payload.get("approvalId"))):
            chunk, text = question
            told = _DECISIONS.get(str(payload.get("decision")), "answered")
            chunk["content"] = text_block(f"{text} ({told})")

    def _close(self) -> None:
        for chunk, parts in self._texts:
            chunk["content"]["text"] = "".join(parts)
        for card in self._cards.values():
            card["content"] = _without_terminals(card.get("content"))
            if card.get("status") not in ("completed", "failed") and not self._is_running:
                card["status"] = "failed"
        if self._has_prompt and not self._is_ended and not self._is_running:
            self._shown.append(
                updates.message_chunk(INTERRUPTED, f"{self._group.run_id}:interrupted")
            )


def _joins(last: Json, update: Json) -> bool:
    """Whether two chunks of text are of one message, and nothing else is said of either."""
    told = [
        (
            *(chunk.get(name) for name in ("sessionUpdate", "messageId", "_meta")),
            {name: value for name, value in chunk["content"].items() if name != "text"},
        )
        for chunk in (last, update)
    ]
    return told[0] == told[1]


def _without_terminals(content: Any) -> list[Json]:
    """A terminal belongs to a client that is gone."""
    found = content if isinstance(content, list) else []
    return [each for each in found if isinstance(each, dict) and each.get("type") != "terminal"]


def _split(shown: Iterable[Json]) -> Iterator[Json]:
    for update in shown:
        text = text_of(update) if update["sessionUpdate"] in _CHUNKS else None
        if text is None or len(text) <= MAX_CHUNK:
            yield update
            continue
        for start in range(0, len(text), MAX_CHUNK):
            piece = text[start : start + MAX_CHUNK]
            yield {**update, "content": {**update["content"], "text": piece}}

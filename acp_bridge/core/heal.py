"""What the gateway's transcript knows of a session and the ledger lacks.

Four things are missing after a crash or a gap: the rest of a turn that ended while nobody
listened or was given up, turns of other clients, work that the gateway resumed by itself after a
restart, and turns whose beginning was recorded in a ledger that is no longer there. They become
entries like any others, marked as added, so that the next replay has them without asking again.
Every added entry has a stable key: two bridges that heal one session add it once.

Nothing is shown twice: the text of a turn that both have is compared as a stream is
(``core.chunks``), tool calls by their id, turns by their run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from acp_bridge.core import endings
from acp_bridge.core import events as ev
from acp_bridge.core.chunks import Chunk, TextTrack, ThoughtTrack
from acp_bridge.core.replay import Recorded
from acp_bridge.core.tool_calls import ToolCalls
from acp_bridge.core.transcript import PastTurn, SaidText, SaidThought, Transcript, UsedTool
from acp_bridge.core.turn_view import (
    RESUMED,
    is_of_agent,
    notice_name,
    notices,
    relive,
    text_of,
)
from acp_bridge.ids import Json, RunId
from acp_bridge.wire import updates
from acp_bridge.wire.content import image_block, text_block

ADDED: Final = "(Added from the gateway's transcript; details of its tools are not available.)"
LATER: Final = "(What became of it, from the gateway's transcript:)"
GAP: Final = "(Turns before it may be missing: the gateway shows no more.)"

_MASK: Final = "***"


class Addition(NamedTuple):
    """An entry to be recorded. ``key`` is stable within the session."""

    record: Recorded
    key: str


def additions(
    entries: Sequence[Recorded],
    transcript: Transcript,
    *,
    cwd: str,
    now: int,
    live: Collection[RunId] = (),
    is_trimmed: bool = False,
) -> list[Addition]:
    """The entries that the ledger lacks, in the order in which they are to be recorded.

    A turn that still runs, or whose end is being heard in this process (``live``), is left alone:
    its rest comes live. ``now`` (UTC milliseconds) is the time of what the transcript does not
    date. The turns before all that a trimmed ledger (``is_trimmed``) still knows are those that
    its limits let go, like the beginning of the first that it knows: they are not brought back.
    """
    known = _known_runs(entries)
    if is_trimmed and (first := next(iter(known), None)) is not None:
        known[first] = known[first]._replace(has_beginning=True, has_prompt=True, is_trimmed=True)
    found: list[Addition] = []
    resumed = _resumptions(entries)
    before = _last_before(transcript, known)
    note = ADDED if transcript.is_whole else f"{ADDED} {GAP}"
    for turn in _kept(transcript.turns, known) if is_trimmed else transcript.turns:
        shown = turn.run_id or (turn.is_system and next(resumed.get(before, iter(())), None))
        run_id = _unmasked(shown or _name(turn), known, transcript.running)
        at = turn.at or now
        is_running = run_id in live or run_id == transcript.running
        if turn.is_system and before in known:
            if not is_running and before not in live:
                name = turn.run_id or run_id
                found += _resumed(RunId(before), known.get(run_id), turn, cwd, at, name)
        elif run_id in known and (known[run_id].has_beginning or is_running):
            found += _more(run_id, before, known[run_id], turn, cwd, at, note, is_running)
            before = run_id
        elif not is_running:
            found += _whole(run_id, before, turn, cwd, at, note)
            before = run_id
        note = ADDED
    return found


def _last_before(transcript: Transcript, known: Iterable[RunId]) -> RunId | str:
    """The last known run from before all that the transcript holds; it may begin late, since the
    gateway shows no more, or since the session was reset there."""
    there = {_unmasked(turn.run_id, known) for turn in transcript.turns if turn.run_id}
    before: RunId | str = ""
    for run_id in known:
        if run_id in there:
            break
        before = run_id
    return before


class _Known(NamedTuple):
    """What the ledger has of a run."""

    updates: list[Json]
    is_ended: bool
    has_beginning: bool = False
    has_prompt: bool = False
    """False for another client's turn that was only watched."""
    is_given_up: bool = False
    """Whether it was answered without knowing its end."""
    is_trimmed: bool = False
    """Whether its beginning was let go."""


def _known_runs(entries: Iterable[Recorded]) -> dict[RunId, _Known]:
    known: dict[RunId, _Known] = {}
    names: dict[RunId, RunId] = {}
    for entry in entries:
        if entry.run_id is None:
            continue
        name = names.get(entry.run_id, entry.run_id)
        is_other_part = name != entry.run_id
        run = known.setdefault(name, _Known([], False, is_other_part, is_other_part))
        if entry.kind == "update":
            run.updates.append(entry.payload)
        elif entry.kind == "prompt":
            is_empty = not entry.payload.get("prompt") and entry.payload.get("source") == "gateway"
            known[name] = run._replace(has_beginning=True, has_prompt=not is_empty)
        elif entry.kind == "outcome":
            is_guess = endings.is_guess(entry.payload)
            known[name] = run._replace(is_ended=not is_guess, is_given_up=is_guess)
        elif entry.kind == "resumed":  # what follows belongs to the other part
            known[name] = run._replace(is_ended=True)
            names[entry.run_id] = RunId(entry.payload["runId"])
    return known


def _resumptions(entries: Iterable[Recorded]) -> dict[RunId | str, Iterator[RunId]]:
    """The runs as which each run was seen to go on, in order: 2026.6.11 does not name them."""
    names: dict[RunId | str, list[RunId]] = {}
    for entry in entries:
        if entry.kind == "resumed" and entry.run_id is not None:
            names.setdefault(entry.run_id, []).append(RunId(entry.payload["runId"]))
    return {run_id: iter(dict.fromkeys(resumed)) for run_id, resumed in names.items()}


def _kept(turns: Sequence[PastTurn], known: Collection[RunId]) -> Sequence[PastTurn]:
    """From the first known turn on; all of them if none is known, since they are then newer."""
    for number, turn in enumerate(turns):
        if _unmasked(turn.run_id or _name(turn), known) in known:
            return turns[number:]
    return turns


def _unmasked(shown: RunId, known: Iterable[RunId], running: RunId | None = None) -> RunId:
    """The run that a transcript means. OpenClaw masks what looks like a credential, and the end
    of a UUID may: ``5f56e886-f1b4-482c-8efc-75ab5ca61b47`` comes as ``5f56e886-f1b4-482c-8e***``.
    """
    begin, mask, end = shown.partition(_MASK)
    if not mask:
        return shown
    runs = [*known, running] if running else known
    fits = (each for each in runs if each.startswith(begin) and each.endswith(end))
    return next(fits, shown)


def _name(turn: PastTurn) -> RunId:
    """A stable name for a turn that no key identifies."""
    digest = hashlib.sha256(f"{turn.at}\n{turn.prompt}".encode("utf-8", "replace"))
    return RunId(f"gateway-{digest.hexdigest()[:16]}")


def _whole(
    run_id: RunId, before: RunId | str, turn: PastTurn, cwd: str, at: int, note: str
) -> list[Addition]:
    """A turn that the ledger has nothing of."""
    writer = _Writer(run_id, at)
    writer.written.append(_prompt(run_id, before, turn, at, note))
    writer.parts(turn, ToolCalls(cwd))
    writer.end(turn)
    return writer.written


def _prompt(run_id: RunId, before: RunId | str, turn: PastTurn, at: int, note: str) -> Addition:
    blocks = [text_block(turn.prompt)] if turn.prompt else []
    blocks += [
        image_block(each.content, each.mime_type)
        for each in turn.attachments
        if each.kind == "image" and each.content
    ]
    prompt: Json = {"prompt": blocks, "after": before, "note": note, "source": "gateway"}
    return Addition(Recorded("prompt", prompt, run_id, at), f"added:{run_id}:user")


def _more(
    run_id: RunId,
    before: RunId | str,
    known: _Known,
    turn: PastTurn,
    cwd: str,
    at: int,
    note: str,
    is_running: bool,
) -> list[Addition]:
    """What is to be added to a turn that the ledger has the beginning of."""
    found = []
    if not known.has_prompt and turn.prompt:
        found.append(_prompt(run_id, before, turn, at, note))
    if is_running or known.is_ended:
        return found
    rest = _rest(run_id, known, turn, cwd, at)
    if known.is_given_up and any(each.record.kind == "update" for each in rest):
        later = _Writer(run_id, at, told=notices(known.updates))
        later.notice(f"\n\n{LATER}\n\n", "later")
        found += later.written
    return found + rest


def _rest(
    run_id: RunId, known: _Known, turn: PastTurn, cwd: str, at: int, name: RunId | None = None
) -> list[Addition]:
    """The part of a turn that fell into a gap."""
    tools = ToolCalls(cwd)
    text, thoughts = TextTrack(), ThoughtTrack()
    gone = _trimmed(known, turn) if known.is_trimmed else None
    if gone:
        text.relive(gone, "trimmed")
    for update in known.updates:
        relive(update, text, thoughts, tools)
    told = notices(known.updates)
    writer = _Writer(run_id, at, name=name, text=text, thoughts=thoughts, told=told)
    said = ""
    for part in turn.parts if gone is not None or not known.is_trimmed else ():
        if isinstance(part, SaidText):
            said = text.glued(said, part.text.rstrip())
            writer.chunks(text.feed(None, False, said))
        elif isinstance(part, UsedTool):
            if not tools.knows(part.tool_call_id, part.name, part.args):
                if gone and len(said) <= len(gone):
                    continue  # it was let go with the text around it
                writer.chunks(text.break_message())
            writer.tool(tools, part)
    writer.chunks(text.finish(said or None))
    writer.end(turn)
    return writer.written


def _trimmed(known: _Known, turn: PastTurn) -> str | None:
    """The text that was let go at the head of a turn; None if that cannot be told."""
    kept = [update for update in known.updates if "offset" in update and is_of_agent(update)]
    said = "".join(part.text for part in turn.parts if isinstance(part, SaidText))
    if not kept:
        return None
    begin = kept[0]["offset"]
    shown = "".join(text_of(update) or "" for update in kept)
    return said[:begin] if said[begin:].startswith(shown) else None


def _resumed(
    run_id: RunId, known: _Known | None, turn: PastTurn, cwd: str, at: int, name: RunId
) -> list[Addition]:
    """Work that the gateway went on with under another name: the rest of the turn before, as far
    as it was not seen live."""
    if known is not None:
        return [] if known.is_ended else _rest(run_id, known, turn, cwd, at, name)
    writer = _Writer(run_id, at, name=name)
    writer.notice(f"{RESUMED}\n\n", "resumed")
    writer.parts(turn, ToolCalls(cwd))
    writer.end(turn)
    return writer.written


class _Writer:
    """Makes the entries of one turn, each with its key. Texts have the names and the places that
    they have when they are seen live: who was away for a while may still record them."""

    def __init__(
        self,
        run_id: RunId,
        at: int,
        *,
        name: RunId | None = None,
        text: TextTrack | None = None,
        thoughts: ThoughtTrack | None = None,
        told: Collection[str] = (),
    ) -> None:
        self.written: list[Addition] = []
        self._run_id = run_id
        self._at = at
        self._name = name or run_id
        """Another one than the run's for what was resumed."""
        self._text = text or TextTrack()
        self._thoughts = thoughts or ThoughtTrack()
        self._told = told
        """The names of notices that the turn has already."""

    def add(self, kind: str, payload: Json, name: str) -> None:
        self._add(kind, payload, f"added:{self._name}:{name}")

    def parts(self, turn: PastTurn, tools: ToolCalls) -> None:
        for part in turn.parts:
            match part:
                case SaidText():
                    self.chunks(self._text.feed(part.text, False, None))
                case SaidThought():
                    self._think(self._thoughts.feed(part.text, None))
                    self._think(self._thoughts.break_message())
                case UsedTool():
                    self.chunks(self._text.break_message())
                    self.tool(tools, part)

    def chunks(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            message_id = f"{self._name}:text:{chunk.message_index}"
            self._place(updates.message_chunk(chunk.text, message_id), chunk, "say")

    def _think(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            message_id = f"{self._name}:thought:{chunk.message_index}"
            self._place(updates.thought_chunk(chunk.text, message_id), chunk, "think")

    def notice(self, text: str, what: str) -> None:
        """A line of the bridge's or the gateway's own."""
        name = notice_name(self._run_id, what, self._told)
        self._add("update", updates.message_chunk(text, name), name)

    def tool(self, tools: ToolCalls, part: UsedTool) -> None:
        """The card and the end of a call, as far as ``tools`` has not shown them."""
        news = []
        if not tools.knows(part.tool_call_id, part.name, part.args):
            started = ev.ToolStarted(self._run_id, part.tool_call_id, part.name, part.args)
            news += tools.feed(started)
        if part.output is not None:
            news += tools.adopt_end(part.tool_call_id, part.failed, part.output)
        for number, update in enumerate(news):
            self.add("update", update, f"tool:{part.tool_call_id}:{number}")

    def end(self, turn: PastTurn) -> None:
        """The outcome, if the transcript knows one; a failed turn says why."""
        if turn.error:
            self.notice(turn.error, "end")
            error = {"message": turn.error, "data": {"code": "run_failed"}}
            self.add("outcome", {"error": error}, "end")
        elif turn.stop_reason is not None:
            self.add("outcome", {"stop_reason": turn.stop_reason}, "end")

    def _place(self, update: Json, chunk: Chunk, name: str) -> None:
        until = chunk.offset + len(chunk.text)
        payload = {**update, "offset": chunk.offset, "until": until}
        self.add("update", payload, f"{name}:{chunk.offset}")

    def _add(self, kind: str, payload: Json, key: str) -> None:
        self.written.append(Addition(Recorded(kind, payload, self._run_id, self._at), key))

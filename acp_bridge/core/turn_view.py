"""What one turn has shown to the editor, and how news of the run become session updates.

This memory belongs to the turn and not to a connection: after a reconnect it tells what was
missed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from acp_bridge.core import events as ev
from acp_bridge.core.chunks import Chunk, TextTrack, ThoughtTrack
from acp_bridge.core.effects import Effect, Show
from acp_bridge.core.marks import Marks, marked
from acp_bridge.core.segments import up_to
from acp_bridge.core.tool_calls import ToolCalls
from acp_bridge.core.transcript import Part, SaidText, SaidThought, UsedTool
from acp_bridge.ids import Json, RunId
from acp_bridge.wire import updates

RESUMED: Final = "(The gateway was restarted and went on with this turn by itself.)"
OUTAGE: Final = "(There is no connection to the gateway; reconnecting…)"
OUTAGE_OVER: Final = "(The connection to the gateway is back.)"
UNSEEN: Final = (
    "(The connection was lost in the middle of this turn. The gateway may be going on with it where"
    " it cannot be seen: the answer is shown here as soon as the gateway has stored it. Cancel to"
    " stop waiting.)"
)

CUT_OFF: Final = (
    "(This turn has brought more than acp-bridge keeps of one; nothing more of it is shown but its"
    " end.)"
)


def relive(update: Json, text: TextTrack, thoughts: ThoughtTrack, tools: ToolCalls) -> None:
    """Feed one update that was shown earlier to the memory of its turn."""
    kind, shown = update.get("sessionUpdate"), text_of(update)
    if kind == "agent_message_chunk" and shown is not None and is_of_agent(update):
        text.relive(shown, str(update.get("messageId")))
    elif kind == "agent_thought_chunk" and shown is not None:
        thoughts.feed(shown, None)
    elif is_tool_call(update):
        if kind == "tool_call":
            text.break_message()
            thoughts.break_message()
        tools.adopt(update)


def is_tool_call(update: Json) -> bool:
    """Whether an update shows a tool call or a change of one."""
    return update.get("sessionUpdate") in ("tool_call", "tool_call_update")


def text_of(update: Json) -> str | None:
    """The text of a chunk, if it is a chunk of text."""
    content = update.get("content")
    if not isinstance(content, dict) or content.get("type") != "text":
        return None
    text = content.get("text")
    return text if isinstance(text, str) else None


def is_of_agent(update: Json) -> bool:
    """Whether the text is the agent's and not a notice of the bridge."""
    return ":text:" in str(update.get("messageId"))


def notice_name(run_id: RunId, what: str, told: Collection[str]) -> str:
    """A message id for a line of the bridge's or the gateway's own, which none of ``told`` has: a
    turn that was given up and taken up again ends twice."""
    name, number = f"{run_id}:notice:{what}", 1
    while name in told:
        number += 1
        name = f"{run_id}:notice:{what}:{number}"
    return name


def notices(shown: Iterable[Json]) -> set[str]:
    """The message ids of the lines among what was shown that are not the agent's."""
    names = (str(update.get("messageId")) for update in shown)
    return {name for name in names if ":notice:" in name}


class TurnView:
    """Text, thoughts and tool calls of one turn. Each method returns what to show."""

    def __init__(self, run_id: RunId, tools: ToolCalls) -> None:
        self._name = run_id
        """Names the messages."""
        self._text = TextTrack()
        self._thoughts = ThoughtTrack()
        self._tools = tools
        self._tells_outage = self._tells_unseen = self._is_cut_off = False
        self._outages = 0
        self._marked: dict[bool, str] = {}
        """The gateway's names of the messages that were marked last; the text's under True."""
        self._told: set[str] = set()
        """The names of notices."""
        self.is_empty = True
        """Whether the editor has seen nothing of this turn."""

    def progress(self, event: ev.RunEvent) -> list[Effect]:
        """News of a running run; events that show nothing give nothing."""
        match event:
            case ev.TextProgress():
                begun = self._begin_marked(event.marks, self._text)
                chunks = self._text.feed(event.delta, event.replace, event.snapshot)
                return self._say(begun) + self._say(chunks, event.marks)
            case ev.ThoughtProgress():
                begun = self._begin_marked(event.marks, self._thoughts)
                chunks = self._thoughts.feed(event.delta, event.snapshot)
                return self._think(begun) + self._think(chunks, event.marks)
            case ev.PlanChanged():
                return self._show([updates.plan(event.entries)])
            case ev.Updated(_, update):
                self._tools.adopt(update) if is_tool_call(update) else None
                return self._tool_news([update])
            case (
                ev.ToolStarted()
                | ev.ToolProgress()
                | ev.ToolEnded()
                | ev.ItemChanged()
                | ev.CommandOutput()
            ):
                return self._tool_news(self._tools.feed(event))
            case _:
                return []

    def relive(self, shown: Iterable[Json]) -> None:
        """Bring the memory to where an earlier process left it."""
        shown = list(shown)
        self._told |= notices(shown)
        for update in shown:
            self.is_empty = False
            relive(update, self._text, self._thoughts, self._tools)

    def caught_up(self, snapshot: str | None) -> list[Effect]:
        """The whole text so far, as told after a reconnect."""
        return self._say(self._text.feed(None, False, snapshot))

    def missed(self, parts: Iterable[Part], snapshot: str | None) -> list[Effect]:
        """Tool calls that began or ended while nobody listened, each after what was said before
        it. ``parts`` is all that the transcript has of the run, ``snapshot`` its whole text."""
        effects: list[Effect] = []
        said: list[str] = []
        for part in parts:
            match part:
                case SaidText(text):
                    said.append(text)
                case UsedTool(tool_call_id, name, args, output, failed):
                    if not self._tools.knows(tool_call_id, name, args):
                        effects += self.caught_up(up_to(said, snapshot))
                        started = ev.ToolStarted(self._name, tool_call_id, name, args)
                        effects += self.progress(started)
                    if output is not None:
                        ended = self._tools.adopt_end(tool_call_id, failed, output)
                        effects += self._tool_news(ended)
                case SaidThought():
                    pass  # it may have been shown in other words
        return effects

    def begin_message(self) -> list[Effect]:
        """Something stands between: what follows is a message of its own."""
        self.is_empty = False
        return [
            *self._think(self._thoughts.break_message()),
            *self._say(self._text.break_message()),
        ]

    def thought(self, snapshot: str) -> list[Effect]:
        """A thought that only the end of the run carries."""
        return self._think(self._thoughts.finish(snapshot))

    def close(self, *, failed: bool, snapshot: str | None) -> list[Effect]:
        """End open tool calls and show the last of the text, before the turn is answered."""
        return [
            *self._show(self._tools.end_all(failed, None)),
            *self._think(self._thoughts.finish()),
            *self._say(self._text.finish(snapshot)),
        ]

    def resumed(self, run_id: RunId) -> list[Effect]:
        """The gateway goes on with the work after a restart, as a run of its own."""
        effects = [
            *self.close(failed=True, snapshot=None),
            *self.notice(f"{RESUMED}\n\n", "resumed"),
        ]
        self._name = run_id
        self._text, self._thoughts = TextTrack(), ThoughtTrack()
        return effects

    def outage(self) -> list[Effect]:
        """Say, once in an outage, that the connection is lost."""
        if self._tells_outage:
            return []
        self._tells_outage = True
        self._outages += 1
        return self.between(OUTAGE, f"outage:{self._outages}")

    def outage_over(self) -> list[Effect]:
        """Say that the connection is back, if its loss was told."""
        if not self._tells_outage:
            return []
        self._tells_outage = False
        return self.between(OUTAGE_OVER, f"outage over:{self._outages}")

    def unseen(self) -> list[Effect]:
        """Say, once, that the run goes on where nobody sees it."""
        if self._tells_unseen:
            return []
        self._tells_unseen = True
        return self.between(UNSEEN, "unseen")

    def cut_off(self) -> list[Effect]:
        """Say, once, that nothing more is shown."""
        if self._is_cut_off:
            return []
        self._is_cut_off = True
        return self.between(CUT_OFF, "cut off")

    def between(self, text: str, what: str) -> list[Effect]:
        """A notice in the middle of what the agent says."""
        effects = self.notice(f"{text}\n\n", what)
        self._text.split_message()
        self._thoughts.split_message()
        return effects

    def notice(self, text: str, what: str = "end") -> list[Effect]:
        """A line of the bridge's or the gateway's own, as a message of its own. It begins a new
        paragraph also where an editor puts all text of a turn together."""
        if not self.is_empty:
            text = "\n\n" + text
        name = notice_name(self._name, what, self._told)
        self._told.add(name)
        return self._shown([Show(updates.message_chunk(text, name), key=name)])

    def _begin_marked(self, marks: Marks | None, track: TextTrack | ThoughtTrack) -> list[Chunk]:
        """Begin a message if the gateway does; gives what is to be shown before it."""
        is_text = isinstance(track, TextTrack)
        known, name = self._marked.get(is_text), marks.message_id if marks is not None else None
        if name is None or name == known:
            return []
        self._marked[is_text] = name
        return track.break_message() if known is not None else []

    def _say(self, chunks: Iterable[Chunk], marks: Marks | None = None) -> list[Effect]:
        return self._shown(
            Show(
                marked(
                    updates.message_chunk(chunk.text, f"{self._name}:text:{chunk.message_index}"),
                    marks,
                ),
                chunk.offset,
            )
            for chunk in chunks
        )

    def _think(self, chunks: Iterable[Chunk], marks: Marks | None = None) -> list[Effect]:
        return self._shown(
            Show(
                marked(
                    updates.thought_chunk(
                        chunk.text, f"{self._name}:thought:{chunk.message_index}"
                    ),
                    marks,
                ),
                chunk.offset,
            )
            for chunk in chunks
        )

    def _tool_news(self, news: list[Json]) -> list[Effect]:
        if any(update["sessionUpdate"] == "tool_call" for update in news):
            return self.begin_message() + self._show(news)
        return self._show(news)

    def _show(self, shown: Iterable[Json]) -> list[Effect]:
        return self._shown(Show(update) for update in shown)

    def _shown(self, shown: Iterable[Show]) -> list[Effect]:
        effects: list[Effect] = list(shown)
        self.is_empty = self.is_empty and not effects
        return effects

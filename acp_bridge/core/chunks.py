"""From what the gateway says of a text to the chunks that the editor is shown.

The gateway sends an answer as deltas, as the whole text so far (a *snapshot*) or as both, and may
drop deltas, repeat them after a reconnect, keep only the end of a long text, trim it, or rewrite
it. A track holds what has been shown and gives out only what is new:

* A snapshot that continues the shown text gives the rest, which repairs dropped deltas. One that
  is older gives nothing, also in the end: a shorter text is a stale one unless the gateway says
  ``replace``. Without a snapshot a delta is new.
* OpenClaw keeps the last 500,000 characters of a running answer. A snapshot of that size that
  overlaps the end of the shown text gives what lies behind the overlap.
* What has been shown cannot be taken back, so a *rewrite* (a text that does not continue the shown
  one) is not shown as it arrives. It goes out once, as a message of its own, when it is final: at
  the end or at the next tool call. If the gateway returns to a text that continues the shown one,
  streaming goes on.
* A tool call stands between two *segments* of the text, and each segment is a message. 2026.9.6
  glues them with two newlines and 2026.6.11 with nothing; its transcript keeps the white space
  that the stream trims. So white space between segments never makes a rewrite, and newlines that
  begin a segment are not shown.
* A half of a surrogate pair waits for its other half.

The cost of an event is linear in its own size: a snapshot is compared with the shown text by one
call and then kept in its place, and deltas are put together only when somebody asks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from acp_bridge.core.segments import find_segments
from acp_bridge.wire.content import utf16_units, well_formed

WINDOW: Final = 500_000
"""UTF-16 units of an answer that OpenClaw keeps while it runs (both measured versions)."""

_ANCHOR: Final = 64
"""Characters by which a window is found in the shown text."""
_TRIES: Final = 64
"""Places at which an overlap is tried, so that a repetitive text costs no more than that."""


class Chunk(NamedTuple):
    """A new part of a text. ``message_index`` counts the messages of the track from 0."""

    text: str
    message_index: int
    offset: int
    """Characters of the track that were given out before."""


class _Text:
    """A growing text that adding to does not copy."""

    __slots__ = ("_before", "_fresh", "_tail", "_window", "size")

    def __init__(self, window: int, text: str = "") -> None:
        self._window = window
        self._before: list[str] = []
        """What lies before the tail, once snapshots are windows."""
        self._tail = text
        self._fresh: list[str] = []
        """What was added behind the tail."""
        self.size = len(text)

    def append(self, text: str) -> None:
        self._fresh.append(text)
        self.size += len(text)

    def whole(self) -> str:
        self._put_together()
        return "".join([*self._before, self._tail]) if self._before else self._tail

    def become(self, text: str) -> None:
        self._before, self._tail, self._fresh, self.size = [], text, [], len(text)

    def rest(self, snapshot: str, delta: str | None) -> str | None:
        """What ``snapshot`` adds, and take it in. None for a text that is no continuation."""
        self._put_together()
        is_window = self._is_window(snapshot)
        if is_window and (rest := self._rest_by_delta(snapshot, delta or "")) is not None:
            return rest
        if is_window and self._before and (rest := self._rest_by_overlap(snapshot)) is not None:
            return rest
        whole = self.whole()
        if snapshot.startswith(whole):
            self.become(snapshot)
            return snapshot[len(whole) :]
        if whole.startswith(snapshot):
            return ""
        return self._rest_by_overlap(snapshot) if is_window else None

    def ends_with(self, snapshot: str) -> bool:
        """Whether ``snapshot`` is the whole of this text or its window, and not an older one."""
        self._put_together()
        is_all = len(snapshot) == self.size or self._is_window(snapshot)
        return is_all and self._tail.endswith(snapshot)

    def _is_window(self, snapshot: str) -> bool:
        # A window may be a unit short, to keep a pair whole, and a final one is trimmed.
        least = self._window - self._window // 100 - 1
        return len(snapshot) * 2 >= least and utf16_units(snapshot) >= least

    def _rest_by_delta(self, snapshot: str, delta: str) -> str | None:
        overlap = len(snapshot) - len(delta)
        if delta and snapshot.endswith(delta) and self._tail.endswith(snapshot[:overlap]):
            return self._slide(snapshot, overlap)
        return None

    def _rest_by_overlap(self, snapshot: str) -> str | None:
        anchor = snapshot[: min(_ANCHOR, self._window // 2)]
        at = self._tail.find(anchor)
        for _ in range(_TRIES):
            if at < 0:
                return None
            if self._tail.startswith(snapshot, at):
                return ""
            if snapshot.startswith(self._tail[at:]):
                return self._slide(snapshot, len(self._tail) - at)
            at = self._tail.find(anchor, at + 1)
        return None

    def _slide(self, snapshot: str, overlap: int) -> str:
        if overlap < len(self._tail):
            self._before.append(self._tail[: len(self._tail) - overlap])
        self._tail = snapshot
        rest = snapshot[overlap:]
        self.size += len(rest)
        return rest

    def _put_together(self) -> None:
        if self._fresh:
            self._tail = "".join([self._tail, *self._fresh])
            self._fresh = []


class TextTrack:
    """The answer of one turn. ``window`` is the size of the gateway's, in UTF-16 units."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._shown = _Text(window)
        self._rewrite: _Text | None = None
        self._starts = [0]
        """Where the segments of the shown text begin."""
        self._relived: dict[str, int] = {}
        """Where the messages of an earlier process begin."""
        self._half = ""
        """A high surrogate behind the shown text."""
        self._messages = _Messages()

    @property
    def is_rewritten(self) -> bool:
        """Whether the gateway's text does not continue the shown one at the moment."""
        return self._rewrite is not None

    def feed(self, delta: str | None, replace: bool, snapshot: str | None) -> list[Chunk]:
        """Take one event: ``delta`` is the new part, or the whole text with ``replace``;
        ``snapshot`` is the whole text so far or its window."""
        if replace and snapshot is None:
            snapshot = delta
        if snapshot is not None:
            return self._take(snapshot, delta, replace)
        text, self._half = _split_half(_join_half(self._half, delta or ""))
        if self._rewrite is not None:
            self._rewrite.append(text)
            return []
        self._shown.append(text)
        return self._messages.say(text)

    def glued(self, said: str, segment: str) -> str:
        """The two, with the white space between them that they were shown with, if they were."""
        shown = self._shown.whole()
        if not shown.startswith(said):
            return said + segment
        rest = shown[len(said) :]
        space = rest[: len(rest) - len(rest.lstrip())]
        return said + space + (segment.lstrip() if space else segment)

    def relive(self, text: str, message: str) -> None:
        """Take in what an earlier process has shown in a message, which may have been a rewrite."""
        self._relived.setdefault(message, self._shown.size)
        self.feed(text, False, None)

    def break_message(self) -> list[Chunk]:
        """A tool call stands here: a rewrite is as good as final, and later text begins a new
        message. Gives what is to be shown before the tool call."""
        chunks = self._show_rewrite()
        if self._shown.size > self._starts[-1]:
            self._starts.append(self._shown.size)
        self._messages.end()
        return chunks

    def split_message(self) -> None:
        """A notice stands here: the text goes on behind it, in a message of its own."""
        self._messages.split()

    def finish(self, snapshot: str | None) -> list[Chunk]:
        """The text is final. ``snapshot`` is the gateway's last word on it, if it sent one."""
        chunks = [] if snapshot is None else self._take(snapshot, None, False)
        chunks += self._show_rewrite()
        half, self._half = self._half, ""
        return chunks + self._messages.say(half)

    def _take(self, snapshot: str, delta: str | None, replace: bool) -> list[Chunk]:
        snapshot, half = _split_half(snapshot)
        if replace:
            delta = None
        if self._rewrite is not None:
            if replace or self._rewrite.rest(snapshot, delta) is None:
                self._rewrite.become(snapshot)
            self._half = half
            return self._resume(self._rewrite)
        rest = self._rest(snapshot, delta)
        is_older = rest == "" and not self._shown.ends_with(snapshot)
        if rest is None or (replace and is_older):
            self._rewrite = _Text(self._window, snapshot)
            self._half = half
            return []
        if not is_older:
            self._half = half or ("" if rest else self._half)
        return self._messages.say(rest)

    def _resume(self, rewrite: _Text) -> list[Chunk]:
        """Leave the rewritten state if the text continues the shown one again."""
        text = rewrite.whole()
        rest = self._rest(text, None)
        if rest is None or (rest == "" and not self._shown.ends_with(text)):
            return []
        self._rewrite = None
        return self._messages.say(rest)

    def _show_rewrite(self) -> list[Chunk]:
        rewrite = self._rewrite
        if rewrite is None:
            return []
        chunks = self._resume(rewrite)
        if self._rewrite is None:
            return chunks
        self._rewrite = None
        shown, text = self._shown.whole(), rewrite.whole()
        segment = shown[self._starts[-1] :]
        self._starts = find_segments(self._segments(shown)[:-1], text) or [0]
        self._shown.become(text)
        changed = text[self._starts[-1] :]
        if not changed.strip() or changed.strip() == segment.strip():
            return []
        self._messages.end()
        return self._messages.say(changed)

    def _rest(self, text: str, delta: str | None) -> str | None:
        rest = self._shown.rest(text, delta)
        rest = self._rest_after_seams(text) if rest is None else rest
        return self._rest_of_relived(text) if rest is None else rest

    def _rest_of_relived(self, text: str) -> str | None:
        """What ``text`` adds if its beginning was shown as a rewrite by an earlier process."""
        shown = self._shown.whole() if self._relived else ""
        for start in self._relived.values():
            tail = shown[start:]
            if tail.startswith(text):
                return ""
            if tail and text.startswith(tail):
                self._starts = [0]
                self._shown.become(text)
                return text[len(tail) :]
        return None

    def _rest_after_seams(self, text: str) -> str | None:
        """What ``text`` adds if it differs from the shown text only in the white space between
        segments, or if it is the last segment alone."""
        if len(self._starts) == 1:
            return None
        segments = self._segments(self._shown.whole())
        last = segments[-1].lstrip()
        starts = find_segments(segments[:-1], text)
        tail = text if starts is None else text[starts[-1] :]
        if not last and starts is None:
            return None
        if last.startswith(tail) and (starts or tail.rstrip() == last.rstrip()):
            return ""
        if not tail.startswith(last):
            return None
        rest = tail[len(last) :]
        if starts is None:
            self._shown.append(rest)
        else:
            self._starts = starts
            self._shown.become(text)
        return rest

    def _segments(self, shown: str) -> list[str]:
        return [shown[start:end] for start, end in pairwise([*self._starts, len(shown)])]


class ThoughtTrack:
    """The reasoning of one turn: one message per thought.

    A snapshot is the whole current thought and starts anew after a tool call (2026.9.6), so one
    that neither continues the shown thought nor precedes it is a new thought.
    """

    def __init__(self) -> None:
        self._past: list[str] = []
        self._shown = _Text(WINDOW)
        self._half = ""
        self._messages = _Messages()

    def feed(self, delta: str | None, snapshot: str | None) -> list[Chunk]:
        """Take one event; ``snapshot``, the whole current thought, decides if it is there."""
        if snapshot is None:
            text, self._half = _split_half(_join_half(self._half, delta or ""))
            self._shown.append(text)
            return self._messages.say(text)
        snapshot, half = _split_half(snapshot)
        rest = self._shown.rest(snapshot, delta)
        if rest is None:
            chunks = self.break_message()
            self._shown.become(snapshot)
            self._half = half
            return chunks + self._messages.say(snapshot)
        if rest or len(snapshot) == self._shown.size:
            self._half = half or ("" if rest else self._half)
        return self._messages.say(rest)

    def break_message(self) -> list[Chunk]:
        """A tool call stands here: what comes is a new thought."""
        half, self._half = self._half, ""
        chunks = self._messages.say(half)
        self._messages.end()
        if self._shown.size:
            self._past.append(self._shown.whole())
            self._shown = _Text(WINDOW)
        return chunks

    def split_message(self) -> None:
        """A notice stands here: the thought goes on behind it, in a message of its own."""
        self._messages.split()

    def finish(self, snapshot: str | None = None) -> list[Chunk]:
        """The reasoning is over. ``snapshot``, the gateway's last word, may hold every thought."""
        chunks: list[Chunk] = []
        if snapshot is not None and snapshot.strip() not in {past.strip() for past in self._past}:
            starts = find_segments(self._past, snapshot) or [0]
            chunks = self.feed(None, snapshot[starts[-1] :])
        return chunks + self.break_message()


class _Messages:
    """Numbers the messages of a track and writes their text."""

    __slots__ = ("_has_text", "_index", "_said")

    def __init__(self) -> None:
        self._index = 0
        self._has_text = False
        self._said = 0

    def say(self, text: str) -> list[Chunk]:
        """``text`` as more of the current message."""
        text = well_formed(text)
        if self._index and not self._has_text:
            text = text.lstrip("\n")
        if not text:
            return []
        self._has_text = True
        self._said += len(text)
        return [Chunk(text, self._index, self._said - len(text))]

    def end(self) -> None:
        """What comes next is a new message."""
        if self._has_text:
            self._index += 1
            self._has_text = False

    def split(self) -> None:
        """What comes next is a new message that goes on with the same text, blanks and all."""
        if self._has_text:
            self._index += 1


def _split_half(text: str) -> tuple[str, str]:
    """``text`` without the high surrogate at its end, and that."""
    if text and "\ud800" <= text[-1] <= "\udbff":
        return text[:-1], text[-1]
    return text, ""


def _join_half(half: str, text: str) -> str:
    """``half``, a high surrogate or nothing, joined with the ``text`` that follows."""
    if half and text and "\udc00" <= text[0] <= "\udfff":
        return well_formed(half + text[0]) + text[1:]
    return half + text

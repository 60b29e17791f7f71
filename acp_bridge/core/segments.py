"""The segments of an answer: what stands between two tool calls, with white space of any kind."""

from __future__ import annotations


def up_to(segments: list[str], text: str | None) -> str | None:
    """The beginning of ``text`` that says these segments; None if it says something else."""
    starts = None if text is None else find_segments(segments, text)
    return None if text is None or starts is None else text[: starts[-1]].rstrip()


def find_segments(segments: list[str], text: str) -> list[int] | None:
    """Where ``segments``, and what follows them, begin in ``text`` if only the white space around
    them differs; None if they are not its beginning."""
    at = 0
    starts = []
    for segment in segments:
        core = segment.strip()
        at = _skip_space(text, at)
        if not text.startswith(core, at):
            return None
        starts.append(at)
        at += len(core)
    return [*starts, _skip_space(text, at) if segments else at]


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at

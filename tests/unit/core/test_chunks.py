"""What the editor is shown of an answer, whatever way the gateway tells it."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.chunks import Chunk, TextTrack, ThoughtTrack
from tests.support.recorded import VERSIONS, runs


def messages(chunks: Iterable[Chunk]) -> list[str]:
    """The text of each message, as an editor puts it together."""
    found: dict[int, str] = {}
    for chunk in chunks:
        assert chunk.text
        found[chunk.message_index] = found.get(chunk.message_index, "") + chunk.text
    assert [*found] == sorted(found)
    return [*found.values()]


class Shown:
    """A track, and everything that came out of it."""

    def __init__(self, window: int = 500_000) -> None:
        self.track = TextTrack(window)
        self.chunks: list[Chunk] = []

    def feed(
        self, delta: str | None = None, snapshot: str | None = None, *, replace: bool = False
    ) -> str:
        new = self.track.feed(delta, replace, snapshot)
        self.chunks += new
        return "".join(chunk.text for chunk in new)

    def tool(self) -> str:
        new = self.track.break_message()
        self.chunks += new
        return "".join(chunk.text for chunk in new)

    def finish(self, snapshot: str | None = None) -> str:
        new = self.track.finish(snapshot)
        self.chunks += new
        return "".join(chunk.text for chunk in new)

    @property
    def messages(self) -> list[str]:
        return messages(self.chunks)


def replayed(events: Iterable[object]) -> list[str]:
    shown = Shown()
    seen: set[str] = set()
    for event in events:
        match event:
            case ev.TextProgress():
                shown.feed(event.delta, event.snapshot, replace=event.replace)
            case ev.ToolStarted() if event.tool_call_id not in seen:
                seen.add(event.tool_call_id)
                shown.tool()
            case ev.RunEnded():
                shown.finish(event.snapshot)
            case _:
                pass
    return shown.messages


class TestContinuing:
    def test_deltas_alone_are_shown_as_they_come(self) -> None:
        shown = Shown()
        assert shown.feed("Hel") == "Hel"
        assert shown.feed("lo") == "lo"
        assert shown.finish() == ""
        assert shown.messages == ["Hello"]

    @pytest.mark.requirement("C028")
    def test_snapshots_alone_become_their_new_parts(self) -> None:
        shown = Shown()
        given = ["He", "Hello", "Hello w", "Hello w"]
        assert [shown.feed(snapshot=text) for text in given] == ["He", "llo", " w", ""]

    @pytest.mark.requirement("C028")
    def test_a_mix_of_deltas_and_snapshots_repeats_nothing(self) -> None:
        shown = Shown()
        shown.feed("He")
        shown.feed("llo", "Hello")
        shown.feed(" w")
        shown.feed(None, "Hello wor")
        shown.feed("ld")
        assert shown.finish("Hello world") == ""
        assert shown.messages == ["Hello world"]

    def test_a_snapshot_repairs_dropped_deltas(self) -> None:
        shown = Shown()
        shown.feed("one ", "one ")
        assert shown.feed("three", "one two three") == "two three"

    def test_a_delta_that_was_shown_before_the_reconnect_is_not_repeated(self) -> None:
        shown = Shown()
        shown.feed("one two", "one two")
        assert shown.feed(" two", "one two") == ""
        assert shown.feed("one", "one") == ""
        assert shown.feed(" three", "one two three") == " three"

    def test_an_event_without_text_is_nothing(self) -> None:
        shown = Shown()
        assert shown.feed() == ""
        assert shown.feed("") == ""
        assert shown.feed(replace=True) == ""
        assert shown.messages == []


class TestEnding:
    @pytest.mark.requirement("C025")
    def test_the_tail_that_only_the_final_text_has_is_shown(self) -> None:
        shown = Shown()
        shown.feed("Hello wor")
        assert shown.finish("Hello world END") == "ld END"

    @pytest.mark.requirement("C025")
    def test_a_final_text_without_any_delta_is_shown(self) -> None:
        shown = Shown()
        assert shown.finish("Session reset.") == "Session reset."

    @pytest.mark.requirement("C025")
    def test_a_final_text_shorter_than_what_was_shown_adds_nothing(self) -> None:
        shown = Shown()
        shown.feed("Hello world", "Hello world")
        assert shown.finish("Hello") == ""

    def test_a_trimmed_final_text_adds_nothing_and_the_white_space_was_shown(self) -> None:
        shown = Shown()
        shown.feed("done \n\n", "done \n\n")
        assert shown.finish("done") == ""
        assert shown.messages == ["done \n\n"]

    def test_an_end_without_text_adds_nothing(self) -> None:
        shown = Shown()
        shown.feed("a")
        assert shown.finish(None) == ""
        assert shown.finish("") == ""


class TestRewriting:
    @pytest.mark.requirement("C028")
    def test_a_rewrite_goes_out_once_as_a_message_of_its_own(self) -> None:
        shown = Shown()
        shown.feed("Hello wo", "Hello wo")
        assert shown.feed("Help", "Help", replace=True) == ""
        assert shown.track.is_rewritten
        assert shown.feed(" me", "Help me") == ""
        assert shown.finish("Help me now") == "Help me now"
        assert shown.messages == ["Hello wo", "Help me now"]

    def test_a_rewrite_told_by_a_snapshot_alone_is_one_too(self) -> None:
        shown = Shown()
        shown.feed("Hello")
        assert shown.feed(" there", "Help there") == ""
        assert shown.feed("!") == ""
        assert shown.finish() == "Help there!"

    def test_a_rewrite_in_delta_text_alone_goes_on_with_deltas(self) -> None:
        shown = Shown()
        shown.feed("Tool")
        shown.feed("2\n3", replace=True)
        shown.feed("\n4")
        assert shown.finish(None) == "2\n3\n4"

    def test_a_text_cut_short_on_purpose_is_a_rewrite(self) -> None:
        shown = Shown()
        shown.feed("Hello secret")
        assert shown.feed("Hello", replace=True) == ""
        assert shown.feed(" you") == ""
        assert shown.finish("Hello you") == "Hello you"

    def test_a_replacement_by_the_same_text_is_none(self) -> None:
        shown = Shown()
        shown.feed("Hello")
        assert shown.feed("Hello", "Hello", replace=True) == ""
        assert not shown.track.is_rewritten
        assert shown.feed(" you") == " you"

    def test_a_replacement_that_continues_the_text_is_streamed(self) -> None:
        shown = Shown()
        shown.feed("Hello")
        assert shown.feed("Hello you", replace=True) == " you"

    def test_a_text_that_returns_to_what_was_shown_streams_on(self) -> None:
        shown = Shown()
        shown.feed("Hello wo")
        shown.feed("Help", replace=True)
        assert shown.feed("Hello", replace=True) == ""
        assert shown.feed("rld", "Hello world") == "rld"
        assert not shown.track.is_rewritten
        assert shown.feed("!") == "!"
        assert shown.finish("Hello world!") == ""

    def test_a_text_that_returned_without_a_snapshot_is_known_at_the_end(self) -> None:
        shown = Shown()
        shown.feed("Hello")
        shown.feed("Hell", replace=True)
        shown.feed("o world")
        assert shown.finish() == " world"
        assert shown.messages == ["Hello world"]

    def test_a_rewrite_to_nothing_shows_nothing(self) -> None:
        shown = Shown()
        shown.feed("NO_REPLY")
        shown.feed("", replace=True)
        assert shown.finish() == ""

    def test_an_older_snapshot_does_not_undo_a_rewrite(self) -> None:
        shown = Shown()
        shown.feed("Hello")
        shown.feed("Other text", replace=True)
        assert shown.feed(None, "Other") == ""
        assert shown.finish() == "Other text"


class TestSegments:
    def test_text_after_a_tool_call_is_a_new_message(self) -> None:
        shown = Shown()
        shown.feed("Calling.")
        assert shown.tool() == ""
        shown.feed("Done.", "Calling.Done.")
        assert shown.finish("Calling.Done.") == ""
        assert shown.messages == ["Calling.", "Done."]

    def test_newlines_that_glue_segments_are_not_shown_but_counted(self) -> None:
        shown = Shown()
        shown.feed("Calling.", "Calling.")
        shown.tool()
        assert shown.feed("\n", "Calling.\n") == ""
        assert shown.feed("\nDone", "Calling.\n\nDone") == "Done"
        assert shown.feed("\n\nmore", "Calling.\n\nDone\n\nmore") == "\n\nmore"
        assert shown.messages == ["Calling.", "Done\n\nmore"]

    def test_newlines_that_begin_the_answer_are_shown(self) -> None:
        shown = Shown()
        shown.tool()
        assert shown.feed("\n\nHi") == "\n\nHi"
        assert shown.messages == ["\n\nHi"]

    def test_several_tool_calls_in_a_row_make_one_break(self) -> None:
        shown = Shown()
        shown.feed("a")
        shown.tool()
        shown.tool()
        shown.feed("b")
        assert [chunk.message_index for chunk in shown.chunks] == [0, 1]

    def test_a_rewrite_goes_out_before_the_next_tool_call(self) -> None:
        shown = Shown()
        shown.feed("Tool result: 1", "Tool result: 1")
        shown.feed("2", "2", replace=True)
        assert shown.tool() == "2"
        assert shown.feed("\n\nEnd", "2\n\nEnd") == "End"
        assert shown.finish("2\n\nEnd") == ""
        assert shown.messages == ["Tool result: 1", "2", "End"]

    def test_a_rewrite_of_the_last_segment_leaves_the_earlier_ones_alone(self) -> None:
        shown = Shown()
        shown.feed("First.", "First.")
        shown.tool()
        shown.feed("\n\nTool: 1\n2", "First.\n\nTool: 1\n2")
        shown.feed("First.\n\n2", "First.\n\n2", replace=True)
        assert shown.finish("First.\n\n2\n3") == "2\n3"
        assert shown.messages == ["First.", "Tool: 1\n2", "2\n3"]

    def test_a_rewrite_of_an_earlier_segment_shows_the_whole_text(self) -> None:
        shown = Shown()
        shown.feed("First.")
        shown.tool()
        shown.feed("Second.", "First.Second.")
        assert shown.finish("Zero. Second.") == "Zero. Second."

    def test_a_rewrite_that_ends_as_shown_repeats_nothing(self) -> None:
        shown = Shown()
        shown.feed("First.")
        shown.tool()
        shown.feed("Second.")
        shown.feed("Third", replace=True)
        assert shown.finish("First.\n\nSecond. ") == " "

    def test_a_rewrite_that_drops_the_earlier_segments_repeats_nothing(self) -> None:
        shown = Shown()
        shown.feed("First.")
        shown.tool()
        shown.feed("Second.")
        shown.feed("Second.", replace=True)
        assert shown.finish() == ""
        assert shown.messages == ["First.", "Second."]

    @pytest.mark.parametrize("final", ["A. \n\nB", "A.B", "A.\n\nB\n", " A.\nB"])
    def test_other_white_space_between_segments_is_no_rewrite(self, final: str) -> None:
        shown = Shown()
        shown.feed("A. ", "A. ")
        shown.tool()
        shown.feed("\n\nB", "A. \n\nB")
        assert shown.finish(final).strip() == ""
        assert [text.strip() for text in shown.messages] == ["A.", "B"]

    def test_a_transcript_with_other_white_space_gives_the_rest(self) -> None:
        shown = Shown()
        shown.feed("A. ", "A. ")
        shown.tool()
        shown.feed("B", "A. B")
        assert shown.feed(None, "A.\n\nB and more") == " and more"
        assert shown.feed("!", "A.\n\nB and more!") == "!"
        assert shown.feed(None, "A.\nB and") == ""
        assert shown.messages == ["A. ", "B and more!"]

    def test_the_next_segment_of_a_transcript_is_found_behind_other_white_space(self) -> None:
        shown = Shown()
        shown.feed("A. ", "A. ")
        shown.tool()
        assert shown.feed(None, "A.") == ""
        assert shown.finish("A.\n\nB") == "B"
        assert shown.messages == ["A. ", "B"]

    @pytest.mark.parametrize(("final", "rest"), [("B", ""), ("B ", " "), ("B more", " more")])
    def test_the_last_segment_alone_continues_it(self, final: str, rest: str) -> None:
        shown = Shown()
        shown.feed("A.")
        shown.tool()
        shown.feed("\n\nB", "A.\n\nB")
        assert shown.finish(final) == rest
        assert not shown.track.is_rewritten

    def test_a_new_last_segment_alone_is_shown(self) -> None:
        shown = Shown()
        shown.feed("A.")
        shown.tool()
        assert shown.finish("B") == "B"
        assert shown.messages == ["A.", "B"]


class TestWindow:
    def test_a_window_gives_only_what_is_new(self) -> None:
        shown = Shown(window=20)
        whole = "".join(f"<{n}>" for n in range(40))
        for end in range(3, len(whole) + 1, 3):
            shown.feed(whole[end - 3 : end], whole[:end][-20:])
        assert shown.finish(whole[-20:]) == ""
        assert "".join(shown.messages) == whole

    def test_a_window_repairs_dropped_deltas_by_its_overlap(self) -> None:
        shown = Shown(window=20)
        shown.feed("0123456789ABCDEFGHIJ", "0123456789ABCDEFGHIJ")
        assert shown.feed("P", "6789ABCDEFGHIJKLMNOP"[-20:]) == "KLMNOP"
        assert shown.feed(None, "6789ABCDEFGHIJKLMNOP") == ""
        assert shown.feed("O", "3456789ABCDEFGHIJKLM"[:20]) == ""
        assert shown.feed(None, "89ABCDEFGHIJKLMNOPQR", replace=True) == "QR"
        assert shown.feed(None, "89ABCDEFGHIJKLMNOPQR", replace=True) == ""
        assert not shown.track.is_rewritten

    def test_a_whole_final_text_is_recognised_behind_windows(self) -> None:
        shown = Shown(window=20)
        whole = "".join(f"<{n}>" for n in range(20))
        shown.feed(whole[:20], whole[:20])
        shown.feed(whole[20:40], whole[20:40])
        shown.feed(whole[40:50], whole[30:50])
        assert shown.finish(whole + "END") == whole[50:] + "END"
        assert shown.messages == [whole + "END"]

    def test_a_window_without_overlap_is_a_rewrite(self) -> None:
        shown = Shown(window=20)
        shown.feed("0123456789ABCDEFGHIJ")
        assert shown.feed(None, "abcdefghijklmnopqrst") == ""
        assert shown.finish() == "abcdefghijklmnopqrst"

    def test_an_endless_repetition_is_shown_and_costs_little(self) -> None:
        shown = Shown(window=2_000)
        text = ""
        for _ in range(60):
            text += "the " * 20
            shown.feed("the " * 20, text[-2_000:])
        assert "".join(shown.messages) == text
        # Without a delta an overlap is looked for, at a bounded number of places.
        assert shown.feed(None, "the " * 100 + "end " * 400) == ""
        assert shown.track.is_rewritten

    def test_the_overlap_may_begin_with_a_repetition(self) -> None:
        shown = Shown(window=200)
        shown.feed("-" * 100 + "the " * 32)
        assert shown.feed(None, "the " * 30 + "x" * 80) == "x" * 80

    def test_a_gateway_that_keeps_the_whole_text_is_followed_beyond_the_window(self) -> None:
        shown = Shown(window=20)
        text = ""
        for n in range(20):
            text += f"<{n}>"
            assert shown.feed(f"<{n}>", text) == f"<{n}>"

    def test_the_real_window_counts_utf_16_units(self) -> None:
        shown = Shown()
        text = "😀" * 249_990
        shown.feed(text, text)
        more = text + "0123456789abcdefghijklmnopqrstuvwxyz"
        # The first emoji that no longer fits is left out whole.
        assert shown.feed(more[len(text) :], more[8:]) == more[len(text) :]


class TestHalves:
    def test_the_halves_of_a_pair_are_joined_over_deltas(self) -> None:
        shown = Shown()
        assert shown.feed("a\ud83d") == "a"
        assert shown.feed("\ude00b") == "😀b"
        assert shown.feed(" c", "a😀b c") == " c"

    def test_a_snapshot_completes_a_half(self) -> None:
        shown = Shown()
        shown.feed("a\ud83d", "a\ud83d")
        assert shown.feed("\ude00", "a😀") == "😀"
        assert shown.finish("a😀") == ""

    def test_a_half_without_a_partner_becomes_a_replacement_character(self) -> None:
        shown = Shown()
        shown.feed("a\ud83d")
        assert shown.feed("b\ude00") == "\ufffdb\ufffd"
        shown.feed("\ud83d")
        assert shown.finish() == "\ufffd"

    def test_a_half_survives_a_snapshot_that_lacks_it(self) -> None:
        shown = Shown()
        shown.feed("ab\ud83d")
        assert shown.feed(None, "ab") == ""
        assert shown.feed(None, "a\ud83d") == ""
        assert shown.feed("\ude00") == "😀"

    def test_the_halves_of_a_pair_are_joined_in_a_rewrite(self) -> None:
        shown = Shown()
        shown.feed("Hello")
        shown.feed("Help \ud83d", replace=True)
        shown.feed("\ude00")
        assert shown.finish() == "Help 😀"


class TestRecordings:
    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.requirement("ACP-64")
    def test_a_streamed_answer_is_shown_exactly(self, version: str) -> None:
        for name in ("chat-echo", "flood", "chat-abort"):
            for events in runs(version, name).values():
                final = events[-1]
                assert isinstance(final, ev.RunEnded)
                if final.kind is not ev.EndKind.FAILED:
                    assert replayed(events) == [final.snapshot]

    def test_a_stripped_tool_result_is_shown_once_more_as_it_really_is(self) -> None:
        (old,) = runs("2026.6.11", "replace").values()
        assert replayed(old) == ["Tool", "2\n3\n\nMore text."]
        new, _ = runs("2026.9.6", "replace").values()
        assert replayed(new) == ["Tool result: 1\n2\n3\n\nMore text.", "2\n3\n\nMore text."]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_the_glue_of_either_version_round_a_tool_call_is_gone(self, version: str) -> None:
        (slow,) = runs(version, "chat-tool-slow").values()
        said = "The tool said: line 1\nline 2\nline 3\nline 4"
        assert replayed(slow) == ["Calling a tool.", said]
        first, *_ = runs(version, "chat-tool").values()
        assert replayed(first) == ["Calling a tool.", "The tool said: hello-from-tool"]


class TestCost:
    def test_twenty_thousand_cumulative_snapshots_are_cheap(self) -> None:
        track = TextTrack()
        text, begin = "", time.perf_counter()
        for n in range(20_000):
            delta = f"{n} "
            text += delta
            assert track.feed(delta, False, text)
        assert time.perf_counter() - begin < 5

    def test_a_flood_of_deltas_alone_is_cheap(self) -> None:
        track = TextTrack()
        begin = time.perf_counter()
        for _ in range(100_000):
            track.feed("some words ", False, None)
        assert track.finish("some words " * 100_000) == []
        assert time.perf_counter() - begin < 5


class TestThoughts:
    def test_a_thought_grows_by_its_new_parts(self) -> None:
        track = ThoughtTrack()
        assert messages(track.feed("Let me", "Let me")) == ["Let me"]
        assert messages(track.feed(" check", "Let me think, check")) == [" think, check"]
        assert track.feed(" think", "Let me think") == []
        assert messages(track.feed(" it", None)) == [" it"]
        assert track.finish() == []

    def test_a_snapshot_that_starts_anew_is_a_new_thought(self) -> None:
        track = ThoughtTrack()
        chunks = track.feed("First\ud83d", "First\ud83d")
        chunks += track.feed("Second", "Second")
        assert messages(chunks) == ["First\ufffd", "Second"]

    def test_after_a_tool_call_the_same_words_are_a_new_thought(self) -> None:
        track = ThoughtTrack()
        chunks = track.feed("Let me see", "Let me see")
        chunks += track.break_message()
        chunks += track.break_message()
        chunks += track.feed("Let me", "Let me")
        chunks += track.feed(" see", "Let me see")
        assert messages(chunks) == ["Let me see", "Let me see"]

    @pytest.mark.parametrize("final", [None, "One\nTwo", "Two", "One", "One\n\nTwo"])
    def test_the_last_word_on_thoughts_that_were_shown_adds_nothing(
        self, final: str | None
    ) -> None:
        track = ThoughtTrack()
        track.feed("One", "One")
        track.break_message()
        track.feed("Two", "Two")
        assert track.finish(final) == []

    def test_a_thought_that_only_the_end_has_is_shown(self) -> None:
        assert messages(ThoughtTrack().finish("Hm.")) == ["Hm."]
        track = ThoughtTrack()
        track.feed("One", "One")
        track.break_message()
        assert messages(track.finish("One\nTwo")) == ["Two"]

    def test_halves_of_a_pair_are_joined_in_thoughts_too(self) -> None:
        track = ThoughtTrack()
        chunks = track.feed("a\ud83d", None) + track.feed("\ude00", None)
        chunks += track.feed("\ud83d", "a😀\ud83d") + track.feed(None, "a😀") + track.finish()
        assert messages(chunks) == ["a😀\ufffd"]

    @pytest.mark.requirement("C097")
    def test_real_thoughts_are_shown_whole_and_apart_from_the_answer(self) -> None:
        for events in runs("2026.9.6", "chat-think").values():
            track = ThoughtTrack()
            chunks: list[Chunk] = []
            for event in events:
                if isinstance(event, ev.ThoughtProgress):
                    chunks += track.feed(event.delta, event.snapshot)
            assert messages(chunks + track.finish()) == ["Let me think about this."]
            assert replayed(events) == ["Thought through answer."]

"""The cards of tool calls: one for each, told once, and always ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.ids import RunId, ToolCallId
from acp_bridge.wire import updates
from tests.support.cards import Cards
from tests.support.recorded import VERSIONS, Reconnected, runs

RUN = RunId("r")
A, B = ToolCallId("a"), ToolCallId("b")


def start(args: Any = None, *, name: str | None = "exec", call: ToolCallId = A) -> ev.ToolStarted:
    return ev.ToolStarted(RUN, call, name, args)


def progress(text: str, call: ToolCallId = A) -> ev.ToolProgress:
    return ev.ToolProgress(RUN, call, "exec", {"content": [{"type": "text", "text": text}]})


def end(
    text: str = "", *, call: ToolCallId = A, is_error: bool = False, exit_code: Any = 0
) -> ev.ToolEnded:
    result = {"content": [{"type": "text", "text": text}], "details": {"exitCode": exit_code}}
    return ev.ToolEnded(RUN, call, "exec", is_error, result)


def item(phase: str, text: str | None = None, **changed: Any) -> ev.ItemChanged:
    fields: dict[str, Any] = {"kind": "tool", "name": "exec", "title": "Exec ls", "failed": False}
    fields |= changed
    return ev.ItemChanged(RUN, A, phase, text=text, **fields)


def output(text: str, *, is_end: bool = False, exit_code: int | None = None) -> ev.CommandOutput:
    return ev.CommandOutput(RUN, A, "exec", "command ls", text, is_end, exit_code, "/gw")


class TestToolStream:
    @pytest.mark.requirement("C033")
    @pytest.mark.requirement("ACP-75")
    def test_a_start_is_a_card_with_all_that_the_arguments_say(self) -> None:
        cards = Cards()
        (card,) = cards.feed(start({"path": "src/a.py", "line": 3, "content": "x"}, name="write"))
        assert card == {
            "sessionUpdate": "tool_call",
            "toolCallId": "a",
            "title": "write: path: src/a.py, line: 3, content: x",
            "kind": "edit",
            "status": "in_progress",
            "content": [updates.diff("/w/src/a.py", None, "x")],
            "locations": [{"path": "/w/src/a.py", "line": 3}],
            "rawInput": {"path": "src/a.py", "line": 3, "content": "x"},
        }

    def test_progress_and_end_carry_only_what_changed(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "ls"}))
        text = updates.content({"type": "text", "text": "one"})
        assert cards.feed(progress("one")) == [updates.tool_call_update(A, content=[text])]
        (ended,) = cards.feed(end("one\ntwo"))
        assert set(ended) == {"sessionUpdate", "toolCallId", "status", "content", "rawOutput"}
        assert ended["status"] == "completed"
        assert ended["rawOutput"] == {"details": {"exitCode": 0}}
        assert cards.text(A) == "one\ntwo"

    def test_a_result_without_text_leaves_what_the_progress_showed(self) -> None:
        cards = Cards()
        cards.feed(start(), progress("working"), ev.ToolEnded(RUN, A, None, False, None))
        assert (cards.status(A), cards.text(A)) == ("completed", "working")

    def test_the_diff_stays_beside_the_result(self) -> None:
        cards = Cards()
        cards.feed(start({"path": "a", "content": "x"}, name="write"), end("Wrote 1 byte"))
        assert [content["type"] for content in cards.cards[A]["content"]] == ["diff", "content"]

    def test_files_named_in_the_result_become_locations(self) -> None:
        cards = Cards()
        cards.feed(start({"path": "a"}, name="image_make"), end("FILE:/out.png"))
        assert cards.cards[A]["locations"] == [{"path": "/w/a"}, {"path": "/out.png"}]

    @pytest.mark.parametrize(
        ("event", "status"),
        [
            (end("x", is_error=True), "failed"),
            (end("Exec denied (user-denied): ls", is_error=True, exit_code=None), "failed"),
            (end("x", exit_code=3), "failed"),
            (end("x", exit_code=-9), "failed"),
            (end("x", exit_code=0), "completed"),
            (end("x", exit_code=True), "completed"),
            (end("x", exit_code="3"), "completed"),
            (ev.ToolEnded(RUN, A, "exec", False, {"details": 3}), "completed"),
            (ev.ToolEnded(RUN, A, "exec", False, "done"), "completed"),
        ],
    )
    def test_an_error_or_a_non_zero_exit_code_is_a_failure(
        self, event: ev.ToolEnded, status: str
    ) -> None:
        cards = Cards()
        cards.feed(start(), event)
        assert cards.status(A) == status

    @pytest.mark.requirement("C035")
    @pytest.mark.parametrize(
        "args",
        ['{"command": "ls"}', "ls -l", "{broken", ["ls"], 7, None, True, {"x": "y" * 9_000_000}],
    )
    def test_odd_arguments_make_a_card_all_the_same(self, args: Any) -> None:
        cards = Cards()
        cards.feed(start(args))
        assert cards.cards[A]["title"].startswith("exec")
        assert ("rawInput" in cards.cards[A]) == (args is not None)
        assert cards.bytes < 200_000

    @pytest.mark.requirement("C035")
    def test_arguments_as_a_string_are_understood(self) -> None:
        cards = Cards()
        cards.feed(start('{"command": "ls"}'))
        assert cards.cards[A]["title"] == "exec: command: ls"
        assert cards.calls.match_command("ls") == A

    @pytest.mark.requirement("C035")
    def test_a_result_before_the_start_makes_the_card_and_the_start_completes_it(self) -> None:
        cards = Cards()
        first = cards.feed(end("done"))
        assert [update["sessionUpdate"] for update in first] == ["tool_call", "tool_call_update"]
        (late,) = cards.feed(start({"command": "ls"}))
        assert "status" not in late
        assert cards.cards[A]["title"] == "exec: command: ls"
        assert (cards.status(A), cards.text(A)) == ("completed", "done")
        assert cards.feed(end("again")) == []

    @pytest.mark.requirement("C035")
    @pytest.mark.requirement("ACP-75")
    def test_progress_of_an_unseen_call_makes_the_card(self) -> None:
        cards = Cards()
        cards.feed(progress("one"))
        assert (cards.cards[A]["title"], cards.status(A)) == ("exec", "in_progress")

    @pytest.mark.requirement("C035")
    def test_a_second_start_makes_no_second_card(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "ls"}))
        assert cards.feed(start({"command": "ls"}), start(None)) == []

    @pytest.mark.requirement("C035")
    def test_two_calls_of_one_tool_stay_apart(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "a"}), start({"command": "b"}, call=B))
        cards.feed(progress("from b", B), end("b", call=B), end("a", is_error=True))
        assert (cards.status(A), cards.status(B)) == ("failed", "completed")
        assert (cards.text(A), cards.text(B)) == ("a", "b")

    def test_after_its_end_a_call_takes_no_progress(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "ls"}), end("done"))
        assert cards.feed(progress("late")) == []
        assert cards.text(A) == "done"


class TestOutput:
    @pytest.mark.requirement("C036")
    def test_many_updates_of_a_long_output_cost_bytes_linear_in_it(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "make"}))
        lines = [f"{n:05} some output line\n" for n in range(35_000)]
        for count in range(70, 35_001, 70):
            cards.feed(progress("".join(lines[:count])))
        whole = "".join(lines)
        cards.feed(end(whole))
        assert cards.bytes <= 3 * len(whole)
        assert "left out" in cards.text(A)
        assert cards.text(A).endswith(lines[-1])

    def test_small_output_is_shown_at_once_and_the_same_one_never_twice(self) -> None:
        cards = Cards()
        cards.feed(start())
        assert cards.feed(progress("1\n")) != []
        assert cards.feed(progress("1\n")) == []
        assert cards.feed(progress("  ")) == []
        assert cards.feed(progress("1\n2\n")) != []

    def test_output_that_does_not_grow_is_still_shown_while_it_is_small(self) -> None:
        cards = Cards()
        cards.feed(start(), progress("searching ..."), progress("found"))
        assert cards.text(A) == "found"


class TestItems:
    """The poorer streams: alone after a reconnect, beside the tool stream otherwise."""

    def test_an_item_before_the_tool_stream_shows_nothing(self) -> None:
        cards = Cards()
        assert cards.feed(item("start")) == []
        assert cards.calls.title_of(A) is None
        assert cards.calls.open_ids == ()
        cards.feed(start({"command": "ls"}), item("start"))
        assert cards.cards[A]["title"] == "exec: command: ls"

    def test_without_a_tool_stream_an_item_is_a_card_at_once(self) -> None:
        cards = Cards()
        cards.calls.assume_no_tool_stream()
        cards.feed(item("start"))
        assert cards.cards[A]["title"] == "Exec ls"
        assert (cards.cards[A]["kind"], cards.status(A)) == ("execute", "in_progress")

    def test_the_arguments_that_come_later_complete_the_card_of_an_item(self) -> None:
        cards = Cards()
        cards.calls.assume_no_tool_stream()
        cards.feed(item("start"), item("update", "1"), start({"path": "a"}, name="read"))
        assert cards.cards[A]["title"] == "read: path: a"
        assert cards.cards[A]["kind"] == "read"
        assert cards.text(A) == "1"

    def test_news_of_an_item_that_has_no_card_makes_it(self) -> None:
        cards = Cards()
        cards.feed(item("start"), item("update"))
        assert cards.cards[A]["title"] == "Exec ls"
        other = Cards()
        other.feed(item("end", "1\n2", failed=True, title=None, name=None, kind="patch"))
        assert (other.cards[A]["title"], other.cards[A]["kind"]) == ("tool", "edit")
        assert (other.status(A), other.text(A)) == ("failed", "1\n2")

    def test_command_output_alone_makes_and_ends_a_card(self) -> None:
        cards = Cards()
        cards.feed(output("line 1"), output("line 1\nline 2"))
        assert (cards.cards[A]["title"], cards.cards[A]["kind"]) == ("command ls", "execute")
        cards.feed(output("line 1\nline 2\nline 3", is_end=True, exit_code=3))
        assert (cards.status(A), cards.text(A)) == ("failed", "line 1\nline 2\nline 3")

    def test_a_command_whose_exit_nobody_knows_waits_for_the_items_end(self) -> None:
        cards = Cards()
        cards.feed(output("x"), output("x\nkilled", is_end=True))
        assert (cards.status(A), cards.text(A)) == ("in_progress", "x\nkilled")
        cards.feed(item("end", failed=True))
        assert cards.status(A) == "failed"

    def test_output_after_the_items_end_is_added_and_changes_no_status(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "ls"}), item("end"))
        assert cards.status(A) == "completed"
        (late,) = cards.feed(output("x" * 5_000, is_end=True, exit_code=3))
        assert "status" not in late
        assert cards.text(A) == "x" * 5_000
        (richer,) = cards.feed(end("x" * 6_000, is_error=True))
        assert "status" not in richer
        assert cards.text(A) == "x" * 6_000
        assert cards.feed(output("y")) == []

    def test_the_items_end_after_the_result_adds_nothing(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "ls"}), end("1\n2"))
        assert cards.feed(item("end", "1"), output("1\n2", is_end=True, exit_code=0)) == []
        assert cards.feed(item("update", "z")) == []

    def test_older_output_of_the_other_stream_is_not_shown(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "ls"}), progress("line 1\nline 2\n"))
        assert cards.feed(output("line 1"), output("line 1\nline 2")) == []
        (ended,) = cards.feed(item("end", "line 1"))
        assert ended == updates.tool_call_update(A, status="completed")

    def test_the_items_end_brings_an_output_that_was_missed(self) -> None:
        cards = Cards()
        cards.feed(start({"path": "a", "content": "x"}, name="write"), item("end", "Wrote 1 byte"))
        assert cards.text(A) == "Wrote 1 byte"
        assert cards.cards[A]["content"][0]["type"] == "diff"


class TestEnds:
    @pytest.mark.requirement("C032")
    @pytest.mark.requirement("ACP-76")
    @pytest.mark.parametrize(("failed", "status"), [(True, "failed"), (False, "completed")])
    def test_the_turns_end_ends_each_open_call_once(self, failed: bool, status: str) -> None:
        cards = Cards()
        cards.feed(start(), start(call=B), end("done", call=B), item("start"))
        assert list(cards.calls.open_ids) == [A]
        cards.take(cards.calls.end_all(failed, None))
        assert (cards.status(A), cards.status(B)) == (status, "completed")
        assert list(cards.calls.open_ids) == []
        assert cards.calls.end_all(failed, None) == []

    def test_a_note_is_added_to_what_an_open_call_shows(self) -> None:
        cards = Cards()
        cards.feed(start(), progress("half"))
        cards.take(cards.calls.end_all(True, "Cancelled."))
        assert cards.text(A) == "half\nCancelled."

    def test_the_transcripts_news_end_an_open_call(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "ls"}), progress("1"))
        cards.take(cards.calls.adopt_end(A, True, "1\n2"))
        assert (cards.status(A), cards.text(A)) == ("failed", "1\n2")
        assert cards.calls.adopt_end(A, False, "1\n2\n3") == []

    def test_the_transcripts_news_of_an_unseen_call_make_its_card(self) -> None:
        cards = Cards()
        cards.take(cards.calls.adopt_end(A, False, None))
        assert (cards.cards[A]["title"], cards.status(A)) == ("tool", "completed")

    def test_a_command_is_matched_when_one_open_call_runs_exactly_it(self) -> None:
        cards = Cards()
        cards.feed(start({"command": "ls"}), start({"cmd": "ls -l"}, call=B))
        assert cards.calls.match_command("ls") == A
        assert cards.calls.match_command("ls -l") == B
        assert cards.calls.match_command("l") is None
        cards.feed(start({"command": "ls"}, call=ToolCallId("c")))
        assert cards.calls.match_command("ls") is None
        cards.feed(end("x"))
        assert cards.calls.match_command("ls") == "c"
        cards.feed(start({"command": "rm"}, name="explain", call=ToolCallId("d")))
        assert cards.calls.match_command("rm") is None

    def test_an_approval_of_a_call_that_only_an_item_told_of_is_matched(self) -> None:
        cards = Cards()
        cards.calls.assume_no_tool_stream()
        cards.feed(item("start"))
        assert cards.calls.match_command("ls") == A
        cards.feed(start({"command": "rm"}, call=B))
        assert cards.calls.match_command("ls") == A
        cards.feed(item("end"))
        assert cards.calls.match_command("ls") is None


class TestApprovals:
    """Cards of approvals that name no call, as they come after a gap."""

    ASKED = ToolCallId("exec:approval-1")

    def asked(self, command: str = "ls") -> Cards:
        cards = Cards()
        cards.calls.assume_no_tool_stream()
        cards.feed(start({"command": command}, call=self.ASKED))
        return cards

    @pytest.mark.parametrize(
        "first", [progress("1"), end("1\n2"), item("update", "1"), output("1")]
    )
    def test_news_of_a_call_that_nobody_saw_begin_are_of_it(self, first: ev.ToolEvent) -> None:
        cards = self.asked()
        cards.feed(first, end("1\n2"))
        assert list(cards.cards) == [self.ASKED]
        assert (cards.status(self.ASKED), cards.text(self.ASKED)) == ("completed", "1\n2")

    def test_a_start_is_of_it_if_it_runs_the_same_command(self) -> None:
        cards = self.asked()
        cards.feed(start({"command": "rm"}, call=B), start({"command": "ls"}), end("1"))
        assert list(cards.cards) == [self.ASKED, B]
        assert [cards.status(call) for call in cards.cards] == ["completed", "in_progress"]

    def test_each_takes_one_call(self) -> None:
        cards = self.asked()
        other = ToolCallId("exec:approval-2")
        cards.feed(start({"command": "ls"}, call=other), progress("1"), end("2", call=B))
        assert list(cards.cards) == [self.ASKED, other]
        assert [cards.status(call) for call in cards.cards] == ["in_progress", "completed"]

    def test_a_call_of_another_tool_is_not_of_it(self) -> None:
        cards = self.asked()
        cards.feed(start({"path": "x"}, name="read"))
        assert list(cards.cards) == [self.ASKED, A]

    def test_what_the_transcript_has_is_of_it_too(self) -> None:
        cards = self.asked()
        assert cards.calls.knows(A, "exec", None)
        cards.take(cards.calls.adopt_end(A, True, "no"))
        assert list(cards.cards) == [self.ASKED]
        assert cards.status(self.ASKED) == "failed"

    def test_a_later_process_knows_it_again(self) -> None:
        later = Cards()
        for update in self.asked().cards.values():
            later.calls.adopt({"sessionUpdate": "tool_call", **update})
        assert later.calls.knows(A, "exec", {"command": "ls"})
        assert not later.calls.knows(B, "exec", {"command": "ls"})


class TestRecordings:
    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize(
        "name", ["chat-tool", "chat-tool-slow", "approval-deny", "reconnect-tool"]
    )
    def test_real_runs_end_each_call_once_with_its_output(self, version: str, name: str) -> None:
        for events in runs(version, name).values():
            cards = played(events)
            assert cards.calls.open_ids == ()
            assert all(card["status"] in ("completed", "failed") for card in cards.cards.values())
            assert all(cards.text(ToolCallId(call)) for call in cards.cards)

    @pytest.mark.parametrize("version", VERSIONS)
    def test_an_exit_code_fails_in_either_version(self, version: str) -> None:
        hello, exits, two, read, *_ = (
            played(events) for events in runs(version, "chat-tool").values()
        )
        (card,) = hello.cards.values()
        assert (card["title"], card["kind"]) == ("exec: command: echo hello-from-tool", "execute")
        assert [card["status"] for card in exits.cards.values()] == ["failed"]
        assert [card["status"] for card in two.cards.values()] == ["completed", "completed"]
        (card,) = read.cards.values()
        assert card["locations"] == [{"path": "/etc/hostname"}]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_denied_command_has_failed(self, version: str) -> None:
        (events,) = runs(version, "approval-deny").values()
        (card,) = played(events).cards.values()
        assert card["status"] == "failed"

    @pytest.mark.parametrize("version", VERSIONS)
    def test_both_streams_together_show_each_output_once(self, version: str) -> None:
        (events,) = runs(version, "chat-tool-slow").values()
        cards = Cards()
        sent = [cards.feed(e) for e in events if isinstance(e, ev.ToolEvent)]
        assert sum(len(each) for each in sent) == 1 + 4 + 1

    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.requirement("C032")
    def test_a_call_goes_on_after_a_reconnect_with_what_the_other_streams_say(
        self, version: str
    ) -> None:
        (events,) = runs(version, "reconnect-tool").values()
        cards = played(events)
        (call,) = cards.cards
        assert cards.status(ToolCallId(call)) == "completed"
        assert cards.text(ToolCallId(call)).endswith("line 5")


def played(events: Iterable[object]) -> Cards:
    cards = Cards()
    for event in events:
        if isinstance(event, Reconnected):
            cards.calls.assume_no_tool_stream()
        elif isinstance(event, ev.ToolEvent):
            cards.feed(event)
    return cards

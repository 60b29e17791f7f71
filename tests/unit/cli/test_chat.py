"""``acp-bridge chat`` against a scripted agent: what it shows, asks, and ends with."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.cli import chat as chat_module
from acp_bridge.cli.chat_client import Permission
from acp_bridge.cli.conversation import OUTCOMES, ChatOptions
from acp_bridge.cli.main import run
from tests.support.chatting import (
    TypedLines,
    WatchedOutput,
    agent_command,
    chat,
    chunk,
    message,
    prompt,
)

Json = dict[str, Any]
END = ["stop", "end_turn"]
TOOL: Json = {"toolCallId": "t1", "title": "run it", "rawInput": {"command": "rm -r build"}}
OPTIONS: list[Json] = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
ASK = ["ask", TOOL, OPTIONS]


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


class SilentUser(TypedLines):
    """A user who types nothing, but does something when a line is waited for."""

    def __init__(self, action: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._action = action

    async def read(self) -> str | None:
        if self._action is not None:
            self._action()
        await asyncio.Event().wait()
        return None


def answer(shown: str) -> Json:
    found: Json = json.loads(shown.partition("answer: ")[2].partition("\n")[0])
    return found


# How it ends


@pytest.mark.parametrize(
    "reason", ["end_turn", "refusal", "max_tokens", "max_turn_requests", "cancelled"]
)
def test_the_exit_code_tells_how_the_turn_ended(reason: str) -> None:
    code, shown = chat(prompt(message("hello"), ["stop", reason]))

    assert code == OUTCOMES[reason]
    assert shown.splitlines()[-1] == f"[{reason}]"


def test_an_error_is_shown_with_its_code_and_hint() -> None:
    data = {"code": "run_failed", "hint": "Try again."}
    error = {"code": -32603, "message": "It broke.", "data": data}

    code, shown = chat(prompt(["error", error]))

    assert code == 1
    assert "error: It broke. (run_failed)" in shown
    assert "hint: Try again." in shown


def test_an_agent_that_dies_in_a_turn_is_a_failure() -> None:
    code, shown = chat(prompt(message("so far"), ["exit", 7]))

    assert code == 1
    assert "so far" in shown
    assert "The bridge has ended (exit code 7)." in shown


@pytest.mark.parametrize(
    ("method", "exit_code", "expected"),
    [("initialize", 2, 2), ("initialize", 4, 4), ("initialize", 9, 3), ("session/new", 3, 3)],
)
def test_an_agent_that_ends_before_the_first_prompt_passes_its_reason_on(
    method: str, exit_code: int, expected: int
) -> None:
    code, _ = chat("hi", command=agent_command("die", method, str(exit_code)))

    assert code == expected


@pytest.mark.parametrize(
    ("reason", "expected"), [("auth_rejected", 4), ("pairing_required", 4), ("link_lost", 3)]
)
def test_a_refused_session_tells_credentials_from_the_rest(reason: str, expected: int) -> None:
    error = {"code": -32000, "message": "No.", "data": {"code": reason}}

    code, shown = chat("hi", command=agent_command("refuse", "session/new", json.dumps(error)))

    assert code == expected
    assert f"error: No. ({reason})" in shown


def test_a_command_that_does_not_exist_could_not_start(tmp_path: Path) -> None:
    code, shown = chat("hi", command=(str(tmp_path / "none"),))

    assert code == 3
    assert "The bridge could not be started: No such file or directory" in shown


# What it shows


def test_answer_thoughts_plan_and_tools_are_shown_in_their_order() -> None:
    diff = {"type": "diff", "path": "/f", "oldText": "a\nb\n", "newText": "a\nc\n"}
    text = {"type": "content", "content": {"type": "text", "text": "done"}}
    start = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "edit /f", "kind": "edit"}
    end = {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"}
    entries = [
        {"content": "one", "priority": "medium", "status": "completed"},
        {"content": "two", "priority": "medium", "status": "pending"},
    ]

    code, shown = chat(
        prompt(
            chunk("agent_thought_chunk", "Let me "),
            chunk("agent_thought_chunk", "see."),
            ["update", {"sessionUpdate": "plan", "entries": entries}],
            ["update", start | {"status": "in_progress", "content": [diff]}],
            ["update", end | {"content": [diff, text]}],
            message("All "),
            message("done."),
            ["update", {"sessionUpdate": "usage_update", "used": 1234, "size": 200000}],
            END,
        )
    )

    assert code == 0
    assert shown.strip().splitlines() == [
        "Let me see.",
        "",
        "Plan",
        "  ✓ one",
        "  ○ two",
        "▸ edit /f  [in_progress]",
        "    /f",
        "    @@ -1,2 +1,2 @@",
        "     a",
        "    -b",
        "    +c",
        "✓ edit /f  [completed]",
        "    done",
        "",
        "All done.",
        "",
        "[end_turn, 1,234 of 200,000 tokens]",
    ]


def test_what_the_agent_says_can_neither_steer_the_terminal_nor_be_markup() -> None:
    nasty = "\x1b[2J\x1b]0;title\x07[bold]x[/bold]\r\u202eevil\x9b1m"
    start = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": nasty}

    _, shown = chat(
        prompt(message(nasty), ["update", start], ["ask", {**TOOL, "title": nasty}, OPTIONS], END)
    )

    assert not {"\x1b", "\x07", "\r", "\x9b", "\u202e"} & set(shown)
    assert shown.count("␛[2J␛]0;title␇[bold]x[/bold]") == 3
    assert shown.count("\ufffdevil\ufffd1m") == 3


def test_a_line_far_longer_than_a_pipe_is_shown_whole() -> None:
    long = "x" * 1_500_000

    code, shown = chat(prompt(message(long), END))

    assert code == 0
    assert long in shown


def test_an_update_that_is_not_known_is_passed_over() -> None:
    params = {"sessionId": "session-1", "update": {"sessionUpdate": "of_the_future"}}
    line = {"jsonrpc": "2.0", "method": "session/update", "params": params}

    code, shown = chat(prompt(["raw", json.dumps(line)], message("still here"), END))

    assert (code, "still here" in shown) == (0, True)


def test_no_colour_means_no_escape_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = chat_module.make_console()
    with console.capture() as capture:
        console.print("x", style="bold red")

    assert capture.get() == "x\n"


# Permissions


@pytest.mark.parametrize(
    ("permission", "option"), [(Permission.ALLOW, "once"), (Permission.DENY, "no")]
)
def test_a_standing_answer_is_given_without_asking(permission: Permission, option: str) -> None:
    _, shown = chat(prompt(ASK, END), permission=permission, lines=TypedLines("1"))

    assert answer(shown) == {"outcome": "selected", "optionId": option}
    assert "$ rm -r build" in shown


def test_nothing_is_allowed_for_ever_in_the_users_name() -> None:
    _, shown = chat(prompt(["ask", TOOL, OPTIONS[:1]], END), permission=Permission.ALLOW)

    assert answer(shown) == {"outcome": "cancelled"}


def test_where_nobody_can_be_asked_it_is_denied() -> None:
    _, shown = chat(prompt(ASK, END), lines=TypedLines("2", is_interactive=False))

    assert answer(shown) == {"outcome": "selected", "optionId": "no"}
    assert "Nobody can be asked" in shown


def test_the_number_that_is_typed_decides() -> None:
    _, shown = chat(prompt(ASK, END), lines=TypedLines("0", "4", "yes", "", "2"))

    assert answer(shown) == {"outcome": "selected", "optionId": "once"}
    assert shown.count("1-3? ") == 5
    assert "  2. Once" in shown


def test_the_end_of_input_is_no_consent() -> None:
    _, shown = chat(prompt(ASK, END), lines=TypedLines())

    assert answer(shown) == {"outcome": "cancelled"}


def test_what_was_typed_before_the_question_does_not_answer_it() -> None:
    _, shown = chat(prompt(ASK, END), lines=TypedLines("3", ahead=["2"]))

    assert answer(shown) == {"outcome": "selected", "optionId": "no"}


def test_questions_are_asked_one_after_the_other() -> None:
    other = {**TOOL, "toolCallId": "t2", "title": "run another"}

    _, shown = chat(prompt(ASK, ["ask", other, OPTIONS], END), lines=TypedLines("2", "3"))

    first, second = shown.split("run another")
    assert "once" in first
    assert answer(second) == {"outcome": "selected", "optionId": "no"}


def test_a_withdrawn_question_is_let_go() -> None:
    _, shown = chat(prompt(["withdraw", TOOL, OPTIONS], END), lines=SilentUser())

    assert answer(shown)["code"] == -32800
    assert "settled elsewhere" in shown


# Ctrl-C


def test_ctrl_c_cancels_the_turn_and_shows_what_still_comes() -> None:
    output = WatchedOutput(["working"], interrupt)

    code, shown = chat(
        prompt(message("working"), ["wait"], message(" and stopping"), ["stop", "cancelled"]),
        output=output,
    )

    assert code == 130
    assert "and stopping" in shown
    assert shown.splitlines()[-1] == "[cancelled]"


def test_ctrl_c_at_a_question_answers_it_as_cancelled() -> None:
    code, shown = chat(prompt(ASK, ["stop", "cancelled"]), lines=SilentUser(interrupt))

    assert answer(shown) == {"outcome": "cancelled"}
    assert code == 130


def test_a_second_ctrl_c_leaves_an_agent_that_does_not_cancel() -> None:
    output = WatchedOutput(["working", "Cancelling"], interrupt)

    code, shown = chat(prompt(message("working"), ["wait"], ["wait"]), output=output)

    assert code == 130
    assert "[cancelled]" not in shown


def test_ctrl_c_outside_a_turn_leaves() -> None:
    code, _ = chat(lines=SilentUser(interrupt), is_interactive=True)

    assert code == 130


# Typed prompts


def test_prompts_can_be_typed_until_the_user_has_had_enough() -> None:
    typed = [prompt(message("one"), END), "  ", prompt(message("two"), ["stop", "refusal"])]

    code, shown = chat(lines=TypedLines(*typed, "/quit", "not json"), is_interactive=True)

    assert "one" in shown
    assert "two" in shown
    assert code == 0


def test_a_script_that_pipes_prompts_learns_of_a_failure() -> None:
    piped = [prompt(message("one"), ["stop", "refusal"]), prompt(message("two"), END)]

    code, shown = chat(lines=TypedLines(*piped, is_interactive=False), is_interactive=True)

    assert "two" in shown
    assert code == OUTCOMES["refusal"]


def test_an_agent_that_has_ended_takes_no_more_prompts() -> None:
    code, shown = chat(lines=TypedLines(prompt(["exit", 0]), "not json"), is_interactive=True)

    assert code == 1
    assert shown.count("The bridge has ended") == 1


# The command


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[ChatOptions]:
    """The options of the conversations that the command would have had."""
    seen: list[ChatOptions] = []

    def note(options: ChatOptions) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr(chat_module, "run_chat", note)
    return seen


def test_options_after_two_dashes_go_to_the_bridge(
    given: list[ChatOptions], tmp_path: Path
) -> None:
    argv = ["chat", "--prompt", "hi", "--cwd", str(tmp_path), "--yes", "--", "--session", "x"]

    assert run(argv) == 0

    (options,) = given
    assert options.command == chat_module.bridge_command("--session", "x")
    assert (options.prompts, options.is_interactive) == (("hi",), False)
    assert options.permission is options.typed_permission is Permission.ALLOW
    assert options.cwd == tmp_path


def test_the_demo_option_goes_to_the_bridge(given: list[ChatOptions]) -> None:
    assert run(["chat", "--demo"]) == 0

    (options,) = given
    assert options.command[-1] == "--demo"
    assert (options.prompts, options.is_interactive) == ((), True)


def test_one_cannot_both_allow_and_deny(
    given: list[ChatOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["chat", "--yes", "--deny"]) == 2
    assert given == []
    assert "exclude each other" in capsys.readouterr().err

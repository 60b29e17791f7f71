"""The demo's agent: canned answers that show everything an editor can draw."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath

from acp_bridge.demo.hub import Refusal
from acp_bridge.demo.rpc import bare_prompt, working_directory
from acp_bridge.demo.stage import Stage

_WORD = re.compile(r"\S+\s*|\s+")
_WORD_SECONDS = 0.03
_SLOW_SECONDS = 0.25
_MOST_STEPS = 1000
_CONTEXT = 128_000

WELCOME = """\
Hello! You are talking to the **demo agent** of acp-bridge.

The way to me is real: your editor spoke ACP to the bridge, the bridge spoke to a gateway over a \
WebSocket on this machine, and my words came back the same way, piece by piece. What is canned is \
me. There is no model behind me; I read no file, change none and run no command; and nothing \
leaves this machine.

Here is what a turn with a real agent looks like.
"""
AGAIN = "Here is the tour once more: canned, but over the real wire.\n"
PLAN = ("Read the greeting", "Make it friendlier", "Run its test")
THOUGHTS = (
    "The greeting is a bit dry. ",
    "I will read it first, then warm it up, and run its test before I call it done.",
)
OLD_TEXT = 'def greet(name: str) -> str:\n    return "Hello, " + name\n'
NEW_TEXT = 'def greet(name: str) -> str:\n    return f"Hello, {name}. Nice to see you!"\n'
COMMAND = "python -m pytest -q test_greeting.py"
TEST_OUTPUT = "3 passed in 0.02s (canned: nothing was run)"
ALLOWED = (
    "The test passes. With a real gateway that command would just have run; here it was made up."
)
DENIED = "You said no, so the command did not run. That is all a denial does: the turn goes on."
CLOSING = """
That was the tour. Other things to ask me: `think`, `tool`, `ask`, `say` and some words, `slow 20` \
(and cancel it), `fail`, `/help`, `/status`."""
HELP = """\
What the demo agent understands:

- `say WORDS`: repeats them
- `slow N`: counts to N, slowly; a good one to cancel
- `think`: shows its thoughts
- `tool`: calls a tool
- `ask`: asks for a permission
- `fail`: fails, as a broken model would
- `/help`, `/status`, `/think LEVEL`: answered by the gateway itself
- `/stop`: stops what runs
- anything else: the whole tour"""


async def demo_script(run: Stage) -> None:
    """Answer one prompt: by its first word if that is a keyword, else with the whole tour."""
    prompt = bare_prompt(run.message).strip()
    keyword, _, rest = prompt.partition(" ")
    act = _ACTS.get(keyword.lower())
    if act is None:
        await _tour(run)
    else:
        await act(run, rest.strip())


async def _tour(run: Stage) -> None:
    where = PurePosixPath(working_directory(run.message) or "/demo") / "greeting.py"
    for part in THOUGHTS:
        await run.thought(part)
        await run.sleep(0.6)
    await _show_plan(run, 0)
    await _say(run, WELCOME if run.is_first else AGAIN)
    read = await run.tool_start("read", {"path": str(where)})
    await run.sleep(0.6)
    await run.tool_end(read, OLD_TEXT, details={"kind": "text", "content": OLD_TEXT})
    await _show_plan(run, 1)
    edit = await run.tool_start(
        "edit", {"path": str(where), "oldText": OLD_TEXT, "newText": NEW_TEXT}
    )
    await run.sleep(0.8)
    await run.tool_end(edit, f"Edited {where} (canned: no file was changed)", details={})
    await _show_plan(run, 2)
    await _say(run, "The next step needs your word: may I run the test?")
    was_allowed = await run.exec(COMMAND, TEST_OUTPUT, cwd=str(where.parent))
    await _show_plan(run, 3)
    await _say(run, (ALLOWED if was_allowed else DENIED) + "\n" + CLOSING)
    await _count(run)


async def _repeat(run: Stage, rest: str) -> None:
    await _say(run, rest or "Nothing to say.")
    await _count(run)


async def _slow(run: Stage, rest: str) -> None:
    steps = min(int(rest), _MOST_STEPS) if rest.isdecimal() else 10
    for number in range(1, steps + 1):
        await run.text(f"{number} ")
        await run.sleep(_SLOW_SECONDS)
    await run.text("and done.")
    await _count(run)


async def _think(run: Stage, _rest: str) -> None:
    for word in _WORD.findall("Let me see. Nothing depends on this, so any answer will do."):
        await run.thought(word)
        await run.sleep(2 * _WORD_SECONDS)
    await _say(run, "I have thought about it. It will be fine.")
    await _count(run)


async def _tool(run: Stage, _rest: str) -> None:
    await _say(run, "One tool call, coming up.")
    call = await run.tool_start("read", {"path": "/demo/README.md"})
    await run.sleep(0.6)
    await run.tool_end(call, "# Demo\nA canned file.")
    await _say(run, "It says that it is a canned file.")
    await _count(run)


async def _ask(run: Stage, _rest: str) -> None:
    was_allowed = await run.exec("echo hello", "hello", cwd="/demo")
    await _say(run, "You allowed it." if was_allowed else "You did not allow it.")
    await _count(run)


async def _fail(run: Stage, _rest: str) -> None:
    await _say(run, "I will now fail on purpose.")
    await run.sleep(0.4)
    await run.fail("The demo's model broke down, as you asked it to.")


async def _help(run: Stage, _rest: str) -> None:
    await run.final_only(HELP)


async def _status(run: Stage, _rest: str) -> None:
    await run.final_only(
        "acp-bridge demo gateway\nModel: demo/canned-1 (no model at all)\n"
        f"Session: {run.session_key}\nQueue: empty"
    )


async def _think_level(run: Stage, level: str) -> None:
    try:
        run.choose({"thinkingLevel": level})
    except Refusal as refusal:
        await run.final_only(f"That cannot be: {refusal}")
        return
    await run.final_only(f"Thinking level set to {level}.")


_ACTS: dict[str, Callable[[Stage, str], Awaitable[None]]] = {
    "say": _repeat,
    "slow": _slow,
    "think": _think,
    "tool": _tool,
    "ask": _ask,
    "fail": _fail,
    "/help": _help,
    "/status": _status,
    "/think": _think_level,
}


async def _say(run: Stage, text: str) -> None:
    """Stream a text word by word, in a paragraph of its own."""
    for word in _WORD.findall(text):
        await run.text(word)
        await run.sleep(_WORD_SECONDS)


async def _show_plan(run: Stage, done: int) -> None:
    """The plan with its first ``done`` steps ticked and the next one under way."""
    statuses = ["completed"] * done + ["in_progress"] + ["pending"] * len(PLAN)
    await run.plan(list(zip(PLAN, statuses, strict=False)), title="Demo plan")


async def _count(run: Stage) -> None:
    """Token counts that look like those of a model: about four characters a token."""
    output = max(len(run.answer) // 4, 1)
    before = len(run.message) // 4 + 1200
    await run.usage(before + output, context=_CONTEXT, output=output)

"""Nothing but messages on stdout, little on stderr: field cases C001 to C003 and C087."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from acp_bridge.demo.runs import RunContext
from acp_bridge.demo.server import DemoGateway
from tests.e2e.conftest import Start
from tests.support.editor import EditorProcess, editor_environment
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

# Prints at once, in a buffer; and from the moment on at which the bridge loads its parts also
# past any buffer, for each import, from a thread, and through a logger that holds the old stdout.
SITE = """
import logging, os, sys, threading
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG)
print("noise: sitecustomize")
class Noisy:
    begun = False
    def find_spec(self, name, path=None, target=None):
        if name == "acp_bridge.cli" and not self.begun:
            self.begun = True
            threading.Thread(target=self.shout, daemon=True).start()
        if self.begun:
            self.speak(f"noise: {name}")
    def shout(self):
        while True:
            self.speak("noise: thread")
            threading.Event().wait(0.01)
    def speak(self, text):
        print(text, flush=True)
        logging.warning(text)
        os.write(1, text.encode() + b"\\n")
sys.meta_path.insert(0, Noisy())
"""


@pytest.mark.requirement("C002")
@pytest.mark.requirement("ACP-3")
async def test_what_a_library_prints_never_reaches_the_editor(home: Path) -> None:
    (home / "sitecustomize.py").write_text(SITE)
    environment = editor_environment(
        home, PYTHONPATH=str(home), PYTHONWARNINGS="always", PYTHONASYNCIODEBUG="1"
    )
    command = [sys.executable, "-X", "dev", "-m", "acp_bridge", "--url"]
    async with (
        DemoGateway(pace=0) as gateway,
        EditorProcess([*command, gateway.url], env=environment, cwd=home) as editor,
    ):
        turn = editor.prompt(await editor.open(home, timeout=scaled(15)), "Hello")
        assert await turn.stop_reason(scaled(30)) == "end_turn"
        assert "noise: sitecustomize" in editor.stderr
        assert "noise: thread" in editor.stderr


@pytest.mark.requirement("C001")
@pytest.mark.parametrize("level", ["warning", "debug"])
async def test_diagnostics_go_to_stderr(bridge: Start, home: Path, level: str) -> None:
    options = ["--token", "visible-secret", "--log-level", level]
    async with DemoGateway(pace=0) as gateway, bridge(gateway, *options) as editor:
        turn = editor.prompt(await editor.open(home), "Hello")
        assert await turn.stop_reason(scaled(20)) == "end_turn"
        assert "--token" in editor.stderr
        assert "visible-secret" not in editor.stderr


@pytest.mark.requirement("C003")
async def test_noise_on_stdin_before_the_first_message_is_survived(demo: Start) -> None:
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    noise = b"Welcome back\n\x1b]0;title\x07\n\n\xef\xbb\xbf"
    async with demo() as editor:
        call = editor.expect(1, "initialize")
        editor.send_raw(noise + json.dumps(initialize).encode() + b"\n")
        await call.result()
        assert editor.messages[0] == call.message
        await editor.initialize()
        assert sum("result" in message for message in editor.messages) == 2


@pytest.mark.requirement("C087")
@pytest.mark.requirement("ACP-98")
async def test_stderr_tells_little_and_nothing_of_what_was_said(bridge: Start, home: Path) -> None:
    async def talk(run: RunContext) -> None:
        await run.thought("SENTINEL-thought")
        await run.text("SENTINEL-answer")
        await run.exec("echo SENTINEL-argument", "SENTINEL-output")

    async with DemoGateway(talk, pace=0) as gateway, bridge(gateway) as editor:
        await editor.initialize(_meta={"proxy": {"token": "SENTINEL-meta"}})
        turn = editor.prompt(await editor.new_session(home), "SENTINEL-prompt")
        assert await turn == "end_turn"
        assert "SENTINEL-answer" in turn.text
        editor.send_raw(b'{"SENTINEL-broken\n')
        await editor.initialize()
        editor.close_stdin()
        assert await editor.wait_exit() == 0
        assert "SENTINEL" not in editor.stderr
        assert len(editor.stderr.splitlines()) <= 10


@pytest.mark.requirement("ACP-98")
async def test_even_a_debug_log_holds_no_meta(bridge: Start, home: Path) -> None:
    async with DemoGateway(pace=0) as gateway, bridge(gateway, "-vv") as editor:
        await editor.initialize(_meta={"proxy": {"token": "SENTINEL-meta"}})
        session = await editor.new_session(home, _meta={"token": "SENTINEL-meta"})
        turn = editor.prompt(session, "Hello", _meta={"token": "SENTINEL-meta"})
        assert await turn == "end_turn"
        await editor.until_stderr("prompt answered")
        assert "SENTINEL" not in editor.stderr

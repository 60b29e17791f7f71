"""The installed command: its descriptors, its words and its exit codes.

The bridge itself is replaced by a few lines where a test is about what stands around it.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.waits import WAIT

pytestmark = pytest.mark.e2e

BRIDGE = str(Path(sys.executable).with_name("acp-bridge"))

HEAVY = ("structlog", "pydantic", "rich", "typer", "acp", "sqlalchemy", "alembic")

APP = """
import sys, types
app = sys.modules["acp_bridge.app"] = types.ModuleType("acp_bridge.app")

def serve(settings, wire_fd):
    import os
{body}
    return 0

app.serve = serve
"""


@dataclass
class Place:
    """An environment of its own for one command, with start-up code that stands in for parts."""

    path: Path
    environ: dict[str, str] = field(default_factory=dict)

    def at_start(self, code: str) -> None:
        (self.path / "sitecustomize.py").write_text(code)
        self.environ["PYTHONPATH"] = str(self.path)

    def app(self, *lines: str, before: str = "") -> None:
        self.at_start(before + APP.format(body="\n".join(f"    {line}" for line in lines)))

    def run(
        self, *argv: str, stdin: int = subprocess.DEVNULL, script: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [BRIDGE, *argv] if script is None else ["sh", "-c", script]
        return subprocess.run(
            command,
            env=self.environ,
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=2 * WAIT,
            check=False,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "home").mkdir()
    return Place(tmp_path, {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]})


def test_the_version_is_told_on_stdout(place: Place) -> None:
    done = place.run("--version")

    assert done.returncode == 0
    assert re.fullmatch(r"acp-bridge \d.* \(python 3\..*ACP v1, .*\)\n", done.stdout)
    assert json.loads(place.run("--version", "--json").stdout)["acp"] == 1


def test_help_works_for_every_command(place: Place) -> None:
    for argv in (["--help"], ["-h"], ["serve", "--help"], ["chat", "--help"], ["demo", "-h"]):
        done = place.run(*argv)

        assert (done.returncode, done.stderr) == (0, "")
        assert "Usage: acp-bridge" in done.stdout


def test_an_unknown_command_is_answered_with_a_suggestion(place: Place) -> None:
    done = place.run("caht")

    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean 'chat'?" in done.stderr


@pytest.mark.parametrize(
    ("argv", "environ", "word"),
    [
        (["--gatway-url", "ws://x"], {}, "Did you mean --gateway-url?"),
        (["--connect-timeout", "soon"], {}, "--connect-timeout 30"),
        ([], {"ACP_BRIDGE_LOG_LEVEL": "loud"}, "ACP_BRIDGE_LOG_LEVEL"),
        (["serve", "--log-file", "/nowhere/x.log"], {}, "--log-file"),
        (["--state-dir", "/dev/null/x"], {}, "--state-dir"),
    ],
)
def test_a_wrong_setting_is_two_lines_on_stderr_and_exit_code_two(
    place: Place, argv: list[str], environ: dict[str, str], word: str
) -> None:
    place.environ |= environ

    done = place.run(*argv)

    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert word in done.stderr


def test_on_a_terminal_the_bridge_explains_itself(place: Place) -> None:
    ours, theirs = pty.openpty()
    try:
        done = place.run(stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)

    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 5
    for word in (BRIDGE, "acp-bridge demo", "acp-bridge chat", "acp-bridge --help"):
        assert word in done.stderr


@pytest.mark.requirement("C001")
@pytest.mark.requirement("C002")
def test_nothing_but_the_wire_reaches_stdout(place: Place) -> None:
    place.app(
        'print("during")',
        "import logging, structlog",
        'logging.getLogger("acp_bridge").warning("logged")',
        'structlog.get_logger().error("logged by structlog")',
        'os.write(1, b"written to the descriptor\\n")',
        'os.system("echo by a child")',
        'os.write(wire_fd, b\'{"jsonrpc": "2.0"}\\n\')',
        before=(
            "import logging, threading, warnings\n"
            'print("before")\n'
            'logging.basicConfig(stream=__import__("sys").stdout)\n'
            'thread = threading.Thread(target=print, args=("by a thread",))\n'
            "thread.start()\n"
            "thread.join()\n"
            'warnings.warn("something is old", DeprecationWarning)\n'
        ),
    )
    place.environ |= {"PYTHONWARNINGS": "always", "PYTHONASYNCIODEBUG": "1", "PYTHONDEVMODE": "1"}

    done = place.run("-vv")

    assert done.returncode == 0
    assert done.stdout == '{"jsonrpc": "2.0"}\n'
    for noise in ("before", "by a thread", "during", "by a child", "logged by structlog"):
        assert noise in done.stderr


def test_a_child_does_not_inherit_the_wire(place: Place) -> None:
    place.app("assert not os.get_inheritable(wire_fd)")

    assert place.run().returncode == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_descriptor_is_survived(place: Place, closed: str) -> None:
    place.app(
        "assert wire_fd > 2",
        'os.write(2, b"")',
        'assert os.read(0, 1) == b""',
        'os.write(wire_fd, b"")',
    )

    done = place.run(script=f"exec {BRIDGE} {closed}")

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("RuntimeError('it broke')", 1),
        ("__import__('acp_bridge.errors').errors.GatewayUnreachable()", 3),
        ("__import__('acp_bridge.errors').errors.AuthenticationFailed()", 4),
        ("KeyboardInterrupt()", 130),
        ("SystemExit(143)", 143),
    ],
)
def test_no_failure_shows_a_traceback(place: Place, raised: str, code: int) -> None:
    place.app(f"raise {raised}")

    done = place.run()

    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_a_signal_during_the_start_ends_it_with_the_documented_code(
    place: Place, name: str, code: int
) -> None:
    place.app("import signal", f"signal.raise_signal(signal.{name})")

    # A test run that was started to ignore the signal, as nohup does, would pass that on.
    inherited = signal.signal(signal.Signals[name], signal.SIG_DFL)
    try:
        done = place.run()
    finally:
        signal.signal(signal.Signals[name], inherited)

    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_the_traceback_is_shown_on_request_and_always_in_the_log_file(
    place: Place, tmp_path: Path
) -> None:
    place.app('raise RuntimeError("it broke")')

    quiet = place.run("--log-file", str(tmp_path / "x.log"))
    place.environ["ACP_BRIDGE_TRACEBACK"] = "1"
    loud = place.run()

    assert "Traceback" not in quiet.stderr
    assert "Traceback" in (tmp_path / "x.log").read_text()
    assert "Traceback" in loud.stderr


def test_a_credential_on_the_command_line_is_warned_of_once(place: Place) -> None:
    place.app('assert (settings.token, settings.password) in {("abcd", None), (None, "efgh")}')
    place.environ |= {"ACP_BRIDGE_PASSWORD": "efgh"}

    silent = place.run()
    done = place.run("--token", "abcd")

    assert (silent.returncode, silent.stderr) == (0, "")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "process listings" in line
    assert "--token-file" in line
    assert "abcd" not in line


@pytest.mark.requirement("C005")
@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_an_empty_environment_is_enough(place: Place, environ: dict[str, str]) -> None:
    place.app('assert settings.state_dir.is_absolute(), "relative"')
    place.environ = {"PYTHONPATH": str(place.path), "XDG_STATE_HOME": str(place.path), **environ}

    done = place.run()

    assert (done.returncode, done.stderr) == (0, "")
    assert (place.path / "acp-bridge").is_dir()


@pytest.mark.requirement("C081")
def test_an_odd_environment_is_no_obstacle(place: Place) -> None:
    place.app("")
    odd = {b"BASH_FUNC_x%%": b"() {  echo\n}", b"ODD": b"\xff\xfe\n", b"BIG": b"x" * 100_000}
    environ = {os.fsencode(key): os.fsencode(value) for key, value in place.environ.items()}

    done = subprocess.run(
        [BRIDGE], env=environ | odd, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_stderr_that_nobody_reads_does_not_keep_the_process(place: Place) -> None:
    place.app(
        "import logging",
        'log = logging.getLogger("acp_bridge")',
        'for _ in range(3000): log.warning("x" * 500)',
        "os.write(wire_fd, b'{}')",
    )
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [BRIDGE],
            env=place.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writer,
            timeout=2 * WAIT,
            check=False,
        )
    finally:
        os.close(reader)
        os.close(writer)

    assert (done.returncode, done.stdout) == (0, b"{}")


def test_a_start_that_logs_nothing_imports_nothing_heavy(place: Place) -> None:
    place.environ["PYTHONPROFILEIMPORTTIME"] = "1"

    done = place.run("--log-level", "critical")

    assert done.returncode == 0
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "acp_bridge.app" in modules
    assert not {module for module in modules if module.partition(".")[0] in HEAVY}


@pytest.mark.parametrize("argv", ["--help", "chat --demo --prompt say"])
def test_a_reader_that_leaves_early_sees_no_traceback(place: Place, argv: str) -> None:
    done = place.run(script=f"{BRIDGE} {argv} | head -c 1")

    assert done.stderr == ""

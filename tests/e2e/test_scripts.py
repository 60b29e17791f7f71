"""The scripts that a newcomer runs first, with a stand-in for Python that notes its calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.waits import WAIT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name != "posix", reason="the scripts are for a POSIX shell"),
]

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "cat", "chmod", "cksum", "cp", "dirname", "grep", "mkdir", "rm", "tail")

PYTHON = """#!/bin/sh
case "$1 ${{2-}}" in
    --version*) echo "Python {version}" ;;
    "-c "*) exit {unusable} ;;
    "-m venv")
        mkdir -p .venv/bin
        rm -f .venv/installed-*
        cp "$0" .venv/bin/python
        echo 'echo "$@"' >.venv/bin/acp-bridge
        chmod +x .venv/bin/acp-bridge
        ;;
    "-m pip") echo pip "$@" >>calls; {pip} ;;
    "-m pytest") echo pytest "$@" >>calls ;;
esac
"""


@dataclass
class Checkout:
    """A copy of the scripts, and a PATH with nothing on it but what is put there."""

    path: Path
    bin: Path

    def python(
        self,
        version: str = "3.12.1",
        *,
        usable: bool = True,
        pip: str = "true",
        name: str = "python3",
    ) -> None:
        script = self.bin / name
        script.write_text(PYTHON.format(version=version, unusable=int(not usable), pip=pip))
        script.chmod(0o755)

    def run(self, script: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.path / "scripts" / script, *argv],
            cwd="/",
            env={"PATH": str(self.bin)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * WAIT,
            check=False,
        )

    def calls(self) -> list[str]:
        """What pip and pytest were asked since the last call."""
        noted = self.path / "calls"
        lines = noted.read_text().splitlines() if noted.exists() else []
        noted.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    found = Checkout(tmp_path / "checkout", tmp_path / "bin")
    shutil.copytree(ROOT / "scripts", found.path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", found.path)
    found.bin.mkdir()
    for tool in TOOLS:
        (found.bin / tool).symlink_to(shutil.which(tool) or "/missing")
    return found


@pytest.mark.parametrize("script", ["demo", "test", "check"])
def test_without_a_usable_python_one_line_says_so(checkout: Checkout, script: str) -> None:
    none = checkout.run(script)
    checkout.python("3.9.18", usable=False)
    old = checkout.run(script)

    for done in (none, old):
        assert done.returncode == 1
        error, hint = done.stderr.splitlines()
        assert error.startswith("error: ")
        assert "3.11" in error
        assert hint.startswith("hint: ")
    assert "Python 3.9.18" in old.stderr


def test_an_older_python_is_passed_over_for_a_usable_one(checkout: Checkout) -> None:
    checkout.python("3.9.18", usable=False, name="python3")
    checkout.python("3.12.1", name="python3.12")

    done = checkout.run("demo")

    assert done.returncode == 0
    assert "Python 3.12.1" in done.stderr


def test_the_demo_is_installed_once_and_gets_the_arguments(checkout: Checkout) -> None:
    checkout.python()

    first, calls = checkout.run("demo", "--prompt", "hi"), checkout.calls()
    second = checkout.run("demo")

    assert first.returncode == 0
    assert first.stdout == "demo --prompt hi\n"
    assert len(first.stderr.splitlines()) == 3
    assert len(calls) == 1
    assert (second.stdout, checkout.calls()) == ("demo\n", [])


def test_a_change_of_the_needs_installs_again(checkout: Checkout) -> None:
    checkout.python()
    checkout.run("demo")
    checkout.calls()

    with (checkout.path / "pyproject.toml").open("a") as project:
        project.write("# changed\n")

    assert checkout.run("demo").returncode == 0
    assert checkout.calls()


def test_the_tests_need_more_than_the_demo_and_the_demo_needs_nothing_more(
    checkout: Checkout,
) -> None:
    checkout.python()
    checkout.run("demo")
    checkout.calls()

    done, calls = checkout.run("test", "-k", "some"), checkout.calls()
    checkout.run("demo")

    assert done.returncode == 0
    assert any("--group test" in call for call in calls)
    assert calls[-1].startswith("pytest -m pytest")
    assert calls[-1].endswith("-k some")
    assert checkout.calls() == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("WARNING: Retrying (Retry(total=1)) after connection broken", "no package index"),
        ("ERROR: No space left on device", "No space left on device"),
    ],
)
def test_a_failed_installation_is_one_line_with_the_reason_and_is_tried_again(
    checkout: Checkout, words: str, expected: str
) -> None:
    checkout.python(pip=f"echo '{words}'; exit 1")

    done = checkout.run("demo")

    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert expected in errors[0]
    checkout.calls()
    checkout.python()
    shutil.copy(checkout.bin / "python3", checkout.path / ".venv" / "bin" / "python")
    assert checkout.run("demo").returncode == 0
    assert checkout.calls()

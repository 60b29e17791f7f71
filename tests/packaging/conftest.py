"""The wheel, built once, and an environment that has it and nothing of the checkout."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Installed:
    """A fresh environment with the wheel, used from a directory of its own."""

    bin: Path
    home: Path

    def run(self, command: str, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command), *argv],
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def _pip(python: str, *argv: str) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    _pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(target), str(ROOT))
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "venv", with_pip=True)
    (place / "home").mkdir()
    found = Installed(place / "venv" / "bin", place / "home")
    _pip(str(found.bin / "python"), "install", str(wheel))
    return found

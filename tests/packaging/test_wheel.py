"""What is published: the wheel's contents, and the command that it installs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from acp_bridge import __version__
from tests.packaging.conftest import ROOT, Installed

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(300)]


def test_the_wheel_holds_both_packages_whole_and_nothing_else(wheel: Path) -> None:
    expected = {
        str(path.relative_to(ROOT))
        for package in ("acp_bridge", "ledger")
        for path in (ROOT / package).rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    } | {f"ledger/{path.relative_to(ROOT)}" for path in (ROOT / "migrations").rglob("*.py")}

    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert expected <= names
    assert names - expected == {"ledger/migrations/script.py.mako"}


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())

    assert metadata["Name"] == "acp-gateway-bridge"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == "<3.15,>=3.11"
    assert "scripts/demo" in str(metadata.get_payload())


def test_the_installed_code_is_the_wheels(installed: Installed) -> None:
    done = installed.run("python", "-c", "import acp_bridge, ledger; print(acp_bridge.__file__)")

    assert done.stderr == ""
    assert Path(done.stdout.strip()).is_relative_to(installed.bin.parent)


def test_the_installed_ledger_makes_its_database_by_the_wheels_own_revisions(
    installed: Installed, tmp_path: Path
) -> None:
    program = (
        "import sys, ledger, ledger.schema; url = sys.argv[1]; print(ledger.schema.scripts()); "
        "ledger.open_ledger(url).write([ledger.NewSession('s', 'k', '/', 1)]); "
        "print(ledger.open_ledger(url).read('s').session.session_key)"
    )

    done = installed.run("python", "-c", program, f"sqlite:///{tmp_path}/ledger.db")

    assert done.stderr == ""
    scripts, key = done.stdout.split()
    assert Path(scripts).is_relative_to(installed.bin.parent)
    assert key == "k"


def test_the_installed_command_prepares_a_ledger(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("acp-bridge", "ledger", "migrate", "--state-dir", str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "ledger.db").is_file()


def test_the_installed_command_tells_its_version(installed: Installed) -> None:
    done = installed.run("acp-bridge", "--version")

    assert done.returncode == 0
    assert re.match(rf"acp-bridge {re.escape(__version__)} \(", done.stdout)


def test_the_installed_command_shows_the_demo(installed: Installed) -> None:
    done = installed.run("acp-bridge", "demo", "--prompt", "hi")

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_installed_command_serves_an_editor(installed: Installed) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}

    done = installed.run("acp-bridge", "--demo", stdin=json.dumps(request) + "\n")

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[0])
    assert answer["id"] == 1
    assert answer["result"]["protocolVersion"] == 1


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    built = []
    for name in ("first", "second"):
        copy = tmp_path / name / "source"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
        )
        for path in copy.rglob("*"):  # as another checkout, at another time, would have them
            os.utime(path, (len(name) * 1e8, len(name) * 1e8))
        target = tmp_path / name / "wheel"
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(target), str(copy)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1796000000"}
        subprocess.run(command, env=environment, check=True, capture_output=True)
        (wheel,) = target.glob("*.whl")
        built.append(wheel.read_bytes())
    assert built[0] == built[1]

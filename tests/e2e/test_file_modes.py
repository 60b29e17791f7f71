"""Every file and directory that the bridge makes is its owner's alone, whatever the umask."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from acp_bridge.demo.acp import AcpDemoGateway
from acp_bridge.demo.server import DemoGateway
from tests.e2e.scripts import echo
from tests.support.acp_oracle import AcpOracle
from tests.support.editor import EditorProcess, agent_command, editor_environment
from tests.support.pairing import pairing_server

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's"),
    pytest.mark.parametrize("umask", ["000", "077"]),
]

DIRECTORY, FILE = "drwx------", "-rw-------"


def under(umask: str, *arguments: str) -> list[str]:
    """The command line of the bridge, with this umask."""
    return ["/bin/sh", "-c", f'umask {umask}; exec "$@"', "sh", *agent_command(*arguments)]


def made_in(home: Path) -> dict[str, str]:
    """The mode of all that is in the home directory, by its path."""
    return {
        str(path.relative_to(home)): stat.filemode(path.lstat().st_mode)
        for path in sorted(home.rglob("*"))
    }


def known(found: dict[str, str], names: set[str]) -> None:
    """Raises unless just these files were made, and each with its mode."""
    files = {name for name, mode in found.items() if mode == FILE}
    assert set(found.values()) == {DIRECTORY, FILE}, found
    assert files == names


STATE, DATA = ".local/state/acp-bridge", ".local/share/acp-bridge"
ALWAYS = {
    f"{STATE}/device.pem",
    f"{STATE}/device-tokens.json",
    f"{STATE}/.device-tokens.json.lock",
    f"{DATA}/ledger.db",
    f"{DATA}/ledger.db.lock",
    "bridge.log",
}


async def test_what_serving_makes(umask: str, home: Path) -> None:
    async with DemoGateway(echo, pace=0) as gateway:
        command = under(umask, "--url", gateway.url, "--log-file", "bridge.log", "-v")
        async with EditorProcess(command, env=editor_environment(home), cwd=home) as editor:
            assert await editor.prompt(await editor.open(home), "hello") == "end_turn"
            beside = {f"{DATA}/ledger.db-wal", f"{DATA}/ledger.db-shm"}
            known(made_in(home), ALWAYS | beside)
        known(made_in(home), ALWAYS)


async def test_what_serving_makes_where_the_state_directory_is_named(
    umask: str, home: Path
) -> None:
    async with AcpDemoGateway(echo, pace=0) as gateway:
        command = under(umask, "--url", gateway.url, "--state-dir", "above/state")
        oracle = AcpOracle(extras=True)
        environment = editor_environment(home)
        async with EditorProcess(command, env=environment, cwd=home, oracle=oracle) as editor:
            assert await editor.prompt(await editor.open(home), "hello") == "end_turn"
        found = made_in(home)
        assert found["above"] == found["above/state"] == DIRECTORY
        known(found, {"above/state/ledger.db", "above/state/ledger.db.lock"})


def test_what_config_init_makes(umask: str, home: Path) -> None:
    command = under(umask, "config", "init")
    subprocess.run(command, env=editor_environment(home), cwd=home, check=True, timeout=30)
    known(made_in(home), {".config/acp-bridge/config.toml"})


def test_what_pairing_makes(umask: str, home: Path) -> None:
    with pairing_server() as server:
        command = under(umask, "pair", "--code", "123456", "--gateway-url", server.url)
        environment = editor_environment(home)
        subprocess.run(command, env=environment, cwd=home, check=True, timeout=30)
    found = made_in(home)
    assert any("token" in name for name in found)
    assert set(found.values()) == {DIRECTORY, FILE}

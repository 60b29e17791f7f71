"""Files with secrets on a file system whose modes mean nothing: only when the user says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acp_bridge.demo.server import DemoGateway
from tests.e2e.scripts import echo
from tests.e2e.test_config import TOKEN, profiles, shown, written
from tests.support.editor import AgentError, EditorProcess, agent_command, editor_environment

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's"),
]


def everything_open(home: Path, url: str) -> None:
    """A profile with a token file, and a device's key, all of them open to others."""
    path = profiles(home, f'[profiles.default]\ngateway_url = "{url}"\ntoken_file = "token"\n')
    for file in (path, written(path.parent / "token", TOKEN)):
        file.chmod(0o777)


def bridge(home: Path, *options: str, **variables: str) -> EditorProcess:
    environment = editor_environment(home, **variables)
    return EditorProcess(agent_command(*options), env=environment, cwd=home)


@pytest.mark.requirement("C008")
@pytest.mark.parametrize("by", ["flag", "variable"])
async def test_open_files_are_used_with_the_option_and_a_warning(by: str, home: Path) -> None:
    options = ("--insecure-permissions",) if by == "flag" else ()
    variables = {} if options else {"ACP_BRIDGE_INSECURE_PERMISSIONS": "true"}
    async with DemoGateway(echo, pace=0, token=TOKEN) as gateway:
        everything_open(home, gateway.url)
        for _ in range(2):  # the second time with a key that is there, and open
            async with bridge(home, *options, **variables) as editor:
                assert await editor.prompt(await editor.open(home), "hello") == "end_turn"
            assert "warning: files with secrets may be open to other users" in editor.stderr
            (home / ".local" / "state" / "acp-bridge" / "device.pem").chmod(0o777)
    result = shown(home, "show", "--", *options, **variables)
    assert "token: from profiles.default.token_file in" in result.stdout
    looked = shown(home, "validate", *options, **variables)
    assert (looked.returncode, looked.stdout.splitlines()[1]) == (0, "profiles.default: good")


async def test_without_the_option_none_of_them_is(home: Path) -> None:
    async with DemoGateway(echo, pace=0, token=TOKEN) as gateway:
        everything_open(home, gateway.url)
        refused = shown(home, "show")
        assert refused.returncode == 2
        assert "is open to other users; run: chmod go-w" in refused.stderr
        (home / ".config" / "acp-bridge" / "config.toml").chmod(0o600)
        async with bridge(home) as editor:
            await editor.initialize()
            with pytest.raises(AgentError, match="token is open to other users"):
                await editor.new_session(home)


async def test_links_are_refused_with_the_option_too(home: Path) -> None:
    link = home / "token"
    link.symlink_to(written(home / "elsewhere", TOKEN))

    result = shown(home, "show", "--", "--insecure-permissions", f"--token-file={link}")

    assert "is a symbolic link" in result.stdout


def test_a_profile_cannot_say_it(home: Path) -> None:
    profiles(home, "[profiles.default]\ninsecure_permissions = true\n")

    result = shown(home, "show")

    assert result.returncode == 2
    assert "insecure_permissions is no option" in result.stderr

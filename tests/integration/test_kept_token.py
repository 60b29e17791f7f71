"""The token of a pairing: got once, kept by one of several, and never at the cost of a code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.demo.acp import AcpDemoGateway
from acp_bridge.errors import AuthenticationFailed, ConfigError, GatewayError, GatewayRefused
from acp_bridge.gateway import pairing
from acp_bridge.gateway.credentials import Credentials, File
from acp_bridge.gateway.kept_token import known_token, pair_and_keep
from acp_bridge.gateway.secret import Secret
from acp_bridge.gateway.settings import is_loopback
from tests.support.client_rig import client_rig, credentials
from tests.support.pairing import PairingServer, pairing_server
from tests.support.waits import WAIT
from tests.support.zeroclaw_door import CODE, door

pytestmark = pytest.mark.integration

TOKEN = "zc_of-the-test"  # noqa: S105 - of a test


@pytest.fixture
def server() -> Iterator[PairingServer]:
    with pairing_server() as running:
        yield running


def test_a_token_is_kept_for_its_owner_alone_and_the_log_learns_the_secrets(
    server: PairingServer, tmp_path: Path
) -> None:
    kept, learnt = tmp_path / "new" / "token", list[str]()
    token = pair_and_keep(server.url, kept, "123456", refused=None, learn=learnt.append)
    assert kept.read_text() == f"{token.reveal()}\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert learnt == ["123456", server.token]


def test_a_code_is_not_spent_when_the_token_cannot_be_kept(
    server: PairingServer, tmp_path: Path
) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "directory", tmp_path / "link", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="cannot be kept") as caught:
            pair_and_keep(server.url, path, "123456", refused=None)
        assert caught.value.hint
    assert server.code == "123456"
    assert not (tmp_path / "elsewhere").exists()


def test_what_another_process_has_got_meanwhile_is_taken_unless_it_was_refused(
    server: PairingServer, tmp_path: Path
) -> None:
    kept = tmp_path / "token"
    kept.write_text("of-another\n")
    kept.chmod(0o600)
    assert pair_and_keep(server.url, kept, None, refused=None).reveal() == "of-another"
    assert server.code == "123456"
    stale = Secret("of-another")
    assert pair_and_keep(server.url, kept, None, refused=stale).reveal() == server.token
    assert known_token(kept) == Secret(server.token)


def test_an_explicit_code_gets_a_new_token_whatever_is_kept(
    server: PairingServer, tmp_path: Path
) -> None:
    kept = tmp_path / "token"
    kept.write_text("stale\n")  # and open to all
    kept.chmod(0o644)
    assert known_token(kept) is None
    assert pair_and_keep(server.url, kept, "123456", refused=None).reveal() == server.token


@pytest.mark.parametrize("code", ["", "12 34", "1\r\nX-Evil: 1", "١٢٣", "1" * 5000])
def test_what_can_be_no_code_is_not_sent(server: PairingServer, code: str) -> None:
    server.status = 500
    with pytest.raises(ConfigError, match="no pairing code"):
        pairing.pair(server.url, code)


@pytest.mark.parametrize("token", ["", " ", "two words", "a\r\nb", 5, None, "x" * 5000])
def test_what_can_be_no_token_is_not_kept(server: PairingServer, token: Any) -> None:
    server.status, server.answer = 200, {"token": token}
    with pytest.raises(GatewayRefused, match="gave no token"):
        pairing.pair(server.url, "123456")


# --- while serving ----------------------------------------------------------------------------


def settings(kept: Path, given: Credentials | None = None) -> dict[str, Any]:
    none = given or credentials()
    of_pairing = File("the pairing's", kept, is_optional=True)
    return {"kind": "acp", "acp_credentials": none.or_else(of_pairing)}


@pytest.mark.parametrize("stale", [None, "stale-token"])
async def test_the_bridge_becomes_the_first_client_of_a_gateway_on_this_machine(
    tmp_path: Path, stale: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "acp_bridge")
    kept = tmp_path / "token"
    if stale is not None:
        kept.write_text(stale)
        kept.chmod(0o600)
    async with (
        AcpDemoGateway(token=TOKEN, pace=0) as gateway,
        door(gateway, TOKEN) as way,
        client_rig(way.url, tmp_path, settings=settings(kept)) as rig,
    ):
        await rig.client.wait_hello(WAIT)
        assert way.asked[:2] == ["GET /pair/code", "POST /pair"]
        assert kept.read_text() == f"{TOKEN}\n"
    said = "".join(str(vars(record)) for record in caplog.records)
    assert TOKEN not in said
    assert CODE not in said


async def test_of_several_that_pair_at_once_one_does_and_all_have_the_token(
    tmp_path: Path,
) -> None:
    async with AcpDemoGateway(token=TOKEN, pace=0) as gateway, door(gateway, TOKEN) as way:
        way.latency = 0.1  # so that each would have the code before any has used it
        changed = settings(tmp_path / "token")
        rigs = [client_rig(way.url, tmp_path, settings=changed) for _ in range(4)]
        async with contextlib.AsyncExitStack() as stack:
            running = [await stack.enter_async_context(rig) for rig in rigs]
            await asyncio.gather(*(rig.client.wait_hello(WAIT, patient=False) for rig in running))
        assert way.asked == ["GET /pair/code", "POST /pair"]


async def refusal(way: Any, tmp_path: Path, changed: dict[str, Any]) -> GatewayError:
    async with client_rig(way.url, tmp_path, settings=changed) as rig:
        with pytest.raises(AuthenticationFailed) as caught:
            await rig.client.wait_hello(WAIT, patient=False)
        return caught.value


async def test_a_gateway_that_shows_no_code_is_told_as_before(tmp_path: Path) -> None:
    async with AcpDemoGateway(token=TOKEN, pace=0) as gateway, door(gateway, TOKEN) as way:
        way.shows_code = False
        error = await refusal(way, tmp_path, settings(tmp_path / "token"))
        assert "acp-bridge pair" in (error.hint or "")
        assert way.asked == ["GET /pair/code"]


async def test_a_token_that_the_user_has_named_is_not_replaced(tmp_path: Path) -> None:
    async with AcpDemoGateway(token=TOKEN, pace=0) as gateway, door(gateway, TOKEN) as way:
        named = credentials(token="wrong")  # noqa: S106 - of a test
        await refusal(way, tmp_path, settings(tmp_path / "token", named))
        assert way.asked == []


async def test_a_code_that_is_shown_and_not_taken_is_tried_once(tmp_path: Path) -> None:
    async with AcpDemoGateway(token=TOKEN, pace=0) as gateway, door(gateway, "two words") as way:
        async with client_rig(way.url, tmp_path, settings=settings(tmp_path / "token")) as rig:
            for _ in range(3):
                with pytest.raises(AuthenticationFailed):
                    await rig.client.wait_hello(WAIT, patient=False)
        assert way.asked.count("POST /pair") == 1


async def test_nothing_is_paired_by_itself_off_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AcpDemoGateway(token=TOKEN, pace=0) as gateway, door(gateway, TOKEN) as way:
        # The name of another machine, which leads here.
        url = way.url.replace("127.0.0.1", "gateway.test")
        assert not is_loopback(url)
        real = socket.getaddrinfo

        def found(host: Any, *rest: Any, **more: Any) -> Any:
            return real("127.0.0.1" if host == "gateway.test" else host, *rest, **more)

        monkeypatch.setattr(socket, "getaddrinfo", found)
        monkeypatch.setenv("no_proxy", "gateway.test")
        way.url = url
        error = await refusal(way, tmp_path, settings(tmp_path / "token"))
        assert "acp-bridge pair" in (error.hint or "")
        assert way.asked == []

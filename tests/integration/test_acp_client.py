"""The gateway client over a real WebSocket to a gateway that speaks ACP."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from acp_bridge.core import commands as cmd
from acp_bridge.core import events as ev
from acp_bridge.demo import DemoGateway
from acp_bridge.demo.acp import AcpDemoGateway, AcpRun
from acp_bridge.errors import (
    AuthenticationFailed,
    CredentialsUnusable,
    GatewayError,
    GatewayUnreachable,
    VersionMismatch,
)
from acp_bridge.gateway.detection import GREETING
from acp_bridge.gateway.dialects.acp_ws.handshake import SUBPROTOCOL
from acp_bridge.ids import RunId
from tests.support.client_rig import ClientRig, client_rig
from tests.support.fault_proxy import FaultProxy
from tests.support.waits import WAIT

pytestmark = pytest.mark.integration

TOKEN = "test-token"  # noqa: S105 - of a test
ACP = {"kind": "acp"}
AUTO = {"kind": "auto", "kind_source": "default"}


async def echo(run: AcpRun) -> None:
    await run.text(str(len(run.message)))


async def deliver(run: AcpRun) -> None:
    await run.deliver("big", "application/octet-stream", base64.b64encode(bytes(10 << 20)).decode())


@pytest.fixture
async def gateway() -> AsyncIterator[AcpDemoGateway]:
    async with AcpDemoGateway(echo, token=TOKEN, pace=0) as running:
        yield running


async def trouble(rig: ClientRig) -> GatewayError:
    """Why there is no connection."""
    with pytest.raises(GatewayError) as caught:
        await rig.client.wait_hello(WAIT, patient=False)
    return caught.value


async def prompt(rig: ClientRig, *blocks: Any) -> ev.RunEnded:
    """Run a prompt in a new session, to its end."""
    opened = await rig.client.request(cmd.OpenSession("/"))
    rig.client.submit(cmd.StartRun(RunId("r"), opened.session_key, "", blocks=blocks))
    return await rig.next(ev.RunEnded)


@pytest.mark.parametrize("via", ["header", "subprotocol", "query"])
async def test_the_token_goes_where_it_is_wanted(
    gateway: AcpDemoGateway, tmp_path: Path, via: str
) -> None:
    async with client_rig(gateway.url, tmp_path, settings={**ACP, "token_via": via}) as rig:
        hello = await rig.client.wait_hello(WAIT)
        assert hello.server_version == "zeroclaw-acp 0.8.4"
        assert (TOKEN in str(gateway.upgrades[0].get("Authorization"))) is (via == "header")


async def test_a_refused_token_is_told_by_its_source_and_never_by_its_value(
    gateway: AcpDemoGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for via in ("header", "query"):
        settings = {**ACP, "token_via": via}
        async with client_rig(gateway.url, tmp_path, settings=settings, token="wrong-one") as rig:  # noqa: S106
            error = await trouble(rig)
            assert isinstance(error, AuthenticationFailed)
            assert "refused the token of --token" in error.message
            assert "get-paircode" in (error.hint or "")
    said = [str(vars(r)) for r in caplog.records if r.name.startswith("acp_bridge")]
    assert "wrong-one" not in "".join(said)
    async with client_rig(gateway.url, tmp_path, settings=ACP, token=None) as rig:
        assert "none is configured" in str(await trouble(rig))


async def test_a_token_that_cannot_be_read_is_told(gateway: AcpDemoGateway, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    async with client_rig(gateway.url, tmp_path, settings=ACP, token_file=missing) as rig:
        assert isinstance(await trouble(rig), CredentialsUnusable)


@pytest.mark.parametrize(("status", "said"), [(404, "/acp"), (429, "Wait"), (500, "Start")])
async def test_a_refused_upgrade_says_what_to_do(
    gateway: AcpDemoGateway, tmp_path: Path, status: int, said: str
) -> None:
    gateway.refuse(status, Retry_After="1")
    async with client_rig(gateway.url, tmp_path, settings=ACP) as rig:
        error = await trouble(rig)
        assert isinstance(error, GatewayUnreachable)
        assert said in (error.hint or "")


async def test_another_version_of_acp_is_told(tmp_path: Path) -> None:
    async with (
        AcpDemoGateway(echo, protocol_version=2) as gateway,
        client_rig(gateway.url, tmp_path, settings=ACP) as rig,
    ):
        error = await trouble(rig)
        assert isinstance(error, VersionMismatch)
        assert "Upgrade the acp-bridge" in (error.hint or "")


async def test_a_lost_connection_is_made_again_with_an_initialize_of_its_own(
    gateway: AcpDemoGateway, tmp_path: Path
) -> None:
    async with client_rig(gateway.url, tmp_path, settings=ACP) as rig:
        await rig.next(ev.LinkUp)
        gateway.drop_connections()
        await rig.next(ev.LinkLost)
        await rig.over_pause()
        assert (await rig.next(ev.LinkUp)).hello.generation == 2
        assert gateway.methods() == ["initialize", "initialize"]


async def test_a_link_that_is_open_and_dead_is_left_when_a_ping_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pings go by the time of the loop: a short interval instead of a clock in the hand.
    monkeypatch.setattr("acp_bridge.gateway.approach.PING_INTERVAL", 0.2)
    async with (
        AcpDemoGateway(echo, pace=0) as gateway,
        FaultProxy(gateway.url) as proxy,
        client_rig(f"{proxy.url}/acp", tmp_path, settings=ACP) as rig,
    ):
        await rig.next(ev.LinkUp)
        proxy.freeze()
        await rig.next(ev.LinkLost)
        await rig.over_pause()
        assert (await rig.next(ev.LinkUp)).hello.generation == 2


async def test_two_large_files_go_in_frames_that_the_gateway_takes(
    gateway: AcpDemoGateway, tmp_path: Path
) -> None:
    blob = base64.b64encode(bytes(10 << 20)).decode()
    file = {"type": "resource", "resource": {"uri": "file:///a", "blob": blob}}
    async with client_rig(gateway.url, tmp_path, settings=ACP) as rig:
        await rig.client.wait_hello(WAIT)
        assert (await prompt(rig, file, file)).kind is ev.EndKind.FINISHED


async def test_a_large_file_can_be_delivered(tmp_path: Path) -> None:
    async with (
        AcpDemoGateway(deliver, pace=0) as gateway,
        client_rig(gateway.url, tmp_path, settings=ACP) as rig,
    ):
        await rig.client.wait_hello(WAIT)
        text = {"type": "text", "text": "x"}
        assert (await prompt(rig, text)).kind is ev.EndKind.FINISHED


async def test_frames_that_are_no_messages_are_survived(
    gateway: AcpDemoGateway, tmp_path: Path
) -> None:
    async with client_rig(gateway.url, tmp_path, settings=ACP) as rig:
        await rig.client.wait_hello(WAIT)
        for odd in ("nonsense", "x" * (20 << 20), '{"jsonrpc":"2.0","id":"77","result":1}'):
            gateway.send_text(odd)
            await rig.next(ev.Unreadable)
        text = {"type": "text", "text": "x"}
        assert (await prompt(rig, text)).kind is ev.EndKind.FINISHED


# --- which kind it is --------------------------------------------------------------------------


def kinds(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [
        vars(record)["fields"]
        for record in caplog.records
        if record.message == "the kind of the gateway is known"
    ]


async def test_the_path_tells_and_the_choice_is_logged_once(
    gateway: AcpDemoGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "acp_bridge")
    async with client_rig(gateway.url, tmp_path, settings=AUTO) as rig:
        await rig.next(ev.LinkUp)
        gateway.drop_connections()
        await rig.next(ev.LinkLost)
        await rig.over_pause()
        await rig.next(ev.LinkUp)
    assert kinds(caplog) == [{"kind": "acp", "reason": "the path of the URL ends in /acp"}]


async def test_a_gateway_that_speaks_first_is_openclaws(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "acp_bridge")
    async with (
        DemoGateway(token=TOKEN) as openclaw,
        client_rig(openclaw.url, tmp_path, settings=AUTO) as rig,
    ):
        assert not (await rig.client.wait_hello(WAIT)).makes_sessions
    assert kinds(caplog) == [{"kind": "openclaw", "reason": "the gateway spoke first"}]


async def test_a_gateway_that_waits_for_a_first_word_speaks_acp(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "acp_bridge")

    async def agent(socket: ServerConnection) -> None:
        """Answers an initialize, and whatever else, with the hello of a plain agent."""
        async for text in socket:
            message = json.loads(text)
            result = {"protocolVersion": 1, "agentInfo": {"name": "plain", "version": "1"}}
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))

    async with serve(agent, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with client_rig(f"ws://127.0.0.1:{port}/agent", tmp_path, settings=AUTO) as rig:
            assert await rig.over_pause() == GREETING
            assert (await rig.client.wait_hello(WAIT)).server_version == "plain 1"
    assert [kind["kind"] for kind in kinds(caplog)] == ["acp"]


async def test_a_gateway_that_selects_the_subprotocol_speaks_acp_and_gets_the_token_then_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "acp_bridge")
    tokens: list[str | None] = []

    async def agent(socket: ServerConnection) -> None:
        assert socket.request is not None
        tokens.append(socket.request.headers.get("Authorization"))
        async for text in socket:
            answer = {"id": json.loads(text)["id"], "result": {"protocolVersion": 1}}
            await socket.send(json.dumps({"jsonrpc": "2.0", **answer}))

    async with serve(agent, "127.0.0.1", 0, subprotocols=[Subprotocol(SUBPROTOCOL)]) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with client_rig(f"ws://127.0.0.1:{port}/agent", tmp_path, settings=AUTO) as rig:
            assert (await rig.client.wait_hello(WAIT)).makes_sessions
    assert tokens == [None, f"Bearer {TOKEN}"]
    reason = f"the gateway selected the subprotocol {SUBPROTOCOL}"
    assert kinds(caplog) == [{"kind": "acp", "reason": reason}]


async def test_a_server_that_takes_the_first_subprotocol_has_said_nothing_by_that(
    tmp_path: Path,
) -> None:
    heard: asyncio.Queue[tuple[str | None, str]] = asyncio.Queue()

    async def speak_first(socket: ServerConnection) -> None:
        challenge = {
            "type": "event",
            "event": "connect.challenge",
            "payload": {"nonce": "n", "ts": 1},
        }
        await socket.send(json.dumps(challenge))
        heard.put_nowait((socket.subprotocol, json.loads(await socket.recv())["method"]))
        await socket.wait_closed()

    def first(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        return next(iter(offered), None)

    async with serve(speak_first, "127.0.0.1", 0, select_subprotocol=first) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with client_rig(f"ws://127.0.0.1:{port}", tmp_path, settings=AUTO):
            async with asyncio.timeout(WAIT):
                assert await heard.get() == ("acp-bridge", "connect")


async def test_a_gateway_that_takes_no_subprotocol_at_all_is_asked_without_one(
    tmp_path: Path,
) -> None:
    offered: list[str | None] = []

    def admit(socket: ServerConnection, request: Request) -> Response | None:
        offered.append(request.headers.get("Sec-WebSocket-Protocol"))
        return socket.respond(HTTPStatus.BAD_REQUEST, "no") if offered[-1] else None

    async def agent(socket: ServerConnection) -> None:
        async for text in socket:
            answer = {"id": json.loads(text)["id"], "result": {"protocolVersion": 1}}
            await socket.send(json.dumps({"jsonrpc": "2.0", **answer}))

    async with serve(agent, "127.0.0.1", 0, process_request=admit) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with client_rig(f"ws://127.0.0.1:{port}/agent", tmp_path, settings=AUTO) as rig:
            await rig.over_pause()
            assert offered[:2] == [f"acp-bridge, {SUBPROTOCOL}", None]


async def test_a_gateway_that_hangs_up_before_a_word_is_tried_again(tmp_path: Path) -> None:
    async def hang_up(socket: ServerConnection) -> None:
        await socket.close(1013, "starting")

    async with serve(hang_up, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with client_rig(f"ws://127.0.0.1:{port}", tmp_path, settings=AUTO) as rig:
            error = await trouble(rig)
            assert isinstance(error, GatewayUnreachable)
            assert error.data["closeCode"] == 1013

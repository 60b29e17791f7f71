"""What a gateway that speaks ACP must not send, over a real WebSocket: told, counted, survived."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.core import commands as cmd
from acp_bridge.core import events as ev
from acp_bridge.demo.acp import AcpDemoGateway, AcpRun
from acp_bridge.errors import GatewayError, VersionMismatch
from acp_bridge.gateway.unreadable import QUIET
from acp_bridge.ids import RunId
from tests.support.client_rig import ClientRig, client_rig
from tests.support.waits import WAIT

pytestmark = pytest.mark.integration

ACP = {"kind": "acp"}
MIB = 1 << 20


async def echo(run: AcpRun) -> None:
    await run.text(run.message)


@pytest.fixture
async def gateway() -> AsyncIterator[AcpDemoGateway]:
    async with AcpDemoGateway(echo, pace=0) as running:
        yield running


@pytest.fixture
async def rig(gateway: AcpDemoGateway, tmp_path: Path) -> AsyncIterator[ClientRig]:
    async with client_rig(gateway.url, tmp_path, settings=ACP) as running:
        await running.client.wait_hello(WAIT)
        yield running


def counts(caplog: pytest.LogCaptureFixture, phrase: str) -> list[Any]:
    """The fields of each line of the log that says so."""
    return [vars(record)["fields"] for record in caplog.records if phrase in record.message]


async def still_serves(rig: ClientRig, text: str = "x") -> None:
    """A turn over the connection as it is."""
    opened = await rig.client.request(cmd.OpenSession("/"))
    block = {"type": "text", "text": text}
    rig.client.submit(cmd.StartRun(RunId("r"), opened.session_key, "", blocks=(block,)))
    said = await rig.next(ev.TextProgress)
    assert said.delta == text
    assert (await rig.next(ev.RunEnded)).kind is ev.EndKind.FINISHED


def message(**members: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", **members})


@pytest.mark.parametrize(
    "frame",
    [
        "nonsense",
        "[]",
        "5",
        "null",
        "{}",
        '{"jsonrpc":"1.0","method":"session/update"}',
        message(method=5),
        message(method="session/update"),
        message(method="session/update", params={"sessionId": "s", "update": {}}),
        message(id={}, method="session/request_permission"),
        message(id="77", result={}),
        message(id=None, error={"code": 1, "message": "x"}),
        message(id=1, result={}),
        "x" * (20 * MIB),
        "[" * 200_000,
    ],
    ids=lambda frame: frame[:40],
)
async def test_a_frame_that_is_no_message_of_any_use_is_survived(
    gateway: AcpDemoGateway, rig: ClientRig, frame: str
) -> None:
    gateway.send_text(frame)
    await rig.next(ev.Unreadable)
    await still_serves(rig)


async def test_a_binary_frame_that_is_no_text_is_survived(
    gateway: AcpDemoGateway, rig: ClientRig
) -> None:
    await gateway.connections[0].socket.send(b"\xff\xfe\x00")
    await rig.next(ev.Unreadable)
    await still_serves(rig)


async def test_a_second_answer_to_one_request_is_for_nobody(
    gateway: AcpDemoGateway, rig: ClientRig
) -> None:
    await still_serves(rig)
    asked = await gateway.wait_call("session/prompt")
    gateway.send_text(message(id=asked.id, result={"stopReason": "refusal"}))
    await rig.next(ev.Unreadable)
    await still_serves(rig, "again")


async def test_a_second_question_with_the_id_of_an_open_one_is_not_asked(
    gateway: AcpDemoGateway, rig: ClientRig
) -> None:
    question = message(id="zc-out-0", method="elicitation/create", params={"sessionId": "s"})
    gateway.send_text(question)
    gateway.send_text(question)
    asked = await rig.next(ev.PeerAsked)
    await rig.next(ev.Unreadable)
    rig.client.submit(cmd.AnswerPeer(asked.ask_id, {"action": "cancel"}))
    await still_serves(rig)
    assert len(gateway.answers["zc-out-0"]) == 1


async def test_a_message_of_20_mib_is_read(rig: ClientRig) -> None:
    await still_serves(rig, "x" * (20 * MIB // 12 * 12))


@pytest.mark.parametrize(("version", "older"), [(0, "gateway"), (2, "acp-bridge")])
async def test_another_version_of_acp_is_told_with_who_is_to_be_upgraded(
    tmp_path: Path, version: int, older: str
) -> None:
    async with (
        AcpDemoGateway(echo, protocol_version=version) as gateway,
        client_rig(gateway.url, tmp_path, settings=ACP) as rig,
    ):
        with pytest.raises(GatewayError) as caught:
            await rig.client.wait_hello(WAIT, patient=False)
        assert isinstance(caught.value, VersionMismatch)
        assert f"version {version} of ACP" in caught.value.message
        assert f"Upgrade the {older}" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\x81\x7e\x10\x00half of a fra", 1006),  # of 4096 bytes
        (b"\x81\x7f\x00", 1006),  # in the middle of its length
        (b"\x01\x05half ", 1006),  # the rest of the message never comes
        (b"\x81\x02\xff\xff", 1007),  # no UTF-8
        (b"\xf1\x00", 1002),  # bits that mean nothing
    ],
    ids=["in the payload", "in the header", "between two frames", "no text", "no frame"],
)
async def test_a_connection_that_breaks_in_the_middle_of_a_frame_is_made_again(
    gateway: AcpDemoGateway, rig: ClientRig, raw: bytes, code: int
) -> None:
    socket = gateway.connections[0].socket
    socket.transport.write(raw)
    socket.transport.close()
    assert (await rig.next(ev.LinkLost)).close_code == code
    await rig.over_pause()
    await rig.next(ev.LinkUp)
    await still_serves(rig)


async def test_bad_frames_are_counted_for_each_connection_and_logged_now_and_then(
    gateway: AcpDemoGateway, rig: ClientRig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "acp_bridge")
    for _ in range(5):
        gateway.send_text("s3cret nonsense")
        await rig.next(ev.Unreadable)
    assert [told["count"] for told in counts(caplog, "cannot be read")] == [1]
    await rig.advance(QUIET)
    gateway.send_text("[]")
    await rig.next(ev.Unreadable)
    assert [told["count"] for told in counts(caplog, "cannot be read")] == [1, 6]
    gateway.drop_connections()
    await rig.next(ev.LinkLost)
    await rig.over_pause()
    await rig.next(ev.LinkUp)
    assert counts(caplog, "could not be read") == [{"generation": 1, "count": 6}]
    gateway.drop_connections()
    await rig.next(ev.LinkLost)
    await rig.over_pause()
    await rig.next(ev.LinkUp)
    assert len(counts(caplog, "could not be read")) == 1
    assert "s3cret" not in caplog.text

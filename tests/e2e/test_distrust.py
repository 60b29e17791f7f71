"""What becomes of credentials where the other end is not the gateway: nobody hears them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from websockets.http11 import Request

from tests.e2e.conftest import Start
from tests.support.tls import authority, listener
from tests.support.waits import scaled
from tests.support.wire_gateway import wire_gateway

pytestmark = pytest.mark.e2e

TOKEN, PASSWORD, HEADER = "t0ken-of-the-gateway", "passw0rd-of-it", "header-of-a-door"
ONCE = ("--require-gateway", "--connect-timeout", "2")


def written(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def credentials(home: Path) -> tuple[str, ...]:
    """Options that give all kinds of credentials."""
    return (
        *("--token-file", written(home / "token", TOKEN)),
        *("--password-file", written(home / "password", PASSWORD)),
        *("--header-file", written(home / "headers", f"X-Door: {HEADER}\n")),
    )


@pytest.mark.requirement("C009")
@pytest.mark.parametrize("kind", ["openclaw", "acp"])
@pytest.mark.parametrize("what", ["untrusted", "misnamed", "wrong pin"])
async def test_who_is_not_trusted_hears_no_byte_of_a_credential(
    what: str, kind: str, bridge: Start, credentials: tuple[str, ...], tmp_path: Path
) -> None:
    named = authority(tmp_path, "gw.example" if what == "misnamed" else "127.0.0.1")
    ca = ("--ca-file", str(named.ca_file))
    pin = ("--tls-fingerprint", "ab" * 32)
    options, said = {
        "untrusted": ((), "is not trusted"),
        "misnamed": (ca, "for another name"),
        "wrong pin": ((*ca, *pin), "is not the pinned one"),
    }[what]
    given = ("--gateway-kind", kind, *credentials, *ONCE)
    async with listener(context=named.context()) as other:
        url = f"wss://127.0.0.1:{other.port}"
        async with bridge(url, *given, *options) as editor:
            assert await editor.wait_exit(scaled(15)) == 3
        assert said in editor.stderr
        assert bytes(other.heard) == b""

        async with bridge(url, *given, "--tls-fingerprint", named.fingerprint) as editor:
            await editor.wait_exit(scaled(15))
        assert HEADER.encode() in other.heard  # with trust, they do go there


@pytest.mark.parametrize("said", [None, '{"type":"event","event":"news","payload":{}}', "hello"])
async def test_what_holds_the_port_and_does_not_speak_as_openclaw_hears_no_token(
    said: str | None, bridge: Start, credentials: tuple[str, ...]
) -> None:
    upgrades: list[str] = []

    def look(request: Request) -> None:
        upgrades.append(f"{request.path} {list(request.headers.raw_items())}")

    async with wire_gateway() as other:
        other.upgrade = look
        given = ("--gateway-kind", "openclaw", *credentials)
        async with bridge(other.url, *given, *ONCE) as editor:
            connection = await other.accepted()
            if said is not None:
                await connection.send(said)
            assert await editor.wait_exit(scaled(15)) in (3, 4)
        heard = [text async for text in connection.socket]
    assert HEADER in upgrades[0]
    shown = json.dumps([*upgrades, *map(str, heard)])
    assert TOKEN not in shown
    assert PASSWORD not in shown
    assert heard == []


async def test_with_a_pin_not_even_a_gateway_on_this_machines_port_is_taken_for_ours(
    bridge: Start, credentials: tuple[str, ...], tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    pin = ("--tls-fingerprint", authority(ours).fingerprint)
    async with wire_gateway(authority(theirs).context()) as other:
        playing = asyncio.create_task(other.accepted())
        async with bridge(other.url, *credentials, *pin, *ONCE) as editor:
            assert await editor.wait_exit(scaled(15)) == 3
        assert "is not the pinned one" in editor.stderr
        assert other.upgrades == 0
        playing.cancel()

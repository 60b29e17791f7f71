"""TLS to a gateway: who is trusted, what is pinned, and what each mistake says; on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from acp_bridge.core.events import LinkUp
from acp_bridge.errors import CredentialsUnusable, GatewayError, GatewayUnreachable
from acp_bridge.gateway.network_errors import (
    CertificateMisnamed,
    CertificateUntrusted,
    FingerprintMismatch,
    TlsFailed,
)
from acp_bridge.gateway.route import DIRECT, Route
from acp_bridge.gateway.transport import Upgrade, connect
from tests.support.client_rig import client_rig
from tests.support.tls import Authority, authority, blunt_server, client_files, listener, shown
from tests.support.waits import WAIT
from tests.support.wire_gateway import WireGateway, wire_gateway

pytestmark = pytest.mark.integration

WITH_TOKEN = Upgrade(headers=(("Authorization", "Bearer secret-token"),), query="token=secret")


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return authority(tmp_path)


@pytest.fixture
async def gateway(ours: Authority) -> AsyncIterator[WireGateway]:
    async with wire_gateway(ours.context()) as running:
        yield running


async def failure(url: str, route: Route = DIRECT) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await connect(url, WITH_TOKEN, route)
    return caught.value


async def test_a_gateway_of_the_named_authority_is_reached(
    gateway: WireGateway, ours: Authority, tmp_path: Path
) -> None:
    route = Route(ca_file=ours.ca_file)
    async with client_rig(gateway.url, tmp_path, settings={"route": route}) as rig:
        await (await gateway.accepted()).accept()
        await rig.next(LinkUp)


async def test_a_gateway_that_the_system_trusts_is_reached(
    gateway: WireGateway, ours: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ours.ca_file))
    transport = await connect(gateway.url)
    await transport.close(1000, "")


async def test_the_gateways_own_certificate_may_be_the_trusted_one(
    gateway: WireGateway, ours: Authority, tmp_path: Path
) -> None:
    leaf = tmp_path / "leaf.pem"
    ours.server.cert_chain_pems[0].write_to_path(leaf)
    transport = await connect(gateway.url, route=Route(ca_file=leaf))
    await transport.close(1000, "")


@pytest.mark.requirement("C009")
async def test_a_pin_alone_suffices_whoever_signed(gateway: WireGateway, ours: Authority) -> None:
    transport = await connect(gateway.url, route=Route(fingerprint=ours.fingerprint))
    await transport.close(1000, "")


async def test_beside_a_pin_the_named_authority_must_hold_too(
    gateway: WireGateway, ours: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = authority(tmp_path / "other")
    pinned = Route(fingerprint=ours.fingerprint, ca_file=ours.ca_file)
    transport = await connect(gateway.url, route=pinned)
    await transport.close(1000, "")
    wrong = Route(fingerprint=ours.fingerprint, ca_file=other.ca_file)
    assert isinstance(await failure(gateway.url, wrong), CertificateUntrusted)


@pytest.mark.requirement("C009")
async def test_a_wrong_pin_shows_both_and_sends_nothing(ours: Authority) -> None:
    async with listener(context=ours.context()) as server:
        error = await failure(
            f"wss://127.0.0.1:{server.port}",
            Route(fingerprint="ab" * 32, sources={"fingerprint": "ACP_BRIDGE_TLS_FINGERPRINT"}),
        )
        assert isinstance(error, FingerprintMismatch)
        assert error.code == "tls_wrong_pin"
        assert shown(ours.fingerprint) in error.message
        assert shown("ab" * 32) in error.message
        assert "ACP_BRIDGE_TLS_FINGERPRINT" in error.message
        assert "openssl x509" in (error.hint or "")
        assert bytes(server.heard) == b""


@pytest.mark.requirement("C009")
async def test_an_untrusted_certificate_is_told_with_its_fingerprint_and_gets_nothing(
    ours: Authority,
) -> None:
    async with listener(context=ours.context()) as server:
        error = await failure(f"wss://127.0.0.1:{server.port}")
        assert type(error) is CertificateUntrusted
        assert error.code == "tls_untrusted"
        assert "certificate" in error.message
        assert shown(ours.fingerprint) in error.message
        assert f"--tls-fingerprint {shown(ours.fingerprint)}" in (error.hint or "")
        assert "--ca-file" in (error.hint or "")
        assert bytes(server.heard) == b""


async def test_a_certificate_of_another_authority_names_the_file_that_was_trusted(
    gateway: WireGateway, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = authority(tmp_path / "other")
    error = await failure(gateway.url, Route(ca_file=other.ca_file))
    assert type(error) is CertificateUntrusted
    assert f"--ca-file {other.ca_file}" in error.message


async def test_a_certificate_for_another_name_tells_its_names(tmp_path: Path) -> None:
    names = ["gw.example", "10.1.2.3", *(f"n{i}.example" for i in range(9))]
    named = authority(tmp_path, *names)
    async with listener(context=named.context()) as server:
        error = await failure(f"wss://127.0.0.1:{server.port}", Route(ca_file=named.ca_file))
        assert isinstance(error, CertificateMisnamed)
        assert error.code == "tls_wrong_name"
        assert "another name than 127.0.0.1" in error.message
        assert "gw.example" in error.message
        assert "n8.example" not in error.message
        assert bytes(server.heard) == b""


@pytest.mark.requirement("C009")
async def test_a_distrusted_gateway_is_told_once_and_asked_seldom(
    ours: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listener(context=ours.context()) as server:
        url = f"wss://127.0.0.1:{server.port}"
        route = Route(fingerprint="ab" * 32)
        async with client_rig(url, tmp_path, settings={"route": route}) as rig:
            with pytest.raises(FingerprintMismatch):
                await rig.client.wait_hello(WAIT)
            assert [await rig.over_pause() for _ in range(3)] == [10, 45, 60]
        assert server.connections <= 4
    warned = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert warned == ["the gateway is not trusted"]


async def test_a_client_certificate_is_shown_to_a_gateway_that_asks(
    ours: Authority, tmp_path: Path
) -> None:
    certificate, key = client_files(ours, tmp_path)
    both = tmp_path / "both.pem"
    both.touch(0o600)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    async with wire_gateway(ours.context(asks_for_client=True)) as gateway:
        for route in (
            Route(ca_file=ours.ca_file, client_cert=certificate, client_key=key),
            Route(fingerprint=ours.fingerprint, client_cert=both),
        ):
            transport = await connect(gateway.url, route=route)
            await transport.close(1000, "")


async def test_a_gateway_that_wants_a_client_certificate_is_told_as_that(ours: Authority) -> None:
    with blunt_server(ours.context(asks_for_client=True)) as port:
        error = await failure(f"wss://127.0.0.1:{port}", Route(ca_file=ours.ca_file))
    assert isinstance(error, TlsFailed)
    assert "certificate required" in error.message
    assert "--client-cert" in (error.hint or "")


async def test_a_gateway_without_tls_is_told_as_that() -> None:
    async with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        error = await failure(f"wss://127.0.0.1:{server.port}")
    assert isinstance(error, TlsFailed)
    assert "speaks no TLS" in error.message
    assert f"ws://127.0.0.1:{server.port}" in (error.hint or "")
    async with wire_gateway() as gateway:  # answers nothing to what it cannot read
        error = await failure(gateway.url.replace("ws://", "wss://"))
    assert "no TLS" in (error.hint or "")


async def test_a_gateway_that_speaks_tls_where_none_is_expected_hints_at_it(
    gateway: WireGateway,
) -> None:
    error = await failure(gateway.url.replace("wss://", "ws://"))
    assert isinstance(error, GatewayUnreachable)
    assert "wss://" in (error.hint or "")


@pytest.mark.requirement("C008")
@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read: No such file"), (b"nothing", "holds no certificate")],
)
async def test_a_ca_file_that_cannot_be_used_is_told_without_knocking(
    gateway: WireGateway, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "wrong.pem"
    if content is not None:
        path.write_bytes(content)
    route = Route(ca_file=path, sources={"ca_file": "ACP_BRIDGE_CA_FILE"})
    error = await failure(gateway.url, route)
    assert isinstance(error, CredentialsUnusable)
    assert f"ACP_BRIDGE_CA_FILE {path} {said}" in error.message
    assert gateway.upgrades == 0


@pytest.mark.requirement("C008")
@pytest.mark.parametrize("what", ["open", "missing", "foreign", "encrypted", "no certificate"])
async def test_a_client_certificate_that_cannot_be_used_is_told(
    gateway: WireGateway, ours: Authority, tmp_path: Path, what: str
) -> None:
    certificate, key = client_files(ours, tmp_path)
    said = {
        "open": f"--client-key {key} is open to other users; run: chmod 600",
        "missing": f"--client-key {key} does not exist",
        "foreign": "do not belong together",
        "encrypted": f"--client-key {key} is encrypted",
        "no certificate": f"--client-cert {certificate} cannot be read",
    }[what]
    spoil(what, certificate, key, ours)
    route = Route(ca_file=ours.ca_file, client_cert=certificate, client_key=key)
    error = await asyncio.wait_for(failure(gateway.url, route), WAIT)
    assert isinstance(error, CredentialsUnusable)
    assert said in error.message
    assert gateway.upgrades == 0


def spoil(what: str, certificate: Path, key: Path, ours: Authority) -> None:
    match what:
        case "open":
            key.chmod(0o644)
        case "missing":
            key.unlink()
        case "foreign":
            key.write_bytes(ours.ca.issue_cert("b@example.org").private_key_pem.bytes())
        case "encrypted":
            plain = serialization.load_pem_private_key(key.read_bytes(), None)
            key.write_bytes(
                plain.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.BestAvailableEncryption(b"pass"),
                )
            )
        case _:
            certificate.unlink()

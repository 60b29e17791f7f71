"""Certificates of the test's own, and servers of loopback that show them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import trustme

from tests.support.serving import serving
from tests.support.waits import WAIT


class Authority(NamedTuple):
    """A certificate authority, the certificate of a server, and what a client needs of both."""

    ca: trustme.CA
    server: trustme.LeafCert
    ca_file: Path

    def context(self, *, asks_for_client: bool = False) -> ssl.SSLContext:
        """The server's side of a connection."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.configure_cert(context)
        if asks_for_client:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ca.configure_trust(context)
        return context

    @property
    def fingerprint(self) -> str:
        """Of the server's certificate, as an option would hold it."""
        pem = self.server.cert_chain_pems[0].bytes().decode()
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def authority(directory: Path, *names: str) -> Authority:
    """A fresh authority and a server's certificate for ``names``; without any for 127.0.0.1."""
    ca = trustme.CA()
    ca_file = directory / "ca.pem"
    ca.cert_pem.write_to_path(ca_file)
    return Authority(ca, ca.issue_cert(*(names or ("127.0.0.1",))), ca_file)


def client_files(authority: Authority, directory: Path) -> tuple[Path, Path]:
    """The certificate of a client and its key, each in a file."""
    leaf = authority.ca.issue_cert("client@example.org")
    certificate, key = directory / "client.pem", directory / "client.key"
    leaf.cert_chain_pems[0].write_to_path(certificate)
    key.touch(0o600)
    key.write_bytes(leaf.private_key_pem.bytes())
    return certificate, key


def shown(fingerprint: str) -> str:
    """As people write it, and ``openssl`` prints it."""
    return ":".join(fingerprint[at : at + 2] for at in range(0, 64, 2)).upper()


@contextlib.contextmanager
def blunt_server(context: ssl.SSLContext) -> Iterator[int]:
    """Its port. Shakes hands with one client as OpenSSL does, alerts and all, which asyncio's
    servers keep to themselves."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            raw, _ = listening.accept()
            raw.settimeout(WAIT)
            shaking = context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
            with contextlib.suppress(ssl.SSLError):
                shaking.do_handshake()
            with socket.socket(fileno=shaking.detach()) as left:
                left.shutdown(socket.SHUT_WR)
                while left.recv(65536):  # unread bytes would make the end a reset
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            thread.join()


class Listener:
    """A server that keeps what it is sent, after TLS, and answers with ``answer``."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.port = 0
        self.connections = 0
        self.heard = bytearray()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self.heard += data
                if self.answer:
                    writer.write(self.answer)
                    await writer.drain()
                    break


@contextlib.asynccontextmanager
async def listener(
    answer: bytes = b"", context: ssl.SSLContext | None = None
) -> AsyncIterator[Listener]:
    """A running listener on a free port of loopback."""
    listening = Listener(answer)
    async with serving(listening.serve, context) as listening.port:
        yield listening

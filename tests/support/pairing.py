"""The HTTP side of a ZeroClaw gateway: pairing, as far as a client sees it."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class PairingServer(HTTPServer):
    """Knows one code; ``status`` and ``answer`` override what ``/pair`` says."""

    code: str | None = "123456"
    token = "zc_paired"  # noqa: S105 - of a test
    shows_code = True
    wants_pairing = True
    prefix = ""
    status: int | None = None
    answer: dict[str, Any] | None = None
    scheme = "ws"
    header: str | None = None
    """What the last request had for ``X-Extra``."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}{self.prefix}/acp"


class _Handler(BaseHTTPRequestHandler):
    server: PairingServer

    def do_GET(self) -> None:
        if self.path != f"{self.server.prefix}/pair/code":
            self._say(404, {})
            return
        code = self.server.code if self.server.shows_code else None
        self._say(
            200,
            {
                "success": True,
                "pairing_required": self.server.wants_pairing,
                "pairing_code": code,
            },
        )

    def do_POST(self) -> None:
        server = self.server
        server.header = self.headers.get("X-Extra")
        if server.status is not None:
            self._say(server.status, server.answer or {})
        elif self.path != f"{server.prefix}/pair":
            self._say(404, {})
        elif self.headers.get("X-Pairing-Code") != server.code:
            self._say(403, {"error": "Invalid pairing code"})
        else:
            server.code = None
            answer = {"paired": True, "persisted": True, "token": server.token}
            self._say(200, server.answer if server.answer is not None else answer)

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # a client that does not trust us leaves
            super().handle()

    def log_message(self, *_: Any) -> None:
        return

    def _say(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://example.invalid/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def pairing_server(context: ssl.SSLContext | None = None) -> Iterator[PairingServer]:
    with PairingServer(("127.0.0.1", 0), _Handler) as server:
        if context is not None:
            server.scheme = "wss"
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

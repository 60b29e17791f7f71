"""A real OpenClaw gateway on an ephemeral port, with a fake model and a state of its own."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.real.fake_model import MODEL, PLAIN_MODEL
from tests.real.install import Parts
from tests.support.waits import scaled

TOKEN = "test-token"  # noqa: S105 - the secret of a gateway that lives for one test run
READY_WITHIN = scaled(90.0)
STOPPED_WITHIN = scaled(10.0)
PROJECT = Path(__file__).parents[2]


class GatewayFailed(AssertionError):
    """The gateway did not start; its log is in the text."""


@dataclass(frozen=True)
class Gateway:
    """A place for one gateway: version, port and state stay the same over restarts."""

    parts: Parts
    version: str
    model_url: str
    state: Path
    port: int

    @classmethod
    def prepare(cls, parts: Parts, version: str, model_url: str, state: Path) -> Self:
        """Choose a port and write the configuration; nothing is started."""
        gateway = cls(parts, version, model_url, state.resolve(), free_port())
        for directory in (gateway.state, gateway.state / "home", gateway.workspace):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)
        gateway._configuration.write_text(json.dumps(gateway._settings(), indent=1))
        gateway._configuration.chmod(0o600)
        gateway.token_file.write_text(f"{TOKEN}\n")
        gateway.token_file.chmod(0o600)
        return gateway

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def workspace(self) -> Path:
        """Where the agent's tools work."""
        return self.state / "workspace"

    @property
    def token_file(self) -> Path:
        return self.state / "token"

    @property
    def log(self) -> str:
        """What the gateway said on its way."""
        path = self.state / "gateway.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def is_old(self) -> bool:
        """Whether this is 2026.6.11, the older of the two protocols' dialects."""
        return self.version == "2026.6.11"

    def run(self) -> RunningGateway:
        """Start it; leave the context of the result to stop it."""
        return RunningGateway(self)

    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def command(self) -> list[str]:
        script = str(self.parts.openclaw(self.version))
        return [str(self.parts.node), script, "gateway", "run", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        """No variable of this machine's user gets in."""
        skipped = ["CHANNELS", "CRON", "GMAIL_WATCHER", "CANVAS_HOST", "BROWSER_CONTROL_SERVER"]
        return {
            "PATH": self.parts.path,
            "HOME": str(self.state / "home"),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "OPENCLAW_STATE_DIR": str(self.state),
            "OPENCLAW_CONFIG_PATH": str(self._configuration),
            "OPENCLAW_NO_RESPAWN": "1",
            "OPENCLAW_DISABLE_BONJOUR": "1",
            "OPENCLAW_HIDE_BANNER": "1",
            **{f"OPENCLAW_SKIP_{part}": "1" for part in skipped},
        }

    @property
    def _configuration(self) -> Path:
        return self.state / "openclaw.json"

    def _settings(self) -> dict[str, Any]:
        return {
            "gateway": {
                "mode": "local",
                "bind": "loopback",
                "port": self.port,
                "auth": {"mode": "token", "token": TOKEN},
                "controlUi": {"enabled": False},
            },
            "logging": {"file": str(self.state / "openclaw.log")},
            "update": {"checkOnStart": False},
            "discovery": {"mdns": {"mode": "off"}},
            **{part: {"enabled": False} for part in ("browser", "cron", "plugins")},
            # Every command asks: a test that wants none lets its editor allow all.
            "tools": {"exec": {"host": "gateway", "security": "allowlist", "ask": "always"}},
            "agents": {
                "defaults": {
                    "workspace": str(self.workspace),
                    "skipBootstrap": True,
                    "heartbeat": {"every": "0m"},
                    "model": {"primary": f"fake/{MODEL}"},
                }
            },
            "models": {"mode": "replace", "providers": {"fake": self._model_provider()}},
        }

    def _model_provider(self) -> dict[str, Any]:
        model = {
            "id": MODEL,
            "name": "Fake",
            "reasoning": True,  # else no thinking level is offered
            "input": ["text", "image"],  # else images are dropped
            "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0),
            "contextWindow": 1_000_000,
            "maxTokens": 4096,
        }
        api = {"baseUrl": self.model_url, "apiKey": "none", "api": "openai-completions"}
        plain = {**model, "id": PLAIN_MODEL, "name": "Plain", "reasoning": False}
        return {**api, "models": [model, plain]}


class RunningGateway:
    """A started gateway; the process group is on a leash and gone after the context.

    It may be ended and started again meanwhile; its place stays the same.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._leash: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        # 2026.9.6 drains: it waits minutes for a run that a test left behind.
        if not self.stop(STOPPED_WITHIN):
            self.kill()

    @property
    def is_started(self) -> bool:
        """Whether it was started and not ended since."""
        return self._leash is not None

    def start(self) -> None:
        """Start it and wait until it is ready. Blocks."""
        gateway = self.gateway
        with (gateway.state / "gateway.log").open("ab") as log:
            self._leash = subprocess.Popen(
                [sys.executable, "-m", "tests.support.leash", *gateway.command()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=PROJECT,
                env={**gateway.environment(), "PYTHONPATH": str(PROJECT)},
            )
        try:
            self._wait_ready(self._leash)
        except BaseException:
            self.kill()
            raise

    def stop(self, within: float) -> bool:
        """End it with SIGTERM; False if it has not ended in time. Blocks."""
        if self._leash is None:
            return True
        self._leash.terminate()
        try:
            self._leash.wait(within)
        except subprocess.TimeoutExpired:
            return False
        self.kill()
        return True

    def kill(self) -> None:
        """End it at once."""
        leash, self._leash = self._leash, None
        if leash is None:
            return
        assert leash.stdin is not None
        leash.stdin.close()
        leash.wait(STOPPED_WITHIN)

    def _wait_ready(self, leash: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + READY_WITHIN
        while not self.gateway.is_ready():
            if time.monotonic() > end:
                raise GatewayFailed(f"not ready in {READY_WITHIN:g} s:\n{self.gateway.log}")
            try:
                code = leash.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            raise GatewayFailed(f"the gateway ended with {code}:\n{self.gateway.log}")


def free_port() -> int:
    """A TCP port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


__all__ = ["TOKEN", "Gateway", "GatewayFailed", "RunningGateway", "free_port"]

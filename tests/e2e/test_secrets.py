"""Secrets are planted everywhere, and every output is searched for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.acp_oracle import AcpOracle
from tests.support.editor import EditorProcess, agent_command, editor_environment
from tests.support.hostile import AcpKind, Kind, OpenClawKind, hostile_gateway
from tests.support.waits import scaled
from tests.support.wire_gateway import hello

pytestmark = pytest.mark.e2e

TOKEN, PASSWORD = "t0ken/with+signs=and&more", "passw0rd-passw0rd"
DEVICE_TOKEN, NEVER_SEEN = "device-t0ken-issued", "of-nobody-but-its-name"
IN_URL, IN_META = "in-the-query-of-the-url", "in-meta-of-a-prompt"
CREDENTIALS = {"device-tokens.json", "device.pem", "token", "password"}
"""The files whose purpose it is to hold one."""


class Telling:
    """What a gateway says of a failure: all that it knows, in each member."""

    @property
    def secrets(self) -> str:
        return f"{TOKEN} {PASSWORD} {DEVICE_TOKEN} Bearer {NEVER_SEEN} ?token={NEVER_SEEN}"

    @property
    def error(self) -> dict[str, object]:
        details = {"reason": self.secrets, "authToken": NEVER_SEEN, "_meta": {"x": NEVER_SEEN}}
        return {"message": self.secrets, "details": details, "data": details}


class OpenClawTells(OpenClawKind, Telling):
    def reply(self, request: dict[str, object]) -> list[str]:
        if request["method"] == "connect":
            auth = {"scopes": ["operator.admin"], "deviceToken": DEVICE_TOKEN}
            payload = hello(auth=auth, server={"version": "2026.9.6"})
            return [
                json.dumps({"type": "res", "id": request["id"], "ok": True, "payload": payload})
            ]
        super().reply(request)
        error = {"code": "INVALID_REQUEST", **self.error}
        return [json.dumps({"type": "res", "id": request["id"], "ok": False, "error": error})]

    def failed(self) -> list[str]:
        return [self._chat(state="error", errorMessage=self.secrets, errorDetail=self.error)]


class AcpTells(AcpKind, Telling):
    @property
    def secrets(self) -> str:
        return super().secrets.replace(DEVICE_TOKEN, "")  # it issues none

    def reply(self, request: dict[str, object]) -> list[str]:
        if request.get("method") in ("initialize", "session/new", "session/prompt"):
            return super().reply(request)
        error = {"code": -32603, **self.error}
        return [json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "error": error})]

    def failed(self) -> list[str]:
        error = {"code": -32603, **self.error}
        return [json.dumps({"jsonrpc": "2.0", "id": self._prompt, "error": error})]


def core_limits(pid: int) -> list[str]:
    """How large a core dump of a process may be, soft and hard."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[4:6] for line in lines if line.startswith("Max core file size"))


def outputs(home: Path) -> Iterator[Path]:
    for path in home.rglob("*"):
        if path.is_file() and path.name not in CREDENTIALS:
            yield path


@pytest.mark.requirement("C087", "C086")
@pytest.mark.parametrize("kind", [OpenClawTells(), AcpTells()], ids=["openclaw", "acp"])
@pytest.mark.parametrize("by", ["file", "option", "environment"])
async def test_no_output_holds_a_secret_that_was_planted(home: Path, kind: Kind, by: str) -> None:
    environment = editor_environment(home, ACP_BRIDGE_TRACEBACK="1", MY_TOKEN=NEVER_SEEN)
    (home / "token").write_text(TOKEN)
    (home / "token").chmod(0o600)
    (home / "password").write_text(PASSWORD)
    (home / "password").chmod(0o600)
    match by:
        case "file":
            given = ["--token-file", f"{home}/token", "--password-file", f"{home}/password"]
        case "option":
            given = ["--token", TOKEN, "--password", PASSWORD]
        case _:
            given = []
            environment |= {"ACP_BRIDGE_TOKEN": TOKEN, "ACP_BRIDGE_PASSWORD": PASSWORD}
    log = ["-vv", "--log-file", str(home / "bridge.log")]
    shown = ""
    async with hostile_gateway(kind) as gateway:
        url = f"{gateway.url}{'/acp' if isinstance(kind, AcpKind) else '/'}?token={IN_URL}"
        command = agent_command("--url", url, *given, *log)
        oracle = AcpOracle(extras=True)
        async with EditorProcess(command, env=environment, cwd=home, oracle=oracle) as editor:
            await editor.initialize(_meta={"secret": IN_META})
            session = await editor.new_session(home, _meta={"proxy": IN_META})
            turn = editor.prompt(session, "hello", _meta={"x": IN_META})
            await gateway.prompted()
            await gateway.send(kind.failed())  # type: ignore[attr-defined]  # both of them have it
            await turn.error(scaled(30))
            for method in ("session/set_mode", "session/set_config_option", "session/list", "_x/y"):
                wanted = {"sessionId": session, "modeId": "m", "configId": "c", "value": "v"}
                await editor.call(method, {**wanted, "_meta": {"x": IN_META}}).answer(scaled(30))
            assert gateway.connected is not None
            await gateway.connected.close(4001, f"no {TOKEN}")
            await editor.until_stderr("lost the connection", scaled(30))
            assert core_limits(editor.pid) == ["0", "0"]
        shown = json.dumps(editor.messages, ensure_ascii=False) + editor.stderr
    planted = {TOKEN, PASSWORD, DEVICE_TOKEN, NEVER_SEEN, IN_URL, IN_META}
    assert {secret for secret in planted if secret in shown} == set()
    files = list(outputs(home))
    assert {path.name for path in files} >= {"ledger.db", "bridge.log"}
    for path in files:
        content = path.read_bytes()
        found = {secret for secret in planted if secret.encode() in content}
        assert found == set(), path

"""Secrets are planted everywhere, and every output is searched for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

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
HEADER, PROXY_PASSWORD = "Basic aGVhZGVyOmhlYWRlcg==", "pr0xy+passw0rd"
PLANTED = {TOKEN, PASSWORD, DEVICE_TOKEN, NEVER_SEEN, IN_URL, IN_META, HEADER, PROXY_PASSWORD}
CREDENTIALS = {
    "device-tokens.json", "device.pem", "token", "password", "headers", "config.toml",
    "openclaw.json",
}  # fmt: skip
"""The files whose purpose it is to hold one."""


class Telling:
    """What a gateway says of a failure: all that it knows, in each member."""

    @property
    def secrets(self) -> str:
        known = f"{TOKEN} {PASSWORD} {DEVICE_TOKEN} {HEADER} {PROXY_PASSWORD}"
        return f"{known} Bearer {NEVER_SEEN} ?token={NEVER_SEEN}"

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


def private(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


WAYS = ("file", "option", "environment", "profile")


def given(home: Path, by: str, url: str) -> tuple[list[str], dict[str, str]]:
    """Options and variables that tell the gateway and its credentials in one of the ways."""
    match by:
        case "file":
            token, password = private(home / "token", TOKEN), private(home / "password", PASSWORD)
            return ["--url", url, "--token-file", token, "--password-file", password], {}
        case "option":
            return ["--url", url, "--token", TOKEN, "--password", PASSWORD], {}
        case "profile":
            lines = {"gateway_url": url, "token": TOKEN, "password": PASSWORD}
            text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())
            private(home / ".config" / "acp-bridge" / "config.toml", f"[profiles.work]\n{text}\n")
            return ["--profile", "work"], {}
        case "openclaw.json":
            auth = {"token": TOKEN, "password": PASSWORD}
            gateway = {"mode": "remote", "remote": {"url": url, **auth}}
            private(home / ".openclaw" / "openclaw.json", json.dumps({"gateway": gateway}))
            return [], {}
        case _:
            return ["--url", url], {"ACP_BRIDGE_TOKEN": TOKEN, "ACP_BRIDGE_PASSWORD": PASSWORD}


def found_in(text: str, planted: Iterable[str] = PLANTED) -> set[str]:
    return {secret for secret in planted if secret in text}


def commands_say(home: Path, environment: dict[str, str], *commands: Sequence[str]) -> str:
    """All that other commands print."""
    said = ""
    for command in commands:
        done = subprocess.run(
            agent_command(*command),
            capture_output=True, text=True, env=environment, cwd=home, timeout=60, check=False,
        )  # fmt: skip
        said += done.stdout + done.stderr
    return said


@pytest.mark.requirement("C087", "C086")
@pytest.mark.parametrize(
    ("kind", "by"),
    [
        *((OpenClawTells(), by) for by in (*WAYS, "openclaw.json")),
        *((AcpTells(), by) for by in WAYS),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_no_output_holds_a_secret_that_was_planted(home: Path, kind: Kind, by: str) -> None:
    header = ["--header-file", private(home / "headers", f"Authorization: {HEADER}\n")]
    if isinstance(kind, AcpKind):
        header = ["--header-file", private(home / "headers", f"X-Door: {HEADER}\n")]
    log = ["-vv", "--log-file", str(home / "bridge.log"), "--state-dir", str(home / "state")]
    async with hostile_gateway(kind) as gateway:
        url = f"{gateway.url}{'/acp' if isinstance(kind, AcpKind) else '/'}?token={IN_URL}"
        told, variables = given(home, by, url)
        environment = editor_environment(
            home,
            ACP_BRIDGE_TRACEBACK="1",
            ACP_BRIDGE_PROXY=f"http://me:{PROXY_PASSWORD}@127.0.0.1:9",
            MY_TOKEN=NEVER_SEEN,
            **variables,
        )
        command = agent_command(*told, *header, *log)
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
        assert found_in(json.dumps(editor.messages, ensure_ascii=False) + editor.stderr) == set()
    options = ["--", *told, *header]
    said = commands_say(
        home, environment, ["config", "show", *options], ["config", "show", "--json", *options]
    )
    assert "header_file" in said
    assert found_in(said) == set()
    files = list(outputs(home))
    assert {path.name for path in files} >= {"ledger.db", "bridge.log"}
    for path in files:
        found = {secret for secret in PLANTED if secret.encode() in path.read_bytes()}
        assert found == set(), path


LEDGER_PASSWORD = "pa%24word-of-the-database"  # noqa: S105 - of a database that is not there


@pytest.mark.requirement("C087")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:{}@127.0.0.1:9/acp?connect_timeout=2",
        "postgresql://me@127.0.0.1:9/acp?password={}",
        "postgresql+psycopg://me:{}@[::1/acp",
        "postgresql+nothing://me:{}@127.0.0.1:9/acp",
        "mysql://me:{}@127.0.0.1:9/acp",
    ],
)
async def test_no_output_holds_the_password_of_a_ledger(url: str, home: Path) -> None:
    environment = editor_environment(
        home, ACP_BRIDGE_TRACEBACK="1", ACP_BRIDGE_LEDGER_URL=url.format(LEDGER_PASSWORD)
    )
    log = ["-vv", "--log-file", str(home / "bridge.log"), "--state-dir", str(home / "state")]
    kind = OpenClawKind()
    async with hostile_gateway(kind) as gateway:
        command = agent_command("--url", gateway.url, *log)
        async with EditorProcess(command, env=environment, cwd=home) as editor:
            session = await editor.open(home)
            turn = editor.prompt(session, "hello")
            await gateway.prompted()
            await gateway.send([kind.end()])
            assert await turn.stop_reason(scaled(30)) == "end_turn"
            await editor.call("session/list", {}).answer(scaled(30))
            await editor.until_stderr("warning", scaled(30))
        shown = json.dumps(editor.messages) + editor.stderr
    shown += commands_say(
        home,
        environment,
        *(["config", "show"], ["config", "show", "--json"]),
        *(["ledger", "stats"], ["ledger", "migrate"], ["ledger", "stats", "--json"]),
    )
    shown += "".join(path.read_text("utf-8", "replace") for path in outputs(home))
    assert "error: " in shown
    assert found_in(shown, {LEDGER_PASSWORD, unquote(LEDGER_PASSWORD), "word-of-the"}) == set()


BREAKS = """
import json, os
from acp_bridge.bridge.service import Bridge

secrets = json.loads(os.environ.pop("PLANTED"))

async def breaks(self, *given):
    held = {"password": secrets, "given": given}
    try:
        int(secrets[0])
    except ValueError as error:
        raise RuntimeError(f"no {secrets} in {held}") from error

Bridge.list_sessions = breaks
Bridge.stop = lambda self, *_, **__: breaks(self)
from acp_bridge.__main__ import main
main()
"""
"""A bridge with two mistakes in it, whose exceptions hold all that it knows."""


@pytest.mark.requirement("C087", "C086")
async def test_a_mistake_of_the_bridge_itself_tells_no_secret(home: Path) -> None:
    planted = [TOKEN, PASSWORD, HEADER]
    told, _ = given(home, "file", "URL")
    header = ["--header-file", private(home / "headers", f"X-Door: {HEADER}\n")]
    log = ["-vv", "--log-file", str(home / "bridge.log")]
    environment = editor_environment(home, ACP_BRIDGE_TRACEBACK="1", PLANTED=json.dumps(planted))
    async with hostile_gateway(OpenClawKind()) as gateway:
        options = ["--url", gateway.url, *told[2:], *header, *log]
        command = [sys.executable, "-c", BREAKS, *options]
        async with EditorProcess(command, env=environment, cwd=home) as editor:
            await editor.open(home)
            answer = await editor.call("session/list", {}).answer()
            assert answer["error"]["code"] == -32603
            editor.close_stdin()
            assert await editor.wait_exit() == 1
        shown = json.dumps(editor.messages) + editor.stderr
    assert editor.stderr.count("Traceback (most recent call last)") >= 2
    kept = (home / "bridge.log").read_text()
    assert kept.count("RuntimeError") >= 2
    assert found_in(shown + kept, planted) == set()

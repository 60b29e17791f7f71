"""The ledger of the installed bridge: what is in its file, and what its troubles may cost."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from acp_bridge.demo.server import DemoGateway
from acp_bridge.demo.stage import Stage
from acp_bridge.ids import Json
from ledger import open_ledger
from tests.e2e.conftest import GatewayKind, Start
from tests.e2e.scripts import echo
from tests.support.mounting import mounted
from tests.support.waits import scaled

pytestmark = pytest.mark.e2e

CHUNKS = 60
PACE = 0.05
LOCKED = range(10, 50)
"""Chunks during which another process has the ledger for itself: some seconds."""
LOCKED_AT_THE_END = 0.2


def ledger_file(home: Path) -> Path:
    return home / ".local" / "share" / "acp-bridge" / "ledger.db"


def below(directory: Path, pattern: str) -> list[Path]:
    return [path for path in directory.rglob(pattern) if path.is_file()]


def spoken(updates: list[Json]) -> list[str]:
    """The texts of prompts and answers."""
    return [
        update["content"]["text"]
        for update in updates
        if update["sessionUpdate"] in ("user_message_chunk", "agent_message_chunk")
    ]


def recorded_text(path: Path, session_id: str) -> str:
    ledger = open_ledger(f"sqlite:///{path}")
    try:
        replay = ledger.read(session_id)
    finally:
        ledger.close()
    assert replay is not None
    return "".join(
        entry.payload["content"]["text"]
        for entry in replay.entries
        if entry.payload.get("sessionUpdate") == "agent_message_chunk"
    )


async def test_a_session_is_shown_again_by_another_process(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(echo, pace=0) as gateway:
        async with bridge(gateway) as editor:
            session = await editor.open(home)
            assert await editor.prompt(session, "Hello") == "end_turn"
        async with bridge(gateway) as editor:
            await editor.initialize()
            wanted = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            await editor.call("session/load", wanted).result()
            shown = [
                (update["sessionUpdate"], update["content"]["text"])
                for update in editor.updates(session)
                if "content" in update
            ]
    assert shown == [("user_message_chunk", "Hello"), ("agent_message_chunk", "Hello")]
    assert ledger_file(home).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("options", [("--no-ledger",), ("--demo",)])
async def test_without_a_ledger_nothing_is_left_behind(
    bridge: Start, home: Path, kind: GatewayKind, options: tuple[str, ...]
) -> None:
    async with kind(echo, pace=0) as gateway, bridge(gateway, *options) as editor:
        await editor.open(home)
    assert not below(home, "*.db")


@pytest.mark.requirement("C070")
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://me:hunter2-hunter2@127.0.0.1/db", "mysql"),
        ("sqlite:////proc/nowhere/ledger.db", "/proc"),
        ("postgresql://me:hunter2-hunter2@127.0.0.1:1/db", "no connection"),
    ],
)
async def test_a_ledger_that_cannot_be_used_costs_one_line_and_no_conversation(
    bridge: Start, home: Path, kind: GatewayKind, url: str, words: str
) -> None:
    async with (
        kind(echo, pace=0) as gateway,
        bridge(gateway, ACP_BRIDGE_LEDGER_URL=url) as editor,
    ):
        session = await editor.open(home)
        for _ in range(2):
            assert await editor.prompt(session, "Hello") == "end_turn"
        await editor.until_stderr(words)
        editor.close_stdin()
        await editor.wait_exit()
        told = editor.stderr
    assert "hunter2" not in told
    assert words in told
    assert len(told.splitlines()) == 1, told


@pytest.mark.requirement("C073")
async def test_another_process_that_holds_the_ledger_delays_no_chunk(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    arrivals: list[float] = []

    async def paced(run: Stage) -> None:
        with closing(sqlite3.connect(ledger_file(home), isolation_level=None)) as other:
            for number in range(CHUNKS):
                if number == LOCKED.start:
                    other.execute("BEGIN EXCLUSIVE")
                if number == LOCKED.stop:
                    other.execute("ROLLBACK")
                await run.text(f" {number}.")
                await asyncio.sleep(PACE)

    async with kind(paced, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        turn = editor.prompt(session, "Count")
        for number in range(CHUNKS):
            await turn.shows(f" {number}.")
            arrivals.append(time.monotonic())
        assert await turn == "end_turn"
    longest = max(after - before for before, after in pairwise(arrivals))
    assert longest < PACE + scaled(0.2)
    assert recorded_text(ledger_file(home), session) == turn.text


@pytest.mark.requirement("C070")
async def test_a_turn_that_waits_for_a_locked_ledger_is_replayed_all_the_same(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(echo, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        assert await editor.prompt(session, "before") == "end_turn"
        with closing(sqlite3.connect(ledger_file(home), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert await editor.prompt(session, "meanwhile") == "end_turn"
            await gateway.stop()
            await editor.until_stderr("cannot be reached")
            for _ in range(2):  # the second time with what the first one had to record
                shown = len(editor.updates(session))
                wanted = {"sessionId": session, "cwd": str(home), "mcpServers": []}
                await editor.call("session/load", wanted).result()
                *replayed, note = spoken(editor.updates(session)[shown:])
                assert replayed == ["before", "before", "meanwhile", "meanwhile"]
                assert "gateway cannot be reached" in note


@pytest.mark.requirement("C070")
async def test_what_is_said_last_is_recorded_though_the_ledger_is_locked_as_the_editor_leaves(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    locks: list[sqlite3.Connection] = []

    async def locking(run: Stage) -> None:
        other = sqlite3.connect(ledger_file(home), isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        locks.append(other)
        await run.text("the last word")

    async with kind(locking, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        turn = editor.prompt(session, "Hello")
        assert await turn == "end_turn"
        editor.close_stdin()
        await asyncio.sleep(LOCKED_AT_THE_END)  # what is tested is a lock that lasts this long
        locks[0].close()
        await editor.wait_exit()
        assert editor.stderr == ""
    assert recorded_text(ledger_file(home), session) == "the last word"


@pytest.mark.requirement("C070")
async def test_recording_goes_on_in_a_new_file_when_the_old_one_is_removed(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(echo, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        assert await editor.prompt(session, "before") == "end_turn"
        shutil.rmtree(ledger_file(home).parent)
        async with asyncio.timeout(scaled(20)):
            while not ledger_file(home).exists():  # it is noticed within a second
                assert await editor.prompt(session, "meanwhile") == "end_turn"
                await asyncio.sleep(0.1)
        assert await editor.prompt(session, "after") == "end_turn"
        editor.close_stdin()
        await editor.wait_exit()
        assert "removed or replaced" in editor.stderr
    assert "after" in recorded_text(ledger_file(home), session)


@pytest.mark.requirement("C070")
async def test_a_file_that_is_removed_just_before_the_end_costs_nothing_that_was_said_since(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    async with kind(echo, pace=0) as gateway, bridge(gateway) as editor:
        session = await editor.open(home)
        assert await editor.prompt(session, "one") == "end_turn"
        shutil.rmtree(ledger_file(home).parent)
        for word in ("two", "three"):
            assert await editor.prompt(session, word) == "end_turn"
        editor.close_stdin()
        assert await editor.wait_exit(scaled(2.0)) == 0
        assert len(editor.stderr.splitlines()) == 1
        assert "removed or replaced" in editor.stderr
    assert recorded_text(ledger_file(home), session).endswith("twothree")


@pytest.mark.requirement("C070")
async def test_a_ledger_that_can_only_be_read_shows_its_history(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    with mounted(home / "state") as mount:
        where = ("--ledger-url", f"sqlite:///{mount.path}/ledger.db")
        async with kind(echo, pace=0) as gateway, bridge(gateway, *where) as editor:
            session = await editor.open(home)
            assert await editor.prompt(session, "Hello") == "end_turn"
        mount.freeze()
        async with kind(echo, pace=0) as other, bridge(other, *where) as editor:
            await editor.initialize()  # with a gateway that knows nothing of the session
            wanted = {"sessionId": session, "cwd": str(home), "mcpServers": []}
            await editor.call("session/load", wanted).result()
            assert "Hello" in editor.text_of(session)
            turn = editor.prompt(session, "more")
            if kind is DemoGateway:
                assert await turn == "end_turn"
            else:  # it names its sessions itself, and makes none of a name that it does not know
                assert (await turn.error()).data["code"] == "session_not_found"
            editor.close_stdin()
            await editor.wait_exit()
            assert len(editor.stderr.splitlines()) == 1
            assert "read-only" in editor.stderr


@pytest.mark.requirement("C087")
async def test_no_credential_reaches_the_ledger_or_the_log(
    bridge: Start, home: Path, kind: GatewayKind
) -> None:
    """Whatever way it came in, and even if the user, the agent or the gateway's error says it."""
    token, password = "t0ken-t0ken-t0ken", "passw0rd-passw0rd"
    file = home / "token"
    file.write_text(token + "\n")
    file.chmod(0o600)
    logged = ["--log-file", str(home / "bridge.log"), "-vv"]
    ways: list[tuple[tuple[str, ...], dict[str, str]]] = [
        (("--token-file", str(file)), {}),
        (("--token", token), {}),
        ((), {"ACP_BRIDGE_TOKEN": token}),
        (("--token-file", str(file)), {"ACP_BRIDGE_PASSWORD": password}),
    ]
    state = home / ".local" / "state" / "acp-bridge"
    told = ""
    said: set[str] = set()
    async with kind(leak, token=token, pace=0) as gateway:
        for options, environment in ways:
            async with bridge(gateway, *options, *logged, **environment) as editor:
                session = await editor.open(home)
                said = {token, *environment.values()}
                said |= device_tokens(state) if kind is DemoGateway else set()
                prompt = f"These: {' '.join(sorted(said))}"
                turn = editor.prompt(session, prompt, _meta={"token": token})
                await turn.error(scaled(20))
                assert token in turn.text
                editor.close_stdin()
                await editor.wait_exit()
                told += editor.stderr
    secrets = said
    if kind is DemoGateway:
        secrets |= key_lines(state)
        assert len(secrets) > 3, "the bridge keeps its device token or key elsewhere now"
    files = below(ledger_file(home).parent, "*") + below(home, "bridge.log*")
    assert ledger_file(home) in files
    for secret in secrets:
        assert secret not in told
        for each in files:
            assert secret.encode() not in each.read_bytes(), f"{secret!r} is in {each}"


async def leak(run: Stage) -> None:
    """Says what it was told in every way, and fails with it."""
    await run.thought(run.message)
    await run.exec(f"echo {run.message}", run.message)
    await run.text(run.message)
    for piece in run.message:
        await run.text(piece)
    await run.fail(run.message, detail={"reason": run.message})


def device_tokens(state: Path) -> set[str]:
    """What gateways issued to the device."""
    content = json.loads((state / "device-tokens.json").read_text())
    return {entry["token"] for devices in content["tokens"].values() for entry in devices.values()}


def key_lines(state: Path) -> set[str]:
    lines = (state / "device.pem").read_text().splitlines()
    return {line for line in lines if not line.startswith("-")}

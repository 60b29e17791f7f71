"""What recording costs a conversation: the bridge with its ledger against ``--no-ledger``.

    python scripts/bench_recording.py [LEDGER_URL]

Both bridges are measured in turns, in one run, against the embedded gateway: a flood of updates
(throughput) and a paced stream (latency from the gateway's frame to the editor's line). A run whose
updates are not all there, in order, is a failure. Without a URL a new SQLite file is used.

Then, with a new SQLite file: how late a chunk is while another process has the ledger locked, and
how long the event loop stands still while a long turn is recorded and closed beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

from acp_bridge.bridge.outbox import LedgerOutbox
from acp_bridge.core.effects import Record
from acp_bridge.core.ports import Entry
from acp_bridge.demo import DemoGateway, RunContext
from acp_bridge.ids import RunId, SessionId
from acp_bridge.storage import LazyLedger
from acp_bridge.wire.updates import message_chunk
from ledger import Limits, RunState, open_ledger

ROUNDS = 15
PAUSES = 7
FLOOD = 3_000
PACED = 200
PACE = 0.005
"""Seconds between two updates of the paced stream."""
LONGEST = 60.0
"""Seconds that anything may take."""

MOST_THROUGHPUT_LOST = 0.40
MOST_LATENCY_ADDED = 0.3
"""Milliseconds on the median."""

LOCKED = 15.0
"""Seconds that another process keeps the ledger locked."""
LONGEST_DELAY = 200.0
"""Milliseconds that a chunk may be late meanwhile."""

LONG_TURN = 5_000
LONGEST_PAUSE = 20.0
"""Milliseconds that the loop may stand still for the database."""

RECORDING, WITHOUT = "recording", "--no-ledger"


class Figures(NamedTuple):
    """Of one bridge process."""

    rate: float
    """Updates a second."""
    latency: float
    """Milliseconds, the median."""


async def script(run: RunContext) -> None:
    """A flood of updates of one tool call, or a stream of words that tell when they were sent."""
    if run.message.endswith("locked"):
        await locked(run)
        return
    if run.message.endswith("flood"):
        call = await run.tool_start("search", {"query": "all"})
        for number in range(FLOOD):
            await run.tool_update(call, f"result {number}")
        await run.tool_end(call, "done")
        return
    for _ in range(PACED):
        await asyncio.sleep(PACE)
        await run.text(f"{time.perf_counter_ns()} ")


async def locked(run: RunContext) -> None:
    """A paced stream while another connection has the ledger for itself."""
    with closing(sqlite3.connect(run.message.split()[-2], isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        until = time.perf_counter() + LOCKED
        while time.perf_counter() < until:
            await run.text(f"{time.perf_counter_ns()} ")
            await asyncio.sleep(10 * PACE)


class Editor:
    """The bare reading and writing of lines, so that its own cost stays small."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._count = 0

    async def call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[tuple[int, Any]]]:
        """The result, and the updates before it, each with its time (perf_counter_ns)."""
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self._writer.write(json.dumps(request).encode() + b"\n")
        lines: list[tuple[int, bytes]] = []
        own = b'"id":%d' % self._count
        while line := await asyncio.wait_for(self._reader.readline(), LONGEST):
            if own in line and "result" in (answer := json.loads(line)):
                updates = [(at, json.loads(each)["params"]["update"]) for at, each in lines]
                return answer["result"], updates
            lines.append((time.perf_counter_ns(), line))
        raise SystemExit("The bridge ended early.")


@asynccontextmanager
async def bridge(url: str, *options: str) -> AsyncIterator[tuple[Editor, str]]:
    """A bridge process with a session."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "acp_bridge", "--url", url, *options]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
            env={**os.environ, "HOME": home, "ACP_BRIDGE_STATE_DIR": str(Path(home, "state"))},
        )
        if process.stdin is None or process.stdout is None:
            raise SystemExit("The bridge has no pipes.")
        editor = Editor(process.stdout, process.stdin)
        try:
            await editor.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            opened, _ = await editor.call("session/new", {"cwd": home, "mcpServers": []})
            yield editor, opened["sessionId"]
        finally:
            process.stdin.close()
            await asyncio.wait_for(process.wait(), LONGEST)


async def measure(url: str, *options: str) -> Figures:
    """Both scenarios on one bridge."""
    async with bridge(url, *options) as (editor, session):
        begun = time.perf_counter()
        shown = await prompted(editor, session, "flood")
        took = time.perf_counter() - begun
        results = [numbered for _, update in shown if (numbered := result_number(update)) >= 0]
        expect(results, list(range(FLOOD)))

        shown = await prompted(editor, session, "paced")
        words = [
            (at, int(word))
            for at, update in shown
            if update["sessionUpdate"] == "agent_message_chunk"
            for word in update["content"]["text"].split()
        ]
        expect(len(words), PACED)
        expect(words, sorted(words))
    return Figures(len(results) / took, statistics.median(at - sent for at, sent in words) / 1e6)


async def longest_delay(url: str) -> float:
    """Milliseconds from the gateway's frame to the editor's line, the latest of all chunks."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "ledger.db")
        async with bridge(url, "--ledger-url", f"sqlite:///{file}") as (editor, session):
            shown = await prompted(editor, session, f"{file} locked")
    delays = [
        (at - int(word)) / 1e6
        for at, update in shown
        if update["sessionUpdate"] == "agent_message_chunk"
        for word in update["content"]["text"].split()
    ]
    expect(len(delays) > LOCKED / PACE / 20, True)
    return max(delays)


async def longest_pause(url: str) -> float:
    """Milliseconds that the event loop stood still while a turn was recorded."""
    loop, session, run = asyncio.get_running_loop(), SessionId("s"), RunId("r")
    limits = Limits(max_events_per_session=2 * LONG_TURN)
    ledger = LazyLedger(lambda: open_ledger(url, limits=limits), limits)
    ledger.warm()
    outbox = LedgerOutbox(ledger, lambda _: None, now_ms=lambda: 1)
    where = {"session_key": "k", "cwd": "/w"}
    outbox.put_record(Entry(session, Record("session", where)))
    outbox.put_record(Entry(session, Record("prompt", {"prompt": []}), run))
    pauses: list[float] = []
    watch = loop.create_task(_watch(pauses))
    for number in range(LONG_TURN):
        update = message_chunk(f"word {number} ", str(number))
        outbox.put_update(update, Entry(session, Record("update", update), run))
        await asyncio.sleep(0)
    outbox.put_record(Entry(session, Record("outcome", {"stop_reason": "end_turn"}), run))
    expect(await outbox.flush(LONGEST), True)
    watch.cancel()
    outbox.close()
    expect(await outbox.ended(LONGEST), True)
    replay = ledger.read(session)
    expect(replay is not None and replay.runs[0].state, RunState.FINISHED)
    ledger.close()
    return max(pauses)


async def _watch(pauses: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0)
        pauses.append((time.perf_counter() - before) * 1e3)


async def smallest_longest_pause() -> float:
    """Of several tries: what the machine does beside only adds."""
    found = []
    for number in range(PAUSES):
        with tempfile.TemporaryDirectory() as place:
            found.append(await longest_pause(f"sqlite:///{place}/{number}.db"))
    return min(found)


async def prompted(editor: Editor, session: str, text: str) -> list[tuple[int, Any]]:
    """The updates of a prompt that must end well."""
    prompt = [{"type": "text", "text": text}]
    result, shown = await editor.call("session/prompt", {"sessionId": session, "prompt": prompt})
    expect(result["stopReason"], "end_turn")
    return shown


def result_number(update: dict[str, Any]) -> int:
    """The number in an update of the flood, or -1."""
    if update["sessionUpdate"] != "tool_call_update" or not update.get("content"):
        return -1
    _, _, number = update["content"][0]["content"]["text"].partition("result ")
    return int(number) if number else -1


def expect(seen: Any, wanted: Any) -> None:
    """A benchmark of wrong results is worth nothing."""
    if seen != wanted:
        raise SystemExit(f"Wrong result: {str(seen)[:300]} instead of {str(wanted)[:300]}")


async def main() -> int:
    """Run all; 1 if a budget is missed."""
    chosen = ("--ledger-url", sys.argv[1]) if len(sys.argv) > 1 else ()
    figures: dict[str, list[Figures]] = {WITHOUT: [], RECORDING: []}
    async with DemoGateway(script, pace=0) as gateway:
        for _ in range(ROUNDS):
            figures[WITHOUT].append(await measure(gateway.url, "--no-ledger"))
            figures[RECORDING].append(await measure(gateway.url, *chosen))
        delay = await longest_delay(gateway.url)
    pause = await smallest_longest_pause()
    for name, rounds in figures.items():
        rates, latencies = zip(*rounds, strict=True)
        rate, latency = statistics.median(rates), statistics.median(latencies)
        print(f"{name:>12}: {rate:>7.0f} updates/s, median latency {latency:.2f} ms")
    pairs = list(zip(figures[WITHOUT], figures[RECORDING], strict=True))
    lost = statistics.median(1 - ours.rate / bare.rate for bare, ours in pairs)
    added = statistics.median(ours.latency - bare.latency for bare, ours in pairs)
    print(f"recording costs {lost:.0%} of the throughput and {added:.2f} ms")
    print(f"a lock of {LOCKED:.0f} s makes no chunk later than {delay:.0f} ms")
    print(f"a turn of {LONG_TURN} updates stops the loop for {pause:.1f} ms at most")
    is_kept = lost <= MOST_THROUGHPUT_LOST and added <= MOST_LATENCY_ADDED
    is_kept = is_kept and delay <= LONGEST_DELAY and pause <= LONGEST_PAUSE
    print("All budgets are kept." if is_kept else "A budget is MISSED.")
    return int(not is_kept)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

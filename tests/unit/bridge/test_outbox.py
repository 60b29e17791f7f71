"""What the outbox promises: recorded before shown, in order, within bounds, whatever fails."""

from __future__ import annotations

import asyncio
import errno
import logging
import tracemalloc
from collections.abc import Sequence

import pytest

from acp_bridge.bridge.outbox import MAX_LINE
from acp_bridge.bridge.recorder import MAX_WAITING, RETRY, Recorder
from acp_bridge.core.effects import Record
from acp_bridge.core.ports import Entry
from acp_bridge.errors import OutcomeUnknown, RunFailed, to_jsonrpc
from acp_bridge.ids import Json, RunId, SessionId
from ledger import (
    Change,
    DeleteSession,
    LedgerBusy,
    LedgerError,
    LedgerFull,
    LedgerReadOnly,
    NewSession,
    Run,
    RunState,
)
from tests.support.outbox import (
    S1,
    S2,
    SESSIONS,
    WatchedLedger,
    an_entry,
    chunk,
    held_outbox,
    opened_ledger,
    payloads,
    told,
)
from tests.support.waits import WAIT

MIB = 1024 * 1024
TOOL = {
    "sessionUpdate": "tool_call",
    "toolCallId": "t",
    "title": "T",
    "locations": [{"path": "/w/a"}],
}


async def test_an_update_is_in_the_ledger_before_its_line_is_written() -> None:
    async with held_outbox() as held:
        await held.block()
        held.put(TOOL)
        seen_at_write: list[int] = []
        write = held.wire.write

        def spy(data: bytes) -> None:
            seen_at_write.append(len(held.recorded()))
            write(data)

        held.outbox._write = spy
        await held.flush()
        assert seen_at_write == [1]
        assert held.recorded() == [TOOL]
        assert held.wire.messages[-1] == {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"sessionId": S1, "update": TOOL},
        }


async def test_an_entry_keeps_its_run_its_connection_and_the_time_it_was_put() -> None:
    async with held_outbox() as held:
        held.put(TOOL, run="run-5", gen=3)
        await held.flush()
        replay = held.ledger.read(S1)
        assert replay is not None
        [entry] = replay.entries
        assert (entry.kind, entry.run_id, entry.generation, entry.at) == ("update", "run-5", 3, 7)


async def test_a_single_update_goes_without_waiting_for_more() -> None:
    async with held_outbox() as held:
        held.wire.hold()
        held.put(TOOL)
        await held.wire.entered()


async def test_what_gathers_is_one_transaction_and_one_write() -> None:
    async with held_outbox() as held:
        await held.block()
        for session_id in SESSIONS:
            held.put(TOOL, session_id)
            held.put(TOOL, session_id)
        await held.flush()
        assert held.ledger.writes == [6]
        assert len(held.wire.writes) == 2  # the blocker, and all the rest


@pytest.mark.requirement("C026", "ACP-63")
async def test_an_answer_follows_all_updates_put_before_it() -> None:
    async with held_outbox() as held:
        await held.block()
        for number in range(2000):
            held.put_chunk(f"{number} ")
        held.put(TOOL)
        held.outbox.put_message({"id": 1, "result": {}}, session_id=S1)
        held.put_chunk("next turn")
        await held.flush()
        *_, answer, after = held.wire.messages
        assert answer == {"id": 1, "result": {}}
        assert after["params"]["update"]["content"]["text"] == "next turn"


@pytest.mark.requirement("C027", "ACP-64")
async def test_three_sessions_keep_their_order_under_a_slow_ledger() -> None:
    async with held_outbox() as held:
        held.ledger.delay_seconds = 0.002
        for number in range(1000):
            for session_id in SESSIONS:
                held.put_chunk(f"{number} ", session_id, message_id=f"m{number // 10}")
            if number % 50 == 0:
                await asyncio.sleep(0)
        for session_id in SESSIONS:
            held.outbox.put_message({"id": session_id}, session_id=session_id)
        held.wire.release()
        assert await held.outbox.flush(6 * WAIT)
        for session_id in SESSIONS:
            shown = held.wire.texts(session_id)
            assert "".join(shown).split() == [str(number) for number in range(1000)]
            recorded = [payload["content"]["text"] for payload in held.recorded(session_id)]
            assert recorded == shown
        assert [message.get("id") for message in held.wire.messages[-3:]] == SESSIONS


async def test_waiting_chunks_of_one_message_become_one_line_and_one_entry() -> None:
    async with held_outbox() as held:
        await held.block()
        for text in ("He", "llo", " wörld"):
            held.put_chunk(text)
        await held.flush()
        assert held.wire.texts(S1) == ["Hello wörld"]
        assert held.recorded() == [chunk("Hello wörld")]


async def test_chunks_are_merged_across_other_sessions_lines() -> None:
    async with held_outbox() as held:
        await held.block()
        for text in ("1", "2"):
            held.put_chunk(text, S1)
            held.put_chunk(text, S2)
            held.outbox.put_message({"id": text})
        await held.flush()
        assert held.wire.texts(S1) == held.wire.texts(S2) == ["12"]


@pytest.mark.parametrize(
    "update",
    [
        chunk("b", "other"),
        chunk("b", None),
        {**chunk("b"), "sessionUpdate": "agent_thought_chunk"},
        chunk("b", _meta={"k": 1}),
        {**chunk("b"), "content": {"type": "text", "text": "b", "annotations": {}}},
    ],
    ids=["message", "no message", "kind", "meta", "annotated"],
)
async def test_chunks_that_differ_in_more_than_text_stay_apart(update: dict[str, object]) -> None:
    async with held_outbox() as held:
        await held.block()
        held.put_chunk("a")
        held.put(update)
        held.put_chunk("c")
        await held.flush()
        assert held.recorded() == [chunk("a"), update, chunk("c")]
        assert held.wire.texts(S1) == ["a", "b", "c"]


async def test_chunks_of_another_run_or_connection_stay_apart() -> None:
    async with held_outbox() as held:
        await held.block()
        held.put(chunk("a"))
        held.put(chunk("b"), run="other")
        held.put(chunk("c"), run="other", gen=2)
        await held.flush()
        assert held.wire.texts(S1) == ["a", "b", "c"]


async def test_whatever_lies_between_in_the_same_session_keeps_chunks_apart() -> None:
    async with held_outbox() as held:
        await held.block()
        held.put_chunk("a")
        held.outbox.put_message({"id": 1}, session_id=S1)
        held.put_chunk("b")
        held.outbox.put_record(Entry(S1, Record("outcome", {})))
        held.put_chunk("c")
        await held.flush()
        assert held.wire.texts(S1) == ["a", "b", "c"]
        assert held.recorded() == [chunk("a"), chunk("b"), {}, chunk("c")]


@pytest.mark.requirement("ACP-17", "ACP-64")
@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"], ids=ascii)
async def test_a_huge_chunk_is_cut_between_characters(character: str) -> None:
    async with held_outbox() as held:
        await held.block()
        held.put_chunk("a")
        held.put_chunk(character * MIB)
        await held.flush()
        texts = held.wire.texts(S1)
        assert "".join(texts) == "a" + character * MIB
        assert all(len(line) < 300_000 for line in held.wire.lines)
        assert "".join(payload["content"]["text"] for payload in held.recorded()) == "".join(texts)


async def test_merged_lines_stay_short() -> None:
    async with held_outbox() as held:
        await held.block()
        for _ in range(10_000):
            held.put_chunk("x" * 100)
        await held.flush()
        assert sum(len(text) for text in held.wire.texts(S1)) == 10_000 * 100
        assert all(len(line) < 300_000 for line in held.wire.lines)
        assert len(held.wire.lines) < 10


@pytest.mark.requirement("ACP-25")
async def test_many_tiny_chunks_take_no_more_memory_than_their_text() -> None:
    async with held_outbox() as held:
        await held.block()
        update = chunk("x")
        tracemalloc.start()
        try:
            for _ in range(30_000):
                held.put(update)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MIB
        assert not held.outbox.is_full


@pytest.mark.requirement("ACP-25")
async def test_a_producer_that_waits_for_room_keeps_the_outbox_within_its_bound() -> None:
    async with held_outbox(limit=MIB) as held:
        await held.block()
        full = asyncio.Event()
        put = 0

        async def produce() -> None:
            nonlocal put
            for number in range(3000):
                if held.outbox.is_full:
                    full.set()
                await held.outbox.room()
                held.put_chunk("x" * 1024, message_id=str(number))
                put += 1

        async with asyncio.TaskGroup() as tasks:
            producer = tasks.create_task(produce())
            async with asyncio.timeout(WAIT):
                await full.wait()
            assert 500 < put <= 1024
            held.outbox.put_message({"id": "cancelled"})  # at the bound messages still go
            held.wire.release()
            async with asyncio.timeout(WAIT):
                await asyncio.wait({producer})
        await held.flush()
        assert len(held.wire.texts(S1)) == 3000
        assert {"id": "cancelled"} in held.wire.messages
        assert not held.outbox.is_full


async def test_a_record_is_confirmed_once_it_is_committed_though_nobody_reads() -> None:
    async with held_outbox() as held:
        held.wire.hold()
        committed = asyncio.get_running_loop().create_future()
        entry = Entry(S1, Record("prompt", {"text": "hi"}))
        held.outbox.put_record(entry, lambda: committed.set_result(held.recorded()))
        held.outbox.put_message({"id": 1}, session_id=S1)
        async with asyncio.timeout(WAIT):
            assert await committed == [{"text": "hi"}]
        assert held.wire.writes == []
        await held.flush()
        assert held.wire.messages == [{"id": 1}]


@pytest.mark.parametrize(
    ("outcome", "closed"),
    [
        ({"stop_reason": "end_turn"}, (RunState.FINISHED, "end_turn", None)),
        ({"stop_reason": "max_tokens"}, (RunState.FINISHED, "max_tokens", None)),
        ({"stop_reason": "cancelled"}, (RunState.CANCELLED, "cancelled", None)),
        ({"error": to_jsonrpc(RunFailed("no"))}, (RunState.FAILED, None, "run_failed")),
        ({"error": to_jsonrpc(OutcomeUnknown())}, (RunState.UNKNOWN, None, "outcome_unknown")),
    ],
    ids=["finished", "full", "cancelled", "failed", "unknown"],
)
async def test_a_prompt_opens_its_run_and_the_outcome_closes_it(
    outcome: Json, closed: tuple[RunState, str | None, str | None]
) -> None:
    async with held_outbox() as held:
        held.outbox.put_record(Entry(S1, Record("prompt", {}), RunId("r")))
        await held.flush()
        assert held.runs() == [Run("r", S1, RunState.OPEN, 7)]
        held.put_chunk("one")
        await held.flush()
        held.put_chunk("two")
        held.outbox.put_record(Entry(S1, Record("outcome", outcome), RunId("r")))
        await held.flush()
        assert held.runs() == [Run("r", S1, closed[0], 7, 7, *closed[1:])]
        assert held.recorded() == [{}, chunk("onetwo"), outcome]
        assert held.wire.texts(S1) == ["one", "two"]


@pytest.mark.requirement("C070")
async def test_what_a_full_ledger_does_not_take_is_shown_and_written_when_it_recovers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with held_outbox() as held:
        held.ledger.fail_with = LedgerFull("full")
        confirmed = asyncio.Event()
        for number in range(5):
            held.put_chunk("secret text", message_id=str(number))
            await held.flush()
        held.outbox.put_record(Entry(S1, Record("prompt", {})), confirmed.set)
        async with asyncio.timeout(WAIT):
            await confirmed.wait()
        assert held.wire.texts(S1) == ["secret text"] * 5
        assert held.recorded() == []

        held.ledger.fail_with = None
        await held.until_recorded(6)
        replay = held.ledger.read(S1)
        assert replay is not None
        assert replay.session.complete
    assert told(caplog) == [
        "the conversation is not recorded",
        "the conversation is recorded again",
    ]
    assert "secret" not in caplog.text


@pytest.mark.requirement("C070")
async def test_a_ledger_that_refuses_for_good_makes_its_session_incomplete() -> None:
    async with held_outbox() as held:
        held.ledger.fail_with = LedgerError("no")
        held.put_chunk("a")
        await held.flush()
        replays = [held.ledger.read(session_id) for session_id in SESSIONS]
        assert [replay.session.complete for replay in replays if replay] == [False, True, True]
        assert held.wire.texts(S1) == ["a"]


@pytest.mark.parametrize("is_free_in_time", [True, False])
def test_at_the_end_a_locked_ledger_is_waited_for(
    is_free_in_time: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ledger, now = opened_ledger(), 0.0
    recorder = Recorder(ledger, lambda: now)
    ledger.fail_with = LedgerBusy("locked")

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds
        if is_free_in_time and now > 0.1:
            ledger.fail_with = None

    recorder.record([an_entry()])
    recorder.finish(0.3, pause)
    warnings = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert payloads(ledger, S1) == ([{"n": 1}] if is_free_in_time else [])
    assert warnings == ([] if is_free_in_time else ["the end of the conversation is not recorded"])


async def test_the_outbox_ends_when_the_ledger_has_taken_all() -> None:
    async with held_outbox() as held:
        held.ledger.fail_with = LedgerBusy("locked")
        held.put_chunk("a")
        await held.flush()
        held.outbox.close()
        held.ledger.fail_with = None
        assert await held.outbox.ended(WAIT)
        assert held.recorded() == [chunk("a")]


def test_what_does_not_fit_into_the_buffer_makes_its_session_incomplete() -> None:
    ledger, now = opened_ledger(), 0.0
    recorder = Recorder(ledger, lambda: now)
    ledger.fail_with = LedgerFull("disk full")
    for session_id, weight in ((S1, MAX_WAITING), (S2, 10)):
        recorder.record([an_entry(session_id, weight)])
    ledger.fail_with = None
    now += RETRY
    recorder.retry()

    states = [ledger.read(session_id) for session_id in (S1, S2)]
    assert [(len(s.entries), s.session.complete) for s in states if s] == [(0, False), (1, True)]
    assert not recorder.is_behind


def test_what_a_ledger_refused_for_a_while_makes_its_session_incomplete_later() -> None:
    class Frozen(WatchedLedger):
        is_frozen = False

        def write(self, changes: Sequence[Change]) -> None:
            if self.is_frozen:
                raise LedgerReadOnly("read-only")
            super().write(changes)

    ledger = Frozen()
    ledger.write([NewSession(name, name, "/w", 1) for name in SESSIONS])
    recorder = Recorder(ledger, lambda: 0.0)
    ledger.is_frozen = True
    recorder.record([an_entry()])
    ledger.is_frozen = False
    recorder.record([an_entry(S2)])
    states = [ledger.read(session_id) for session_id in (S1, S2)]
    assert [(len(s.entries), s.session.complete) for s in states if s] == [(0, False), (1, True)]


async def test_one_session_s_fault_does_not_cost_the_record_of_the_others() -> None:
    async with held_outbox() as held:
        await held.block()
        held.put_chunk("a", S1)
        held.put_chunk("lost", SessionId("unknown"))
        held.put_chunk("b", S2)
        await held.flush()
        assert held.recorded(S1) == [chunk("a")]
        assert held.recorded(S2) == [chunk("b")]
        assert held.wire.texts("unknown") == ["lost"]


def test_what_can_be_tried_again_waits_though_another_session_s_fault_cannot() -> None:
    class HalfLocked(WatchedLedger):
        is_locked = True

        def write(self, changes: Sequence[Change]) -> None:
            of_second = [each for each in changes if getattr(each, "session_id", None) == S2]
            if self.is_locked and len(of_second) == len(changes):
                raise LedgerBusy("locked")
            super().write(changes)

    ledger = HalfLocked()
    ledger.is_locked = False
    ledger.write([NewSession(name, name, "/w", 1) for name in SESSIONS])
    ledger.is_locked, now = True, 0.0
    recorder = Recorder(ledger, lambda: now)
    recorder.record([an_entry(SessionId("unknown")), an_entry(S2), an_entry(S1)])
    assert (payloads(ledger, S1), recorder.is_behind) == ([{"n": 1}], True)
    ledger.is_locked = False
    now += RETRY
    recorder.retry()
    state = ledger.read(S2)
    assert state is not None
    assert (len(state.entries), state.session.complete) == (1, True)


def test_a_session_that_the_ledger_has_lost_goes_on_as_an_incomplete_one() -> None:
    ledger = WatchedLedger()
    recorder = Recorder(ledger, lambda: 0.0)
    opening = Record("session", {"session_key": "k", "cwd": "/w"})
    recorder.record([(Entry(S1, opening), 1, 10), an_entry()])
    ledger.write([DeleteSession(S1)])
    for _ in range(2):
        recorder.record([an_entry()])
    assert payloads(ledger, S1) == [{"n": 1}, {"n": 1}]
    replay = ledger.read(S1)
    assert replay is not None
    assert not replay.session.complete


def test_a_session_that_was_deleted_here_stays_deleted() -> None:
    ledger = WatchedLedger()
    recorder = Recorder(ledger, lambda: 0.0)
    opening = Record("session", {"session_key": "k", "cwd": "/w"})
    recorder.record([(Entry(S1, opening), 1, 10), an_entry()])
    recorder.record([(Entry(S1, Record("deleted", {})), 1, 10)])
    recorder.record([an_entry()])
    assert ledger.read(S1) is None


async def test_a_ledger_that_cannot_even_note_the_gap_is_survived() -> None:
    class Hopeless(WatchedLedger):
        def write(self, changes: Sequence[Change]) -> None:
            if not isinstance(changes[0], NewSession):
                raise LedgerError("no")
            super().write(changes)

    async with held_outbox(ledger=Hopeless()) as held:
        held.put_chunk("a")
        await held.flush()
        assert held.wire.texts(S1) == ["a"]


@pytest.mark.requirement("ACP-24", "C085")
@pytest.mark.parametrize("number", [errno.EPIPE, errno.EBADF, errno.ENOSPC])
async def test_a_gone_editor_costs_the_lines_and_not_the_record(number: int) -> None:
    async with held_outbox() as held:
        held.wire.fail_with = OSError(number, "gone")
        for text in ("a", "b", "c"):
            held.put_chunk(text, message_id=text)
            await held.flush()
        held.wire.fail_with = None
        held.put_chunk("d", message_id="d")
        await held.flush()
        assert held.gone == 1
        assert [payload["content"]["text"] for payload in held.recorded()] == list("abcd")
        assert held.wire.writes == []


@pytest.mark.requirement("ACP-17")
async def test_a_line_too_long_for_editors_is_recorded_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with held_outbox() as held:
        huge = {**TOOL, "rawOutput": "x" * MAX_LINE}
        held.put(huge)
        held.put_chunk("after")
        await held.flush()
        assert held.recorded()[0] == huge
        assert [len(line) < 1000 for line in held.wire.lines] == [True]
        assert "too long" in caplog.text


async def test_flushing_gives_up_in_time_when_nobody_reads() -> None:
    async with held_outbox() as held:
        await held.block()
        assert not await held.outbox.flush(0.01)
        await held.flush()


async def test_closing_still_writes_what_is_queued() -> None:
    async with held_outbox() as held:
        await held.block()
        held.put_chunk("last")
        held.outbox.close()
        held.outbox.put_message({"id": "late"})
    assert held.wire.texts(S1) == ["last"]
    assert payloads(held.ledger, S1) == [chunk("last")]
    assert {"id": "late"} not in held.wire.messages
    assert held.gone == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_bug_in_the_thread_ends_the_bridge_and_does_not_hang_it() -> None:
    async with held_outbox() as held:
        ended = asyncio.Event()
        held.outbox._on_gone = ended.set
        held.ledger.fail_with = ZeroDivisionError()
        held.put_chunk("a")
        async with asyncio.timeout(WAIT):
            await ended.wait()


async def test_the_loop_is_never_held_up() -> None:
    async with held_outbox() as held:
        held.ledger.delay_seconds = WAIT
        for _ in range(1000):
            held.put_chunk("x")
            held.outbox.put_message({"id": 1})
            held.outbox.put_record(Entry(S1, Record("prompt", {})))
        assert held.ledger.writes == []
        held.ledger.delay.set()
        await held.flush()

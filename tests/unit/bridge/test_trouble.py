"""When somebody is told that the ledger does not take what is said."""

from __future__ import annotations

import logging

import pytest

from acp_bridge.bridge.recorder import RETRY, Recorder
from acp_bridge.bridge.trouble import CALM, LOCK_PATIENCE
from ledger import LedgerBusy, LedgerFull, LedgerReadOnly
from tests.support.outbox import S1, an_entry, opened_ledger, payloads, told


@pytest.mark.parametrize(("seconds", "warnings"), [(LOCK_PATIENCE - 0.1, 0), (LOCK_PATIENCE, 2)])
def test_a_lock_is_worth_a_word_only_when_it_lasts(
    seconds: float, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    ledger, now = opened_ledger(), 0.0
    recorder = Recorder(ledger, lambda: now)
    ledger.fail_with = LedgerBusy("locked")
    recorder.record([an_entry()])
    now += seconds
    recorder.retry()
    ledger.fail_with = None
    now += RETRY
    recorder.retry()
    recorder.finish(0.0, lambda _: None)
    assert payloads(ledger, S1) == [{"n": 1}]
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == warnings


def test_each_lock_has_its_own_patience(caplog: pytest.LogCaptureFixture) -> None:
    ledger, now = opened_ledger(), 0.0
    recorder = Recorder(ledger, lambda: now)
    for _ in range(3):
        ledger.fail_with = LedgerBusy("locked")
        recorder.record([an_entry()])
        ledger.fail_with = None
        now += LOCK_PATIENCE
        recorder.retry()
    assert len(payloads(ledger, S1)) == 3
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.requirement("C070")
def test_a_ledger_that_fails_now_and_then_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Twenty minutes on a disk that is full: it has room for something small now and then."""
    ledger, now = opened_ledger(), 0.0
    recorder = Recorder(ledger, lambda: now)
    for number in range(2400):
        ledger.fail_with = LedgerFull("disk full") if number % 3 else None
        recorder.record([an_entry()])
        now += 0.5
        recorder.retry()
    assert told(caplog) == ["the conversation is not recorded"]

    ledger.fail_with = None
    now += RETRY
    recorder.retry()
    while recorder.patience is not None:
        now += recorder.patience
        recorder.retry()
    assert told(caplog) == [
        "the conversation is not recorded",
        "the conversation is recorded again",
    ]
    assert len(payloads(ledger, S1)) == 2400


@pytest.mark.requirement("C070")
@pytest.mark.parametrize("pause", [1.0, CALM - 1, CALM, 3 * CALM])
def test_however_often_a_trouble_comes_back_it_is_told_of_once_a_minute(
    pause: float, caplog: pytest.LogCaptureFixture
) -> None:
    ledger, now = opened_ledger(), 0.0
    recorder = Recorder(ledger, lambda: now)
    for _ in range(50):
        for failure in (LedgerFull("disk full"), None):
            ledger.fail_with = failure
            recorder.record([an_entry()])
            now += RETRY
            recorder.retry()
        now += pause
        recorder.retry()
    words = told(caplog)
    assert words == ["the conversation is not recorded", "the conversation is recorded again"] * (
        len(words) // 2
    ) + ["the conversation is not recorded"] * (len(words) % 2)
    assert len(words) <= 2 * (now / CALM + 1)
    assert (len(words) == 1) is (pause < CALM)


@pytest.mark.requirement("C070")
def test_a_ledger_that_refuses_for_good_is_not_told_to_record_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger, now = opened_ledger(), 0.0
    recorder = Recorder(ledger, lambda: now)
    ledger.fail_with = LedgerReadOnly("read-only")
    for _ in range(3):
        recorder.record([an_entry()])
        now += 2 * CALM
        recorder.retry()
    recorder.finish(0.0, lambda _: None)
    assert told(caplog) == ["the conversation is not recorded"]

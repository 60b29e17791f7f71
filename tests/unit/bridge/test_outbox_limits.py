"""What may wait for an editor and for a ledger: at each limit, and one past it."""

from __future__ import annotations

import pytest

from acp_bridge.bridge import outbox
from acp_bridge.bridge.recorder import MAX_WAITING, Recorder
from ledger import LedgerFull
from tests.support.outbox import S1, S2, an_entry, chunk, held_outbox, opened_ledger


@pytest.mark.requirement("ACP-17")
async def test_a_line_to_the_editor_may_be_as_long_as_the_limit_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with held_outbox() as held:
        held.put_chunk("x" * 500)
        await held.flush()
        (length,) = (len(written) for written in held.wire.writes)
        monkeypatch.setattr(outbox, "MAX_LINE", length + 1)  # its end included, it must be shorter
        held.put(chunk("y" * 500))
        held.put(chunk("z" * 501, "other"))
        await held.flush()
        assert held.wire.texts(S1) == ["x" * 500, "y" * 500]
        assert "z" * 501 in str(held.recorded()[-1])


def test_as_much_waits_for_the_ledger_as_the_limit_says_and_a_byte_more_does_not() -> None:
    for more, is_whole in ((0, True), (1, False)):
        ledger = opened_ledger()
        recorder = Recorder(ledger, lambda: 0.0)
        ledger.fail_with = LedgerFull("disk full")
        recorder.record([an_entry(S1, MAX_WAITING - 10)])
        recorder.record([an_entry(S2, 10 + more)])
        ledger.fail_with = None
        recorder.finish(0, lambda _: None)

        states = [ledger.read(session_id) for session_id in (S1, S2)]
        assert [s.session.complete for s in states if s] == [is_whole, True]

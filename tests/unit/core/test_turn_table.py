"""The turn table: what every state may become."""

from __future__ import annotations

import pytest

from acp_bridge.core.turn import TABLE, Trigger, TurnState, next_state
from acp_bridge.errors import IllegalTransition

LIVE = [state for state in TurnState if not state.is_final]


def reachable(start: TurnState) -> set[TurnState]:
    seen: set[TurnState] = set()
    waiting = [start]
    while waiting:
        state = waiting.pop()
        for following in TABLE[state].values():
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen


def test_every_state_has_a_row() -> None:
    assert set(TABLE) == set(TurnState)


@pytest.mark.parametrize("state", LIVE)
def test_every_live_state_reaches_a_final_one(state: TurnState) -> None:
    assert any(following.is_final for following in reachable(state))


@pytest.mark.parametrize("state", LIVE)
def test_every_live_state_can_be_cancelled(state: TurnState) -> None:
    assert next_state(state, Trigger.CANCEL) in (TurnState.CANCELLING, TurnState.CANCELLED)


def test_after_a_cancel_request_the_only_end_is_cancelled() -> None:
    ends = {state for state in reachable(TurnState.CANCELLING) if state.is_final}

    assert ends == {TurnState.CANCELLED}


@pytest.mark.parametrize("state", [TurnState.DONE, TurnState.CANCELLED, TurnState.FAILED])
@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_final_state_takes_no_event(state: TurnState, trigger: Trigger) -> None:
    with pytest.raises(IllegalTransition, match=state.name):
        next_state(state, trigger)


def test_a_pair_that_the_table_lacks_names_state_and_trigger() -> None:
    with pytest.raises(IllegalTransition, match="SUSPENDED has no move finished"):
        next_state(TurnState.SUSPENDED, Trigger.FINISHED)


def test_the_one_resend_leads_from_probing_back_to_sent() -> None:
    ways = {state for state in LIVE if TABLE[state].get(Trigger.SENT) is TurnState.SENT}

    assert ways == {TurnState.NEW, TurnState.SENT, TurnState.PROBING}

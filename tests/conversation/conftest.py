"""Each conversation is held with both kinds of gateway, as far as their nature allows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.service import gateway_makes_sessions

_KEYS = "the bridge makes and spells keys of sessions; a gateway that speaks ACP names them itself"
_OTHERS = "other clients of a session are seen; a connection to ZeroClaw sees its own turns alone"

OPENCLAW_ONLY = {
    "test_options.py": "options, modes and slash commands are the bridge's; over ACP they pass",
    "test_left_approvals.py": "its approvals outlive a connection; over ACP a question does not",
    "test_the_session_key_follows_meta_then_options_then_the_own_id": _KEYS,
    "test_the_gateways_session_is_deleted_by_its_key_also_in_another_process": _KEYS,
    "test_an_approval_without_a_run_is_matched_by_its_session_in_any_spelling": _KEYS,
    "test_token_counts_of_the_gateways_row_are_shown_when_they_change": _KEYS,
    "test_a_prompt_waits_for_a_foreign_turn_that_has_said_nothing_and_is_not_told_of": (_OTHERS),
    "test_a_foreign_turn_is_shown_as_such_and_kept": _OTHERS,
    "test_a_foreign_turn_goes_on_in_a_session_that_is_loaded_again": _OTHERS,
    "test_a_prompt_waits_for_a_foreign_turn_and_stops_nothing": _OTHERS,
    "test_nothing_passes_to_a_gateway_with_a_dialect_of_its_own": "it is about that gateway",
}
"""Tests, or files of tests, of what only OpenClaw has, with what that is."""


@pytest.fixture(params=["openclaw", "acp"], autouse=True)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of gateway that conversations are held with."""
    chosen: str = request.param
    names = (request.node.originalname, request.path.name)
    reason = next((OPENCLAW_ONLY[name] for name in names if name in OPENCLAW_ONLY), None)
    if chosen == "acp" and reason:
        pytest.skip(reason)
    token = gateway_makes_sessions.set(chosen == "acp")
    yield chosen
    gateway_makes_sessions.reset(token)

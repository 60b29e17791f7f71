"""What is to go when a ledger has grown beyond its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.retention import (
    Limits,
    Usage,
    archives_to_delete,
    entries_to_trim,
    headroom,
    sessions_to_archive,
)

usages = st.lists(
    st.builds(
        Usage,
        session_id=st.uuids().map(str),
        updated_at=st.integers(0, 5),
        bytes=st.integers(1, 5000),
        is_live=st.booleans(),
    ),
    unique_by=lambda usage: usage.session_id,
)
limits_of_all_kinds = st.builds(
    Limits,
    max_sessions=st.integers(1, 10),
    max_events_per_session=st.integers(1, 10_000),
    max_bytes=st.integers(1024, 20_000),
)


def is_within(left: list[Usage], limits: Limits) -> bool:
    return len(left) <= limits.max_sessions and sum(u.bytes for u in left) <= limits.max_bytes


@given(usages, limits_of_all_kinds)
def test_what_is_archived_is_enough_and_no_more(active: list[Usage], limits: Limits) -> None:
    chosen = sessions_to_archive(active, limits)
    by_id = {usage.session_id: usage for usage in active}
    gone = [by_id[name] for name in chosen]
    left = [usage for usage in active if usage.session_id not in chosen]

    assert not any(usage.is_live for usage in gone)
    assert is_within(left, limits) or all(usage.is_live for usage in left)
    assert not gone or not is_within([*left, gone[-1]], limits)
    idle = sorted((u.updated_at, u.session_id) for u in active if not u.is_live)
    assert [(usage.updated_at, usage.session_id) for usage in gone] == idle[: len(gone)]


@given(usages, limits_of_all_kinds)
def test_archives_go_only_when_they_are_too_much_by_themselves(
    archived: list[Usage], limits: Limits
) -> None:
    chosen = archives_to_delete(archived, limits)
    by_id = {usage.session_id: usage for usage in archived}
    gone = [by_id[name] for name in chosen]
    left = sum(usage.bytes for usage in archived if usage.session_id not in chosen)

    assert not any(usage.is_live for usage in gone)
    assert left <= limits.max_bytes or len(gone) == sum(not u.is_live for u in archived)
    assert not gone or left + gone[-1].bytes > limits.max_bytes


@given(st.integers(0, 100_000), limits_of_all_kinds)
def test_a_trimmed_session_is_within_its_limit_with_some_room(entries: int, limits: Limits) -> None:
    count = entries_to_trim(entries, limits)
    most = limits.max_events_per_session
    assert 0 <= count <= entries
    assert (count == 0) == (entries <= most)
    assert entries - count <= most
    if count:
        assert entries - count == most - most // 16


@given(usages, limits_of_all_kinds)
def test_the_limits_are_looked_at_again_before_much_more_is_written(
    active: list[Usage], limits: Limits
) -> None:
    room = headroom(active, limits)
    left = limits.max_bytes - sum(usage.bytes for usage in active)
    assert 0 < room <= limits.max_bytes // 64
    assert room <= max(left, limits.max_bytes // 256)


@pytest.mark.parametrize(
    "limits",
    [{"max_sessions": 0}, {"max_events_per_session": 0}, {"max_bytes": 1023}],
    ids=lambda limits: next(iter(limits)),
)
def test_limits_that_hold_nothing_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Limits(**limits)

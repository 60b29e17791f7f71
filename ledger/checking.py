"""What a ledger takes: the same for each of them, whatever its database would say.

A value that the types do not allow is refused before anything is done with it, and not by what the
database's driver raises in the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

from ledger.codec import clean
from ledger.errors import BadValue
from ledger.model import Change, NewEntry, Page, RunState

_LARGEST = 2**62
"""Of whole numbers: a database has room for 63 bits, and to a time a lease is added."""
_LARGEST_GENERATION = 2**31 - 1


def checked(changes: Iterable[Change]) -> list[Change]:
    """The changes as a list. Raises ``BadValue`` for one that is none, or holds a value that no
    ledger takes."""
    found = list(changes)
    for change in found:
        if type(change) is NewEntry and _is_plain_entry(change):
            continue
        tests = _TESTS_OF.get(type(change))
        if tests is None:
            raise BadValue(
                f"A ledger knows no change of the type {type(change).__name__}.",
                hint="Give a list of the changes in ledger.model.",
            )
        for test, value in zip(tests, change, strict=True):
            if not test(value):
                raise _bad(change, tests)
    return found


def checked_text(value: str) -> str:
    """An id or a key that is asked for, as it is stored. Raises ``BadValue`` for what is none."""
    if not _is_text(value):
        raise BadValue(f"An id or a key is a text, and not {_shown(value)}.")
    return clean(value)


def checked_page(page: Page) -> Page:
    """Raises ``BadValue`` for a page that cannot be asked for."""
    after: Any = page.after
    is_good = (
        _is_whole(page.limit)
        and _is_optional_text(page.cwd)
        and (after is None or (len(after) == 2 and _is_whole(after[0]) and _is_text(after[1])))
    )
    if not is_good:
        raise BadValue(f"There is no page of sessions like {_shown(page)}.")
    return page


def cleaned(change: Change) -> Change:
    """The change with all texts as databases take them; payloads are the encoder's."""
    texts: dict[str, Any] = {
        name: text
        for name, value in zip(change._fields, change, strict=True)
        if type(value) is str and (text := clean(value)) is not value
    }
    return change._replace(**texts) if texts else change


def _is_plain_entry(change: NewEntry) -> bool:
    """The tests of an entry again, in less than a third of the time: most changes are one, and
    each line to the editor waits for it. What it does not pass the others decide."""
    session_id, kind, payload, at, run_id, generation, entry_key = change
    return (
        type(session_id) is str
        and type(kind) is str
        and type(payload) is dict
        and type(at) is int
        and 0 <= at <= _LARGEST
        and (run_id is None or type(run_id) is str)
        and (generation is None or (type(generation) is int and 0 <= generation < 1_000_000))
        and (entry_key is None or type(entry_key) is str)
    )


def _bad(change: Change, tests: tuple[Callable[[Any], bool], ...]) -> BadValue:
    members = zip(change._fields, change, tests, strict=True)
    name, value = next((name, value) for name, value, test in members if not test(value))
    return BadValue(
        f"A {type(change).__name__} takes no {name} like {_shown(value)}.",
        hint="Ids are texts, times are whole milliseconds, payloads are dicts: see ledger.model.",
    )


def _shown(value: object) -> str:
    """A value without what may be secret in it."""
    if isinstance(value, int | float) and abs(value) < 10**30:
        return repr(value)
    return f"a {type(value).__name__}" if not isinstance(value, int) else "a huge number"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_optional_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and -_LARGEST <= value <= _LARGEST


def _is_generation(value: Any) -> bool:
    return value is None or (isinstance(value, int) and abs(value) <= _LARGEST_GENERATION)


def _is_payload(value: Any) -> bool:
    return isinstance(value, dict)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_state(value: Any) -> bool:
    return isinstance(value, RunState)


_TESTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("session_id", "session_key", "cwd", "kind", "run_id"), _is_text),
    **dict.fromkeys(("owner", "host", "gateway", "entry_key"), _is_optional_text),
    **dict.fromkeys(("title", "stop_reason", "error_code"), _is_optional_text),
    **dict.fromkeys(("complete", "shared"), _is_flag),
    "at": _is_whole,
    "generation": _is_generation,
    "payload": _is_payload,
    "state": _is_state,
}
"""By the names of members, which mean the same in all changes, but for the run of an entry."""

_TESTS_OF: dict[type, tuple[Callable[[Any], bool], ...]] = {
    kind: tuple(
        _is_optional_text if (kind, name) == (NewEntry, "run_id") else _TESTS[name]
        for name in kind._fields
    )
    for kind in get_args(Change)
}

"""Whatever happens to the bytes of a ledger's file, nothing is lost that was not lost before."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import EventLedger, LedgerCorrupt, open_ledger
from tests.support.ledgers import entry, session, texts

TEXTS = [f"secret {number} " + "y" * 300 for number in range(60)]

damages = st.tuples(
    st.floats(0, 1, exclude_max=True) | st.floats(0, 0.002),  # where, as a part of the file
    st.binary(min_size=1, max_size=64) | st.just(b"\xa5" * 4096),
)


@pytest.fixture(scope="module")
def whole() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "ledger.db")
        ledger = open_ledger(f"sqlite:///{path}")
        ledger.write([session(), *(entry(text) for text in TEXTS)])
        ledger.close()
        yield path


def open_damaged(content: bytes) -> None:
    """Open a file of this content: it is set aside as it is, or it is used."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "ledger.db")
        path.write_bytes(content)
        ledger = open_ledger(f"sqlite:///{path}")
        try:
            aside = [f for f in path.parent.glob("*.damaged-*") if f.name.endswith("Z")]
            if aside:
                assert [file.read_bytes() for file in aside] == [content]
                assert ledger.read("s1") is None
                ledger.write([session(), entry("new")])
                assert texts(ledger) == ["new"]
            else:
                assert "secret" not in reason_for_not_reading(ledger)
                ledger.write([session("s2"), entry("new", "s2")])
                assert texts(ledger, "s2") == ["new"]
        finally:
            ledger.close()


def reason_for_not_reading(ledger: EventLedger) -> str:
    """What a damaged session's reader is told, if it is damaged."""
    try:
        ledger.read("s1")
    except LedgerCorrupt as error:
        return str(error)
    return ""


once = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.requirement("C071")
@once
@given(damage=damages)
def test_damage_anywhere(whole: Path, damage: tuple[float, bytes]) -> None:
    place, replacement = damage
    content = bytearray(whole.read_bytes())
    start = int(place * len(content))
    stop = min(start + len(replacement), len(content))
    content[start:stop] = replacement[: stop - start]
    open_damaged(bytes(content))


@pytest.mark.requirement("C071")
@once
@given(size=st.integers(1, 5000) | st.floats(0.02, 1, exclude_max=True))
def test_a_file_cut_anywhere(whole: Path, size: float) -> None:
    content = whole.read_bytes()
    open_damaged(content[: int(size if size >= 1 else size * len(content))])


@pytest.mark.requirement("C071")
@once
@given(content=st.binary(min_size=1, max_size=5000))
def test_any_bytes_at_all(content: bytes) -> None:
    open_damaged(content)

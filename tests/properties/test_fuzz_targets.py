"""The inputs that fuzzers began with or failed at once, and random ones, through their targets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.fuzz.targets import TARGETS

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
INPUTS = sorted(path for path in CORPUS.rglob("*") if path.is_file())
QUICK = [name for name in TARGETS if not name.startswith("import")]


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_no_input_of_the_corpus_breaks_a_promise(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_every_target_has_a_corpus() -> None:
    assert {path.parent.name for path in INPUTS} == set(TARGETS)


@pytest.mark.parametrize("name", QUICK)
@given(data=st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_break_a_promise(name: str, data: bytes) -> None:
    TARGETS[name](data)

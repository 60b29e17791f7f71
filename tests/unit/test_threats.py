"""The tables of limits and threats name a test in each line, and each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "acp_bridge" / "README.md").read_text("utf-8")


def rows(heading: str) -> list[str]:
    """The lines of the table below a heading, without its head."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


LINES = [*rows("Limits"), *rows("Threats")]


def test_both_tables_are_there() -> None:
    assert len(rows("Limits")) >= 20
    assert len(rows("Threats")) >= 20


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[1].strip()[:50])
def test_each_line_names_a_test_that_exists(line: str) -> None:
    found = re.search(r"\| `(tests/[\w/]+\.py)(?:::(\w+))?` \|$", line)
    assert found, f"no test is named in: {line}"
    source = (ROOT / found[1]).read_text("utf-8")
    assert found[2] is None or re.search(rf"^(?:async )?def {found[2]}\(", source, re.MULTILINE)


@pytest.mark.parametrize("line", rows("Limits"), ids=lambda line: line.split("|")[1].strip()[:50])
def test_each_limit_names_a_module_that_exists(line: str) -> None:
    module = line.split("|")[4].strip().strip("`")
    assert any((ROOT / place / module).is_file() for place in ("acp_bridge", "."))

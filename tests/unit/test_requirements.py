"""Each claim of a test to prove a requirement names one that can be looked up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ID = re.compile(r"C\d{3}|ACP-\d+")
"""A field case, or a conformance rule of the Agent Client Protocol."""


def marks() -> Iterator[tuple[str, ast.Call]]:
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "requirement"
            ):
                yield f"{path.relative_to(TESTS)}:{node.lineno}", node


def is_id(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and bool(ID.fullmatch(str(argument.value)))


def test_every_requirement_mark_has_well_formed_ids() -> None:
    found = list(marks())
    wrong = [
        place
        for place, call in found
        if not call.args or call.keywords or not all(map(is_id, call.args))
    ]

    assert found
    assert wrong == []

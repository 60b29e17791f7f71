"""What the bridge that OpenClaw ships answers to given inputs (2026.9.6, measured)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent.parent / "data" / "mapper_vectors.json"


def vectors(function: str) -> list[tuple[list[Any], Any]]:
    """Arguments and results of one function of it; an error is its text in an ``Exception``."""
    found = json.loads(_DATA.read_text(encoding="utf-8"))
    return [
        (vector["args"], Exception(vector["error"]) if "error" in vector else vector.get("result"))
        for vector in found
        if vector["fn"] == function
    ]

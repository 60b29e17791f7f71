"""What is installed for development is locked, and the lock fits what is asked for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCKED = (ROOT / ".ci" / "locked.txt").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def asked_for() -> list[str]:
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    wanted = [*groups["test"], *groups["lint"], *groups["types"]]
    return [*project["dependencies"], *extras, *wanted]


def test_every_dependency_has_a_lower_bound_and_a_locked_version_above_it() -> None:
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", LOCKED, re.MULTILINE))
    for wanted in asked_for():
        found = re.match(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", wanted)
        assert found, f"{wanted} has no lower bound"
        assert key(locked[found[1].lower()]) >= key(found[2]), wanted


def test_the_lock_names_hashes_and_no_place() -> None:
    entries = re.split(r"(?m)^(?=[\w.-]+==)", LOCKED)[1:]
    assert len(entries) > 30
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in LOCKED

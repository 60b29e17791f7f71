"""Runs one target until it is stopped or fails; see the package."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Take the target's name from the command line and leave the rest of it to libFuzzer."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]  # of the group fuzz alone

    with atheris.instrument_imports(include=["acp_bridge", "ledger"]):
        from scripts.fuzz.targets import TARGETS

    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m scripts.fuzz {{{','.join(TARGETS)}}} [libFuzzer options]")
    name = sys.argv.pop(1)
    learned = ROOT / ".fuzz" / name
    learned.mkdir(parents=True, exist_ok=True)
    begun = ROOT / "tests" / "data" / "fuzz" / name
    atheris.Setup([*sys.argv, str(learned), str(begun)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()

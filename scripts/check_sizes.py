"""Fails for a file that has grown beyond what can be read in one sitting."""

from __future__ import annotations

import sys
from pathlib import Path

LIMITS = {"acp_bridge": 400, "ledger": 400, "migrations": 400, "scripts": 400, "tests": 600}
"""Lines that a Python file may have, by top-level directory."""


def main() -> int:
    """Print each file above its limit; 1 if there is one."""
    root = Path(__file__).resolve().parent.parent
    too_long = []
    for directory, limit in LIMITS.items():
        for path in sorted((root / directory).rglob("*.py")):
            lines = len(path.read_text("utf-8").splitlines())
            if lines > limit:
                too_long.append(f"{path.relative_to(root)}: {lines} lines, {limit} are allowed")
    print("\n".join(too_long) or "All files keep to their limits.")
    return int(bool(too_long))


if __name__ == "__main__":
    sys.exit(main())

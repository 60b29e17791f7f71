"""Whether a file is on a file system that is read-only, so that nobody writes it."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def is_frozen(path: Path) -> bool:
    """Whether an existing file is on a file system that nobody can write."""
    if sys.platform == "win32":
        return False
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False

"""A file system of a test's own, which can be made read-only."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


class Mount:
    """A small file system in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def freeze(self) -> None:
        """Make it read-only."""
        subprocess.run(["mount", "-o", "remount,ro", self.path], check=True, timeout=10)

    def thaw(self) -> None:
        """Make it writable again."""
        subprocess.run(["mount", "-o", "remount,rw", self.path], check=True, timeout=10)


@contextlib.contextmanager
def mounted(path: Path) -> Iterator[Mount]:
    """A file system at ``path``; the test is left out where none may be mounted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path)]
    try:
        made = (
            sys.platform == "linux"
            and not subprocess.run(command, capture_output=True, timeout=10, check=False).returncode
        )
    except OSError:
        made = False
    if not made:
        pytest.skip("a file system can be mounted by root alone")
    try:
        yield Mount(path)
    finally:
        subprocess.run(["umount", "-l", path], check=False, timeout=10)

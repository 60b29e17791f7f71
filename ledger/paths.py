"""Working directories: which two of them are the same, though written differently."""

from __future__ import annotations

import ntpath
import posixpath
import re

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def normal_path(path: str) -> str:
    """``path`` in the one way of writing by which directories are compared.

    Purely by its text, since the directory may be on another machine: no links are followed. A
    path of Windows is told by its drive or share, and compared without regard to case.
    """
    if _WINDOWS.match(path):
        return ntpath.normcase(ntpath.normpath(path))
    # POSIX leaves it open what two leading slashes mean; on all systems of today it is one.
    return posixpath.normpath(re.sub(r"^/+", "/", path))

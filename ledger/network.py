"""Whether a path lies on a network file system, where several processes cannot share memory.

SQLite's write-ahead log needs shared memory; over a network it damages the database.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ncpfs|afs|9p|ceph|lustre|gpfs|beegfs\w*|glusterfs|orangefs|pvfs2"
    r"|gfs2?|ocfs2|davfs2?|virtiofs|vboxsf|vmhgfs|prl_fs|drvfs"
    r"|fuse\.(sshfs|glusterfs|ceph|cephfs|davfs2?|rclone|s3fs|gcsfuse|goofys|vmhgfs-fuse|curlftpfs"
    r"|juicefs|mount\.\w+)"
)
"""Types of file systems whose files are on another machine, or on the host of a virtual one."""


def is_network_path(path: Path) -> bool:
    """Whether ``path``, which need not exist, is on a network file system, as far as is known:
    by the kernel's list of mounts on Linux, by the form of the path on Windows."""
    absolute = Path(os.path.realpath(path))  # of links in a ring, as far as they lead
    if absolute.drive.startswith("\\\\"):
        return True
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return False
    kind = filesystem_type(str(absolute), mounts)
    return kind is not None and _NETWORK.fullmatch(kind) is not None


def filesystem_type(path: str, mounts: str) -> str | None:
    """The type of the file system that ``path`` is on, by the text of ``/proc/*/mountinfo``."""
    found, depth = None, -1
    for line in mounts.splitlines():
        # 36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if len(fields) < 5 or not kind:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        # A later mount at the same place hides the one before.
        if len(point) >= depth and (path + "/").startswith(point.rstrip("/") + "/"):
            found, depth = kind, len(point)
    return found

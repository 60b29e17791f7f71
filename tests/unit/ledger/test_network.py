"""Which paths are on a network file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import network
from ledger.network import filesystem_type, is_network_path

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 0:30 / /home rw,relatime shared:5 master:2 - nfs4 server:/home rw,vers=4.2
29 28 254:1 / /home/local rw,relatime - xfs /dev/vdb rw
30 27 0:31 / /mnt/my\040share rw - cifs //server/share rw
31 27 0:32 / /mnt/x rw - fuse.sshfs user@host: rw
32 27 0:33 / /mnt/lower rw - tmpfs none rw
33 27 0:34 / /mnt/lower rw - 9p host rw
34 27 0:35 / /mnt/disk rw - fuseblk /dev/sdb1 rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/x.db", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/.local/share/ledger.db", "nfs4"),
        ("/homes/ledger.db", "ext4"),
        ("/home/local/ledger.db", "xfs"),
        ("/mnt/my share/ledger.db", "cifs"),
        ("/mnt/lower/ledger.db", "9p"),
    ],
)
def test_the_innermost_and_latest_mount_counts(path: str, kind: str) -> None:
    assert filesystem_type(path, MOUNTS) == kind


def test_without_mounts_nothing_is_known() -> None:
    assert filesystem_type("/x", "") is None


@pytest.mark.requirement("C067")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/ledger.db", False),
        ("/home/nobody-of-this-machine/ledger.db", True),
        ("/mnt/my share/ledger.db", True),
        ("/mnt/x/ledger.db", True),
        ("/mnt/lower/ledger.db", True),
        ("/mnt/disk/ledger.db", False),
    ],
)
def test_file_systems_of_other_machines_are_told_by_their_type(
    path: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(network, "_MOUNTS", mounts)
    assert is_network_path(Path(path)) is expected


def test_a_system_without_a_list_of_mounts_is_taken_for_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_MOUNTS", tmp_path / "missing")
    assert not is_network_path(tmp_path)

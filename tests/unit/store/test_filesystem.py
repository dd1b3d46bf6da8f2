"""Which mount holds a path, and which kinds of file system are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.store.filesystem import filesystem_type, is_network_filesystem, refuse_network_filesystem

TABLE = "\n".join(
    [
        "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
        "21 20 0:50 / /home rw shared:2 master:3 - nfs4 server:/home rw",
        r"22 21 0:51 / /home/my\040disk rw - xfs /dev/sdb rw",
        "23 20 0:52 / /mnt rw - ext4 /dev/sdc rw",
        "24 23 0:53 / /mnt rw - fuse.sshfs user@host: rw",
        "a line that is none",
    ]
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home/me/.harness", "nfs4"),
        ("/homework", "ext4"),
        ("/home/my disk/db", "xfs"),
        ("/mnt/db", "fuse.sshfs"),
    ],
)
def test_innermost_and_topmost_mount_counts(path: str, kind: str) -> None:
    assert filesystem_type(Path(path), TABLE) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "fuse.sshfs", "ceph", "fuse.s3fs"])
def test_network_kinds(kind: str) -> None:
    assert is_network_filesystem(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuse.fuse-overlayfs", ""])
def test_local_kinds(kind: str) -> None:
    assert not is_network_filesystem(kind)


def test_this_machine_is_local(tmp_path: Path) -> None:
    refuse_network_filesystem(tmp_path)

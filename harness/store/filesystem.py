"""Refuses file systems on which SQLite's write-ahead log and locks do not hold."""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import PrerequisiteError

MOUNT_TABLE = Path("/proc/self/mountinfo")
# Shared over a network, or through a FUSE/9p bridge: no coherent shared memory, unreliable locks (sqlite.org/wal.html).
NETWORK_TYPES = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smbfs"}
    | {"ocfs2", "orangefs", "smb3"}
)
NETWORK_FUSE = frozenset(
    {"beegfs", "ceph", "gcsfuse", "glusterfs", "goofys", "juicefs", "mfs", "rclone", "s3fs", "sshfs"}
)


def _unescaped(field: str) -> str:
    """A mountinfo field with its octal escapes (blank, tab, newline, backslash) undone."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def filesystem_type(path: Path, mountinfo: str) -> str:
    """Type of the file system that holds the absolute `path`, by the text of a mountinfo table; `""` if unknown."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        mount, separator, source = line.partition(" - ")
        fields = mount.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(_unescaped(fields[4]))
        # Of two mounts on one point the later one is on top.
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), source.split(" ", 1)[0]
    return found


def is_network_filesystem(kind: str) -> bool:
    """Whether this file system type is shared between machines."""
    return kind in NETWORK_TYPES or (kind.startswith("fuse.") and kind.removeprefix("fuse.") in NETWORK_FUSE)


def refuse_network_filesystem(folder: Path) -> None:
    """Does nothing where SQLite is safe in `folder`.

    Raises:
        PrerequisiteError: it lies on a network file system.
    """
    try:
        table = MOUNT_TABLE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    kind = filesystem_type(folder.resolve(), table)
    if is_network_filesystem(kind):
        raise PrerequisiteError(
            f"the database folder {folder} is on a network file system ({kind}), where SQLite loses writes",
            "Set HARNESS_HOME to a folder on a local disk; `harness import` brings finished runs elsewhere.",
        )

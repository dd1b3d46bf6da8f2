"""What is mounted on this host, and which directories may be bound into a container."""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import PrerequisiteError

_MOUNTINFO = Path("/proc/self/mountinfo")


def _unescape(text: str) -> str:
    """A mountinfo path: blanks, tabs, newlines and backslashes are octal escapes in it."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_points() -> list[Path]:
    """Every mount point of this process's mount namespace, oldest first; twice where one is stacked on another."""
    return [Path(_unescape(line.split()[4])) for line in _MOUNTINFO.read_text().splitlines()]


def is_mounted(path: Path) -> bool:
    """Whether something is mounted exactly on `path` (a link-free path)."""
    return path in mount_points()


def bind_source(path: Path) -> Path:
    """`path` resolved, when it is fit to be bound into a container.

    Raises:
        PrerequisiteError: it is missing or a link, or something is mounted below it: a read-only bind is not recursive
            before Engine 25, so that what is mounted below it would be writable.
    """
    if path.is_symlink() or not path.exists():
        kind = "is a symbolic link" if path.is_symlink() else "does not exist"
        raise PrerequisiteError(f"{path} cannot be mounted into a container: it {kind}", "Give the real path.")
    source = path.resolve()
    below = [mount for mount in mount_points() if mount != source and mount.is_relative_to(source)]
    if below:
        raise PrerequisiteError(
            f"{source} cannot be mounted into a container: {below[0]} is mounted below it",
            f"Unmount {below[0]}, or keep the folder elsewhere.",
        )
    return source

"""Who drives a run: a lock on its folder that goes with its holder, however that ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import UsageError
from harness.home import RunFolder

LOCK_FILE = ".lock"


@contextmanager
def held(folder: RunFolder) -> Iterator[None]:
    """Only one process drives a run.

    Raises:
        UsageError: another process drives it.
    """
    with (folder.path / LOCK_FILE).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"run {folder.path.name} is driven by another process",
                f"Watch it with `harness logs --follow {folder.path.name}`, or stop it with `harness stop`.",
            ) from error
        yield


def is_held(folder: RunFolder) -> bool:
    """Whether some process drives the run now."""
    if not (folder.path / LOCK_FILE).is_file():
        return False
    try:
        with held(folder):
            return False
    except UsageError:
        return True

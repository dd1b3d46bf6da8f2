"""Who drives a run: a lock on its folder that goes with its holder, however that ends."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from harness.errors import UsageError
from harness.home import RunFolder

LOCK_FILE = ".lock"
# Somebody who only looks whether the run is held has the lock for a moment.
TRIES, PAUSE_S = 20, 0.02


@contextmanager
def held(folder: RunFolder) -> Iterator[None]:
    """Only one process drives a run.

    Raises:
        UsageError: another process drives it.
    """
    with (folder.path / LOCK_FILE).open("a") as lock:
        for _ in range(TRIES):
            if _is_taken(lock):
                break
            time.sleep(PAUSE_S)
        else:
            raise UsageError(
                f"run {folder.path.name} is driven by another process",
                f"Watch it with `harness logs --follow {folder.path.name}`, or stop it with `harness stop`.",
            )
        yield


def _is_taken(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(folder: RunFolder) -> bool:
    """Whether some process drives the run now."""
    if not (folder.path / LOCK_FILE).is_file():
        return False
    with (folder.path / LOCK_FILE).open("a") as lock:
        return not _is_taken(lock)

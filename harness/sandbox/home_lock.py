"""One process at a time for what a home has once: its services, its way out."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from harness.home import Home


@contextmanager
def alone(home: Home) -> Iterator[None]:
    """Waits for its turn. Two that begin at once would make two networks of one name: Docker then finds neither."""
    folder = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)

"""Files of a run's folder as a reader opens them: never through a link, never blocked by a FIFO."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO | None]:
    """The regular file at `path`; None if there is none: a folder that was imported may hold anything."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield None
        return
    with os.fdopen(descriptor, "rb") as file:
        yield file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None

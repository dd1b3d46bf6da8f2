"""A regular file that somebody hostile may have put there: never opened through a link, never blocked by a FIFO."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def opened(path: Path | str, folder: int | None = None) -> Iterator[BinaryIO | None]:
    """The regular file at `path`, below the open `folder` if one is given; None where there is none (any more)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        yield None
        return
    with os.fdopen(descriptor, "rb") as file:
        yield file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None

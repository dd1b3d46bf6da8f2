"""Folders that last no longer than a check."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.runner.resources import remove_read_only

PREFIX = "check-"


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """An empty private folder below `parent`, removed afterwards with all that was frozen in it."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        yield folder
    finally:
        remove_read_only(folder)

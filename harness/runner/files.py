"""Small files that a death of their writer must not leave half written."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Written beside `path` and put there in one rename: a reader sees the old or the new one."""
    stage = path.with_name(f".{path.name}.part")
    stage.unlink(missing_ok=True)
    with os.fdopen(os.open(stage, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
    stage.replace(path)

"""The database as the command line sees it: read-only, also when nothing is running."""

from __future__ import annotations

from harness.cli.selection import choose
from harness.home import Home


def run_id_of(home: Home, name: str) -> str:
    """The run that `name` means, of those that have rows or a folder in this home."""
    folders = [path.name for path in home.runs.iterdir() if path.is_dir()] if home.runs.is_dir() else []
    return choose(name, folders)

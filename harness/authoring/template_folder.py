"""A new benchmark folder that passes the contract suite as it is, to be changed piece by piece."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from harness.domain.specs import NAME_PATTERN
from harness.errors import PrerequisiteError, UsageError

TEMPLATE = Path("benchmarks") / "_template"
PLACE = "NAME"
NAMED_FILES = ("config.yaml", "description.md")


def free_folder(parent: Path, name: str) -> Path:
    """Where a new benchmark goes; it does not exist yet.

    Raises:
        UsageError: the name cannot be one, or something is there.
    """
    if re.fullmatch(NAME_PATTERN, name) is None or name[0] in "_.":
        raise UsageError(f"{name!r} cannot be a benchmark's name", "Use small letters, digits, dots, dashes.")
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is there already", "Take another name, or remove it yourself.")
    return folder


def write_template(root: Path, folder: Path) -> tuple[Path, ...]:
    """Fills the new folder from the checkout's template; returns its files.

    Raises:
        PrerequisiteError: `root` is no checkout.
    """
    if not (root / TEMPLATE).is_dir():
        raise PrerequisiteError(f"no {root / TEMPLATE}", "Run in the checkout, or point HARNESS_ROOT at it.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(root / TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in NAMED_FILES:
        path = folder / file
        path.write_text(path.read_text(encoding="utf-8").replace(PLACE, folder.name), encoding="utf-8")
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))

"""A new benchmark or agent folder that passes its contract suite as it is, to be changed piece by piece."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.domain.specs import NAME_PATTERN
from harness.errors import PrerequisiteError, UsageError

# Below the checkout.
BENCHMARK_TEMPLATE = Path("benchmarks") / "_template"
AGENT_TEMPLATES = Path("agents") / "_template"
NAME_PLACE, LLM_PLACE = "NAME", "LLM_PROTOCOL"
# Of a template, the files that have places to be filled.
NAMED_FILES = ("config.yaml", "description.md")


def free_folder(parent: Path, name: str) -> Path:
    """Where a new folder goes; it does not exist yet.

    Raises:
        UsageError: the name cannot be one, or something is there.
    """
    if re.fullmatch(NAME_PATTERN, name) is None or name[0] in "_.":
        raise UsageError(f"{name!r} cannot be a folder's name", "Use small letters, digits, dots, dashes.")
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is there already", "Take another name, or remove it yourself.")
    return folder


def write_benchmark(root: Path, folder: Path) -> tuple[Path, ...]:
    """Fills the new folder from the checkout's template; returns its files.

    Raises:
        PrerequisiteError: `root` is no checkout.
    """
    return _write((root / BENCHMARK_TEMPLATE,), folder, {NAME_PLACE: folder.name})


def write_agent(root: Path, folder: Path, protocol: str) -> tuple[Path, ...]:
    """Fills the new folder with an agent that trains by itself (`none`), or with one that an LLM of `protocol` drives.

    Raises:
        PrerequisiteError: `root` is no checkout.
    """
    templates = root / AGENT_TEMPLATES
    parts = ("trainer",) if protocol == "none" else ("llm", f"llm-{protocol}")
    return _write(tuple(templates / part for part in parts), folder, {NAME_PLACE: folder.name, LLM_PLACE: protocol})


def _write(templates: tuple[Path, ...], folder: Path, places: Mapping[str, str]) -> tuple[Path, ...]:
    """The files of all templates in one folder, places filled."""
    for template in templates:
        if not template.is_dir():
            raise PrerequisiteError(f"no {template}", "Run in the checkout, or point HARNESS_ROOT at it.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    for template in templates:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for path in (folder / name for name in NAMED_FILES if (folder / name).is_file()):
        text = path.read_text(encoding="utf-8")
        for place, value in places.items():
            text = text.replace(place, value)
        path.write_text(text, encoding="utf-8")
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))

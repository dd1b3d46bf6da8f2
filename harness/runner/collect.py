"""What is kept of a workspace after a run: the agent's logs, and other regular files, each up to a cap of their own."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from harness.domain.admin import ArtifactIn
from harness.home import RunFolder
from harness.regular_file import opened
from harness.runner.hostile_tree import HostileTree, matches
from harness.runner.prompts import DESCRIPTION_NAME, INSTRUCTIONS_NAME
from harness.runner.workspace import RUN_META
from harness.sandbox.agent import CONTINUE_NAME, PROMPT_NAME

CHUNK = 2**20
# Weights are in the snapshot store if they were submitted; caches and links to read-only mounts are not the agent's.
SKIPPED_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
SKIPPED_TOP = (
    "models",
    "data",
    PROMPT_NAME,
    CONTINUE_NAME,
    DESCRIPTION_NAME,
    INSTRUCTIONS_NAME,
    RUN_META,
    ".home",
)


@dataclass(frozen=True)
class Caps:
    """How much is kept; of a longer file nothing, or its end."""

    file_bytes: int
    total_bytes: int
    files: int
    is_end_kept: bool = False


WORKSPACE_CAPS = Caps(10 * 2**20, 200 * 2**20, 10_000)
# The end of a log says how it came out, and has its sums.
NATIVE_CAPS = Caps(64 * 2**20, 256 * 2**20, 5_000, is_end_kept=True)


@dataclass
class Kept:
    """What was kept, and how much was left out."""

    artifacts: list[ArtifactIn] = field(default_factory=list)
    total_bytes: int = 0
    left_out: int = 0


def collect(folder: RunFolder, trajectory: str | None) -> Kept:
    """Keeps what is worth keeping of a run's workspace; `trajectory` is the pattern of the agent's own logs.

    The agent's container must be gone. What is kept as a log is not kept with the other files.
    """
    kept = collect_workspace(folder.workspace, folder.collected, without=trajectory)
    if trajectory is not None:
        logs = collect_native(folder.workspace, folder.native_logs, trajectory)
        kept.artifacts += logs.artifacts
        kept.left_out += logs.left_out
    return kept


def collect_workspace(workspace: Path, target: Path, without: str | None = None) -> Kept:
    """Copies what is worth keeping of `workspace` to `target`, without the logs that fit the pattern `without`."""

    def is_wanted(path: Path, is_folder: bool) -> bool:
        is_log = without is not None and not is_folder and matches(path, without)
        return str(path) not in SKIPPED_TOP and not is_log

    return _collected(HostileTree(workspace, is_wanted), target, Path(target.name), WORKSPACE_CAPS)


def collect_native(workspace: Path, target: Path, pattern: str) -> Kept:
    """Copies the logs that fit `pattern` to `target`, as they are."""
    tree = HostileTree(workspace, lambda path, is_folder: matches(path, pattern, is_folder=is_folder))
    return _collected(tree, target, Path(target.parent.name, target.name), NATIVE_CAPS)


def _collected(tree: HostileTree, target: Path, name: Path, caps: Caps) -> Kept:
    """Copies the tree's files to `target`, which the record calls `name`."""
    kept = Kept()
    # Of a run that was stopped and resumed: a name may be a file now and a folder then.
    shutil.rmtree(target, ignore_errors=True)
    for directory, relative in tree.files():
        if relative.name.endswith(SKIPPED_SUFFIXES) or not _keep(directory, relative, target, name, kept, caps):
            kept.left_out += 1
    kept.left_out += tree.left_out
    return kept


def _keep(directory: int, relative: Path, target: Path, name: Path, kept: Kept, caps: Caps) -> bool:
    with opened(relative.name, directory) as reader:
        if reader is None:
            return False
        size = os.fstat(reader.fileno()).st_size
        limit = min(size, caps.file_bytes) if caps.is_end_kept else size
        has_room = kept.total_bytes + limit <= caps.total_bytes and len(kept.artifacts) < caps.files
        if limit > caps.file_bytes or not has_room:
            return False
        reader.seek(size - limit)
        try:
            digest, copied = _copied(reader, limit, target / relative)
        except OSError:
            # A path longer than the host allows, or its disk is full: a record with less is better than none.
            with suppress(OSError):
                (target / relative).unlink()
            return False
    kept.artifacts.append(ArtifactIn(path=str(name / relative), size_bytes=copied, sha256=digest))
    kept.total_bytes += copied
    return True


def _copied(reader: BinaryIO, limit: int, copy: Path) -> tuple[str, int]:
    """Digest and size of what was copied, at most `limit` bytes."""
    digest, size = hashlib.sha256(), 0
    copy.parent.mkdir(parents=True, exist_ok=True)
    with copy.open("wb") as writer:
        while chunk := reader.read(min(CHUNK, limit - size)):
            writer.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size

"""What is kept of a workspace after a run: regular files up to a cap, never through a link."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from harness.domain.admin import ArtifactIn

MAX_FILE_BYTES = 10 * 2**20
MAX_TOTAL_BYTES = 200 * 2**20
MAX_FILES = 10_000
MAX_ENTRIES = 200_000
# Names are the agent's cheapest good: a folder of links can have more of them than the host has memory.
MAX_PER_FOLDER = 20_000
MAX_DEPTH = 32
CHUNK = 2**20
# Weights are in the snapshot store if they were submitted; caches and links to read-only mounts are not the agent's.
SKIPPED_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
SKIPPED_TOP = ("models", "data", "description.md", "instructions.md", "run_meta.json", ".home")


@dataclass
class Kept:
    """What was kept, and how much was left out."""

    artifacts: list[ArtifactIn] = field(default_factory=list)
    total_bytes: int = 0
    left_out: int = 0

    def has_room(self, size: int) -> bool:
        return size <= MAX_FILE_BYTES and self.total_bytes + size <= MAX_TOTAL_BYTES and len(self.artifacts) < MAX_FILES


def collect_workspace(workspace: Path, target: Path) -> Kept:
    """Copies what is worth keeping of `workspace` to `target`; the agent's container must be gone.

    Every name below `workspace` is the agent's: each is opened relative to its directory's descriptor, without
    following links and without blocking on a FIFO.
    """
    kept = Kept()
    # Of a run that was stopped and resumed: a name may be a file now and a folder then.
    shutil.rmtree(target, ignore_errors=True)
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        budget = iter(range(MAX_ENTRIES))
        for directory, relative, name in _files(root, Path(), budget, kept):
            if name.endswith(SKIPPED_SUFFIXES):
                kept.left_out += 1
                continue
            _keep(directory, relative / name, target, kept)
    finally:
        os.close(root)
    return kept


def _files(directory: int, relative: Path, budget: Iterator[int], kept: Kept) -> Iterator[tuple[int, Path, str]]:
    for name in _names(directory, kept):
        if next(budget, None) is None:
            kept.left_out += 1
            return
        if relative == Path() and name in SKIPPED_TOP:
            continue
        try:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        except OSError:
            kept.left_out += 1
            continue
        if stat.S_ISREG(mode) and _is_plain(name):
            yield directory, relative, name
        elif stat.S_ISDIR(mode) and _is_plain(name) and len(relative.parts) < MAX_DEPTH:
            yield from _below(directory, relative / name, name, budget, kept)
        else:
            kept.left_out += 1


def _names(directory: int, kept: Kept) -> list[str]:
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in islice(entries, MAX_PER_FOLDER + 1))
    if len(names) > MAX_PER_FOLDER:
        kept.left_out += 1
    return names[:MAX_PER_FOLDER]


def _below(
    directory: int, relative: Path, name: str, budget: Iterator[int], kept: Kept
) -> Iterator[tuple[int, Path, str]]:
    try:
        child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except OSError:
        kept.left_out += 1
        return
    try:
        yield from _files(child, relative, budget, kept)
    finally:
        os.close(child)


def _keep(directory: int, relative: Path, target: Path, kept: Kept) -> None:
    try:
        source = os.open(relative.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError:
        kept.left_out += 1
        return
    with os.fdopen(source, "rb") as reader:
        info = os.fstat(reader.fileno())
        if not stat.S_ISREG(info.st_mode) or not kept.has_room(info.st_size):
            kept.left_out += 1
            return
        try:
            digest, size = _copied(reader, info.st_size, target / relative)
        except OSError:
            # A path longer than the host allows, or its disk is full: a record with less is better than none.
            with suppress(OSError):
                (target / relative).unlink()
            kept.left_out += 1
            return
    kept.artifacts.append(ArtifactIn(path=str(Path(target.name) / relative), size_bytes=size, sha256=digest))
    kept.total_bytes += size


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


def _is_plain(name: str) -> bool:
    """Whether a name can be written anywhere and printed safely."""
    return name.isprintable() and "\\" not in name and len(name.encode(errors="replace")) <= 255

"""The resource store: base models and data are fetched once, verified, and read-only from then on."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import PrerequisiteError, UsageError
from harness.runner.meter import Count

READ_ONLY_FILE, READ_ONLY_DIR = 0o444, 0o555
COPY_BYTES = 4 * 2**20
Say = Callable[[str], None]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process prepares below `folder` at a time; the lock goes with its holder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """An empty folder that becomes `target` in one rename if the block succeeds, and is removed if not.

    What a process that died in such a block left is removed too: the caller holds the lock.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".{target.name}.*"):
        remove_read_only(left)
    stage = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield stage
        stage.rename(target)
    except BaseException:
        remove_read_only(stage)
        raise


def remove_read_only(folder: Path) -> None:
    """Removes a folder that may have been frozen."""
    for root, _, _ in os.walk(folder):
        Path(root).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def copy_folder(source: Path, target: Path, count: Count = lambda n_bytes: None) -> None:
    """Copies regular files and folders, links resolved (a hub cache is made of them); bytes are told to `count`.

    A link out of the folder is refused: an agent may have written it, and whoever gets the copy would read the target.

    Raises:
        UsageError: `source` holds something else than files and folders.
        PrerequisiteError: the disk is full.
    """
    try:
        for path in sorted(source.rglob("*")):
            if path.name.startswith(".") or "__pycache__" in path.parts:
                continue
            if path.is_symlink() and not _stays_inside(path, source.resolve()):
                raise UsageError(f"{path} is a link to something outside of {source}", "Put the file itself there.")
            copy = target / path.relative_to(source)
            if path.is_dir():
                copy.mkdir(parents=True, exist_ok=True)
            elif path.is_file():
                copy.parent.mkdir(parents=True, exist_ok=True)
                _copy_file(path, copy, count)
            else:
                raise UsageError(f"{path} is neither a file nor a folder", "Remove it, or name another folder.")
    except OSError as error:
        raise PrerequisiteError(f"could not copy {source}: {error}", "Free disk space under the home.") from error


def _stays_inside(link: Path, folder: Path) -> bool:
    """Whether a link leads to what lies in its folder, or to a blob of the hub cache that its folder belongs to."""
    blobs = [folder.parents[1] / "blobs"] if folder.parent.name == "snapshots" else []
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return any(target.is_relative_to(root) for root in [folder, *blobs])


def _copy_file(source: Path, target: Path, count: Count) -> None:
    with source.open("rb") as reading, target.open("wb") as writing:
        while chunk := reading.read(COPY_BYTES):
            writing.write(chunk)
            count(len(chunk))


def freeze(folder: Path) -> None:
    """Takes every write bit below and including `folder`."""
    for root, folders, files in os.walk(folder):
        for name in files:
            (Path(root) / name).chmod(READ_ONLY_FILE)
        for name in folders:
            (Path(root) / name).chmod(READ_ONLY_DIR)
    folder.chmod(READ_ONLY_DIR)


def folder_size(folder: Path) -> int:
    """Bytes of the regular files below `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

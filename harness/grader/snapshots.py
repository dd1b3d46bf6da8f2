"""The snapshot store: immutable model folders under their content's name; a snapshot is there in whole or not at all.

A stage is a hidden folder beside the snapshots. It is written, synced and renamed, so a crash leaves only stages, and
`clean` removes those whose writer is gone: a living writer holds a lock on its stage, which the kernel drops with it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import OverQuota, Unready

STAGE_PREFIX = ".stage-"
FILE_MODE = 0o644
FOLDER_MODE = 0o755
# The kernel looks for one free piece of memory per write: writes of 4 MB waited for it, at less than half the speed.
WRITE_BYTES = 256 * 2**10
# Left free on the store's file system: the database and the logs need room too.
RESERVED_BYTES = 64 * 2**20
RETRY_AFTER_S = 60.0
ALREADY_THERE = (errno.EEXIST, errno.ENOTEMPTY)
POLL_S = 0.05


@dataclass(frozen=True)
class Allowance:
    """What a run may have in the store: `held` names what it has there, `limit_bytes` is for all of it together."""

    held: frozenset[str]
    limit_bytes: int


class StageFile:
    """A file of a stage while it is written."""

    def __init__(self, file_fd: int) -> None:
        self._fd = file_fd

    def write(self, data: bytes | memoryview) -> None:
        """Writes all of `data`.

        Raises:
            Unready: the disk is full or broken.
        """
        view = memoryview(data)
        with _grader_trouble():
            while view:
                view = view[os.write(self._fd, view[:WRITE_BYTES]) :]


class Stage:
    """A folder that becomes a snapshot by `commit`, or nothing."""

    def __init__(self, path: Path, root: Path, allowance: Allowance | None = None) -> None:
        self.path = path
        self._root = root
        self._allowance = allowance

    @contextmanager
    def file(self, name: str) -> Iterator[StageFile]:
        """A new file, synced and readable by every uid at the end.

        Raises:
            Unready: the disk is full or broken.
        """
        with _grader_trouble():
            file_fd = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            yield StageFile(file_fd)
            with _grader_trouble():
                os.fchmod(file_fd, FILE_MODE)
                os.fsync(file_fd)
        finally:
            os.close(file_fd)

    def commit(self, key: str) -> Path:
        """Makes the stage the snapshot `key`; where that is there already, the stage is dropped and nothing changes.

        Raises:
            OverQuota: the run may not have so much in the store.
            Unready: the disk is full or broken.
        """
        target = self._root / key
        with _grader_trouble():
            self._check_allowance(key)
            self.path.chmod(FOLDER_MODE)
            _sync_folder(self.path)
            try:
                # Atomic, and refused by the kernel if the target has files: the first of two writers wins.
                self.path.rename(target)
            except OSError as error:
                if error.errno not in ALREADY_THERE:
                    raise
            _sync_folder(self._root)
        return target

    def _check_allowance(self, key: str) -> None:
        """Counts a snapshot that another run has stored too: nobody is told that somebody handed in the same."""
        if self._allowance is None or key in self._allowance.held:
            return
        limit = self._allowance.limit_bytes
        used, more = sum(stored_bytes(self._root / held) for held in self._allowance.held), stored_bytes(self.path)
        if used + more > limit:
            raise OverQuota(
                f"the checkpoints of this run that are kept have {used / 1e6:.0f} MB, this one {more / 1e6:.0f} MB; "
                f"{limit / 1e6:.0f} MB in all is the limit",
                "What is scored stays scored. Save in the base model's own type, which takes less than F32.",
            )


class SnapshotStore:
    """Snapshots below `root`, one folder each; `allowance` is that of the run which adds to it."""

    def __init__(self, root: Path, allowance: Allowance | None = None) -> None:
        self.root = root
        self._allowance = allowance

    def path_of(self, key: str) -> Path:
        """Where the snapshot `key` is, or would be."""
        return self.root / key

    def has(self, key: str) -> bool:
        return self.path_of(key).is_dir()

    @contextmanager
    def stage(self, size_bytes: int) -> Iterator[Stage]:
        """A stage with room for `size_bytes`; gone at the end unless it was committed.

        Raises:
            Unready: no room, or the disk is broken.
        """
        with _grader_trouble():
            room = os.statvfs(self.root)
            if room.f_bavail * room.f_frsize < size_bytes + RESERVED_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            path = self.root / f"{STAGE_PREFIX}{secrets.token_hex(8)}"
            path.mkdir(mode=0o700)
        try:
            with _locked(path):
                yield Stage(path, self.root, self._allowance)
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def clean(self) -> int:
        """Removes the stages that a crash left; returns how many. Called when the grader starts."""
        removed = 0
        for path in self.root.glob(f"{STAGE_PREFIX}*"):
            # A stage that is gone by now was committed or dropped by its writer.
            with suppress(Unready), _locked(path) as is_free:
                if is_free:
                    shutil.rmtree(path, ignore_errors=True)
                    removed += 1
        return removed

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Nothing is collected meanwhile: a snapshot that is found here stays until its submission is recorded.

        Raises:
            Unready: the disk is broken.
        """
        with _grader_trouble():
            folder_fd = _opened(self.root)
        try:
            fcntl.flock(folder_fd, fcntl.LOCK_SH)
            yield
        finally:
            os.close(folder_fd)

    @contextmanager
    def collecting(self, timeout_s: float) -> Iterator[None]:
        """Nothing is added meanwhile.

        Raises:
            Unready: a checkpoint is being added, for all of that time.
        """
        deadline = time.monotonic() + timeout_s
        folder_fd = _opened(self.root)
        try:
            while not _try_lock(folder_fd):
                if time.monotonic() > deadline:
                    raise Unready("a checkpoint is being handed in", "Try again when it was admitted.")
                time.sleep(POLL_S)
            yield
        finally:
            os.close(folder_fd)

    def all_keys(self) -> tuple[str, ...]:
        """The names of all snapshots."""
        return tuple(sorted(path.name for path in self.root.iterdir() if not path.name.startswith(".")))

    def remove(self, keys: Iterable[str]) -> int:
        """Removes snapshots; returns how many. Call it inside `collecting`. What is cut off is cleaned at a start."""
        removed = 0
        for key in keys:
            doomed = self.root / f"{STAGE_PREFIX}{secrets.token_hex(8)}"
            with suppress(FileNotFoundError):
                # In one step: a snapshot is there in whole or not at all.
                (self.root / key).rename(doomed)
                shutil.rmtree(doomed)
                removed += 1
        return removed


def stored_bytes(folder: Path) -> int:
    """What the files of a snapshot take; 0 if it is gone."""
    with suppress(FileNotFoundError):
        return sum(path.stat().st_size for path in folder.iterdir())
    return 0


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Holds the lock of a stage; yields False where a living writer holds it."""
    with _grader_trouble():
        folder_fd = _opened(path)
    try:
        yield _try_lock(folder_fd)
    finally:
        os.close(folder_fd)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _try_lock(folder_fd: int) -> bool:
    try:
        fcntl.flock(folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _grader_trouble() -> Iterator[None]:
    """Turns an error of the store's file system into a 503: it is never the agent's doing."""
    try:
        yield
    except OSError as error:
        raise Unready(
            f"the grader cannot store the checkpoint: {error.strerror}",
            "Nothing is wrong with it: submit again later.",
            retry_after_s=RETRY_AFTER_S,
        ) from error


def _sync_folder(path: Path) -> None:
    folder_fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)

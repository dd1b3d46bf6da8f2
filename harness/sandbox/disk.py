"""One size limit over all that an agent can write: a file system of its own (`loop`), or a watched folder (`watch`)."""

from __future__ import annotations

import errno
import os
import shutil
import time
from enum import StrEnum
from itertools import islice
from pathlib import Path

from harness.domain.base import Frozen
from harness.errors import InfrastructureError, PrerequisiteError
from harness.home import RunFolder
from harness.sandbox.mounts import is_mounted
from harness.sandbox.process import run_process
from harness.settings import Settings

_PROGRAMS = ("mkfs.ext4", "e2fsck", "mount", "umount", "losetup", "fallocate")
_CAP_SYS_ADMIN = 21
_MEGABYTE = 1_000_000
# What a quota leaves free on the host's disk: logs, the database and snapshots live there too.
_HOST_RESERVE_MB = 512
# A file system with less left than this counts as full: a write of any checkpoint has failed.
_FULL_MARGIN = 4 * 1024 * 1024
_UMOUNT_TRIES = 5
# A watched workspace with so many files and folders counts as full.
_MAX_ENTRIES = 500_000
# A container that was just removed, or is just being made, may hold the device a moment longer.
_DEVICE_GONE_S = 3.0


class QuotaMode(StrEnum):
    """How the size limit is held. `loop` is exact; `watch` looks every few seconds and ends the run."""

    LOOP = "loop"
    WATCH = "watch"


class DiskUsage(Frozen):
    """What an agent has written, and whether that is all it may."""

    used_bytes: int
    limit_bytes: int
    is_full: bool


def choose_mode(settings: Settings) -> QuotaMode:
    """The strongest mode that this machine allows, or the one that the settings ask for.

    Raises:
        PrerequisiteError: `loop` is asked for and cannot work here.
    """
    lacking = _lacking_for_loop()
    if settings.quota == "loop" and lacking:
        raise PrerequisiteError(f"HARNESS_QUOTA=loop cannot work here: {lacking}", "Set HARNESS_QUOTA=auto.")
    if settings.quota == "watch" or lacking:
        return QuotaMode.WATCH
    return QuotaMode.LOOP


def _lacking_for_loop() -> str:
    effective = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    if os.geteuid() != 0 or not int(effective.split()[1], 16) >> _CAP_SYS_ADMIN & 1:
        return "mounting needs root"
    if not Path("/dev/loop-control").exists():
        return "the kernel has no loop devices"
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    return f"{', '.join(missing)} not installed" if missing else ""


class Quota(Frozen):
    """The size-limited place of one run: `workspace/` and `tmp/` of its folder, owned by the agent's user."""

    mode: QuotaMode
    folder: Path
    size_mb: int
    uid: int
    gid: int

    @property
    def run_folder(self) -> RunFolder:
        return RunFolder(self.folder)

    @property
    def limit_bytes(self) -> int:
        return self.size_mb * _MEGABYTE

    def create(self) -> None:
        """Makes the place, empty, and attaches it.

        Raises:
            PrerequisiteError: the host's disk is too small.
            InfrastructureError: a program failed.
        """
        if self.mode is QuotaMode.LOOP:
            try:
                self._make_image()
                self._mount()
            except BaseException:
                self.remove()
                raise
        self._furnish()

    def _furnish(self) -> None:
        """The two folders; a death before they were made leaves a file system without them."""
        place = self.run_folder
        shutil.rmtree(place.filesystem / "lost+found", ignore_errors=True)
        for folder, mode in ((place.workspace, 0o755), (place.tmp, 0o1777)):
            if folder.is_dir():
                continue
            folder.mkdir(parents=True)
            if os.geteuid() == 0:
                os.chown(folder, self.uid, self.gid)
            folder.chmod(mode)

    def _make_image(self) -> None:
        """The image under its name only when it is whole: a death in the middle leaves none."""
        free_mb = shutil.disk_usage(self.folder).free // _MEGABYTE
        if free_mb < self.size_mb + _HOST_RESERVE_MB:
            raise PrerequisiteError(
                f"a workspace of {self.size_mb} MB does not fit: {self.folder} has {free_mb} MB free",
                f"Free disk space (`harness clean`), or allow less: `--disk-mb {max(1, free_mb - _HOST_RESERVE_MB)}`.",
            )
        stage = _unfinished(self.run_folder)
        _reserve(stage, self.limit_bytes)
        # nodiscard: mkfs would else punch the reserved blocks out of the file again.
        options = f"root_owner={self.uid}:{self.gid},lazy_itable_init=1,nodiscard"
        _must(
            ["mkfs.ext4", "-q", "-F", "-m", "0", "-i", "32768", "-O", "^has_journal", "-E", options, stage],
            "making the workspace",
        )
        stage.rename(self.run_folder.image)

    def _mount(self) -> None:
        self.run_folder.filesystem.mkdir(parents=True, exist_ok=True)
        target = self.run_folder.filesystem.resolve()
        _must(
            ["mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noinit_itable", self.run_folder.image, target],
            "mounting the workspace",
        )

    def attach(self) -> None:
        """Makes the place reachable again, after a reboot too; does nothing when it is.

        Raises:
            InfrastructureError: its image is gone or broken.
        """
        if self.mode is QuotaMode.LOOP and not is_mounted(self.run_folder.filesystem.resolve()):
            self._mount_again()
        self._furnish()

    def _mount_again(self) -> None:
        if not self.run_folder.image.exists():
            raise InfrastructureError(f"{self.run_folder.image} is gone", "The run's workspace cannot be brought back.")
        self._await_unused()
        # No journal: after a crash of the host the file system must be looked over before it is used.
        check = run_process(["e2fsck", "-p", self.run_folder.image], timeout_s=600)
        if check.exit_code >= 4:
            repair = run_process(["e2fsck", "-y", self.run_folder.image], timeout_s=600)
            if repair.exit_code >= 4:
                raise InfrastructureError(f"{self.run_folder.image} is broken: {repair.last_lines(3)}")
        self._mount()

    def _await_unused(self) -> None:
        """Waits for a lazy unmount's last user: an image that is mounted twice is destroyed."""
        image, deadline = self.run_folder.image.resolve(), time.monotonic() + _DEVICE_GONE_S
        while image in loop_devices().values():
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"{image} is still in use", "Something has a file of it open; see `losetup -j` and `fuser -vm`."
                )
            time.sleep(0.05)

    def usage(self) -> DiskUsage:
        """What is used now; in `watch` mode every file is looked at."""
        if self.mode is QuotaMode.WATCH:
            used, entries = folder_bytes(self.run_folder.filesystem)
            is_full = used >= self.limit_bytes or entries >= _MAX_ENTRIES
            return DiskUsage(used_bytes=used, limit_bytes=self.limit_bytes, is_full=is_full)
        state = os.statvfs(self.run_folder.filesystem)
        free = state.f_bavail * state.f_frsize
        return DiskUsage(
            used_bytes=state.f_blocks * state.f_frsize - free,
            limit_bytes=self.limit_bytes,
            is_full=free < _FULL_MARGIN or state.f_favail == 0,
        )

    def is_full(self) -> bool:
        """Whether the agent has used up its space."""
        return self.usage().is_full

    def detach(self) -> None:
        """Unmounts; what was written stays in the image. No loop device is left."""
        detach_filesystem(self.run_folder)

    def remove(self) -> None:
        """Detaches and deletes all of it; it may be gone already."""
        remove_filesystem(self.run_folder)


def _must(argv: list[str | Path], doing: str) -> None:
    result = run_process(argv, timeout_s=120)
    if not result.has_succeeded:
        raise InfrastructureError(f"{doing}: `{argv[0]}` failed: {result.last_lines(3)}")


def _reserve(path: Path, size: int) -> None:
    """A file of `size` bytes whose blocks are the host disk's own, so that the agent never meets a full host disk."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        result = run_process(["fallocate", "-l", str(size), path], timeout_s=120)
        if result.has_succeeded:
            return
        if os.strerror(errno.EOPNOTSUPP) in result.stderr:
            os.truncate(file.fileno(), size)  # Such a file system cannot reserve; the check of free space stands alone.
            return
    path.unlink(missing_ok=True)
    raise PrerequisiteError(
        f"cannot reserve {size // _MEGABYTE} MB for a workspace: {result.last_lines(1)}",
        "Free disk space (`harness clean`), or lower the run's disk limit.",
    )


def folder_bytes(folder: Path) -> tuple[int, int]:
    """Bytes on disk and number of entries below `folder`, no link followed, a file with several names counted once.

    Counting ends at `_MAX_ENTRIES`: empty files use no blocks, but they use inodes.
    """
    total, waiting = 0, [folder]
    seen: set[tuple[int, int]] = set()
    while waiting and len(seen) < _MAX_ENTRIES:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in islice(entries, _MAX_ENTRIES):
                    state = entry.stat(follow_symlinks=False)
                    if (state.st_dev, state.st_ino) in seen:
                        continue
                    seen.add((state.st_dev, state.st_ino))
                    total += state.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except OSError:
            continue  # The agent removes files while we count them.
    return total, len(seen)


def loop_devices() -> dict[str, Path]:
    """Loop device (`/dev/loopN`) -> the file behind it, for every one in use."""
    found = {}
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            text = entry.read_text().strip()
        except OSError:
            continue
        found[f"/dev/{entry.parts[3]}"] = Path(text.removesuffix(" (deleted)"))
    return found


def remove_filesystem(folder: RunFolder) -> None:
    """Detaches and deletes all that a run's agent could write; it may be gone already."""
    detach_filesystem(folder)
    for image in (folder.image, _unfinished(folder)):
        image.unlink(missing_ok=True)
    # Not rmtree: it recurses, and an agent's folders may be nested thousands deep.
    run_process(["rm", "-rf", "--one-file-system", "--", folder.filesystem], timeout_s=600)


def _unfinished(folder: RunFolder) -> Path:
    return folder.image.with_name(f"{folder.image.name}.part")


def detach_filesystem(folder: RunFolder) -> None:
    """Unmounts a run's file system, lazily if something still uses it, and frees its loop device; idempotent."""
    target = folder.filesystem.resolve()
    for attempt in range(_UMOUNT_TRIES):
        if not is_mounted(target):
            break
        lazy = ["-l"] if attempt == _UMOUNT_TRIES - 1 else []
        result = run_process(["umount", *lazy, target], timeout_s=60)
        if not result.has_succeeded and is_mounted(target):
            time.sleep(0.2 * (attempt + 1))
    if is_mounted(target):
        raise InfrastructureError(f"{target} cannot be unmounted", f"See what uses it: `fuser -vm {target}`.")
    image = folder.image.resolve()
    deadline = time.monotonic() + _DEVICE_GONE_S
    while devices := [device for device, file in loop_devices().items() if file == image]:
        # Left by a lazy unmount or a killed mount; -d on one in use frees it when its last user goes.
        for device in devices:
            run_process(["losetup", "-d", device], timeout_s=30)
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)

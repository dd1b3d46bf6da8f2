"""Opening what an agent names, below a directory descriptor and without following anything.

Every component is opened on its own with O_NOFOLLOW, so that no link leads out of the workspace; O_NONBLOCK keeps a
FIFO or a leased file from blocking the grader; a kind is looked at before a file is opened and again on the descriptor.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.domain.text import shown
from harness.errors import ErrorClass, Inadmissible, PathRefused, TooLarge, Unready

WORKSPACE = "workspace"
MAX_PATH_BYTES = 1024
MAX_COMPONENT_BYTES = 255
MAX_DEPTH = 16
OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
EXAMPLE = "Give a folder below /workspace, for example output/v1."
WAIT = "Wait until everything is written, then submit again."

# What open() says of a link, a folder, a socket, something that is gone, or a file under a lease. Anything else, such
# as no free descriptors, is the grader's own trouble.
NOT_THE_SAME = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ENOENT, errno.EAGAIN)
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A directory entry and what must not change while it is copied."""

    name: str
    mode: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def is_regular(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def kind(self) -> str:
        return kind_of(self.mode)


def kind_of(mode: int) -> str:
    """In words, what a file of this mode is."""
    return KINDS.get(stat.S_IFMT(mode), "a special file")


def parts_of(model_path: str) -> tuple[str, ...]:
    """The components of `model_path` below the workspace.

    Raises:
        PathRefused: outside the workspace, with `..`, too long or deep, not printable, or the workspace itself.
    """
    if not model_path or not model_path.isprintable():
        raise PathRefused("model_path is empty or not printable", EXAMPLE, error_class=ErrorClass.BAD_REQUEST)
    if len(model_path.encode()) > MAX_PATH_BYTES:
        raise PathRefused("model_path is too long", EXAMPLE, error_class=ErrorClass.BAD_REQUEST)
    parts = [part for part in model_path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathRefused(f"model_path {shown(model_path)} contains '..'", EXAMPLE)
    if model_path.startswith("/"):
        if parts[:1] != [WORKSPACE]:
            raise PathRefused(f"model_path {shown(model_path)} is outside /workspace", EXAMPLE)
        parts = parts[1:]
    if not parts:
        raise PathRefused("model_path is the workspace itself", EXAMPLE, error_class=ErrorClass.BAD_REQUEST)
    if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_COMPONENT_BYTES for part in parts):
        raise PathRefused(
            f"model_path {shown(model_path)} is too deep, or a name in it is too long",
            EXAMPLE,
            error_class=ErrorClass.BAD_REQUEST,
        )
    return tuple(parts)


@contextmanager
def opened_folder(workspace_fd: int, parts: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of the folder at `parts` below the workspace.

    Raises:
        PathRefused: it is not there, not a folder, or a link is on the way.
        Inadmissible: something else is put in its place meanwhile.
    """
    current = os.dup(workspace_fd)
    try:
        for depth, part in enumerate(parts, start=1):
            deeper = _open_component(current, part, "/".join(parts[:depth]))
            os.close(current)
            current = deeper
        yield current
    finally:
        os.close(current)


def entries_of(folder_fd: int, limit: int) -> tuple[Entry, ...]:
    """Every entry of a folder, sorted by name, links not followed.

    Raises:
        TooLarge: more than `limit` entries; no more than that are read.
        Inadmissible: an entry vanished while the folder was listed.
    """
    found: list[Entry] = []
    with os.scandir(folder_fd) as listing:
        for item in listing:
            if len(found) == limit:
                raise TooLarge(
                    f"the folder has more than {limit} entries", "Submit a folder with one checkpoint and nothing else."
                )
            try:
                found.append(_entry(item.name, item.stat(follow_symlinks=False)))
            except FileNotFoundError as error:
                raise changed(item.name, "vanished while the folder was listed") from error
    return tuple(sorted(found, key=lambda entry: os.fsencode(entry.name)))


@contextmanager
def opened_file(folder_fd: int, entry: Entry) -> Iterator[int]:
    """A descriptor of the regular file that `entry` describes, known to be still that very file.

    Raises:
        Inadmissible: it is another file now, has changed, or cannot be read.
    """
    try:
        file_fd = os.open(entry.name, OPEN_FLAGS, dir_fd=folder_fd)
    except PermissionError as error:
        raise Inadmissible(
            f"{shown(entry.name)} cannot be read",
            "Make it readable: chmod -R a+rX.",
            error_class=ErrorClass.BAD_REQUEST,
        ) from error
    except OSError as error:
        raise changed(
            entry.name, f"could not be opened as the file it was ({os.strerror(error.errno or 0)})"
        ) from error
    try:
        check_unchanged(file_fd, entry)
        yield file_fd
    finally:
        os.close(file_fd)


def check_unchanged(file_fd: int, entry: Entry) -> None:
    """Compares an open file with its listing.

    Raises:
        Inadmissible: kind, inode, size or times differ.
    """
    if _entry(entry.name, os.fstat(file_fd)) != entry:
        raise changed(entry.name, "changed while it was being copied")


def read_up_to(file_fd: int, limit: int) -> bytes:
    """The first `limit` bytes of a file, or all of a shorter one."""
    pieces: list[bytes] = []
    reached = 0
    while reached < limit:
        piece = read_at(file_fd, limit - reached, reached)
        if not piece:
            break
        pieces.append(piece)
        reached += len(piece)
    return b"".join(pieces)


def read_at(file_fd: int, count: int, offset: int) -> bytes:
    """One `pread`; an input/output error there is the grader's trouble, not the agent's.

    Raises:
        Unready: the file system failed.
    """
    try:
        return os.pread(file_fd, count, offset)
    except OSError as error:
        raise _unready(error) from error


def read_into(chunk: memoryview, file_fd: int, offset: int, entry: Entry) -> None:
    """Fills `chunk` from `offset` on.

    Raises:
        Inadmissible: the file ends before.
        Unready: the file system failed.
    """
    reached = 0
    while reached < len(chunk):
        try:
            count = os.preadv(file_fd, [chunk[reached:]], offset + reached)
        except OSError as error:
            raise _unready(error) from error
        if not count:
            raise changed(entry.name, "became shorter while it was being copied")
        reached += count


def changed(name: str, what: str) -> Inadmissible:
    """The refusal of a file that somebody is still writing."""
    return Inadmissible(f"{shown(name)} {what}", WAIT, error_class=ErrorClass.CHANGED_WHILE_COPIED)


def _open_component(folder_fd: int, part: str, path: str) -> int:
    try:
        return os.open(part, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=folder_fd)
    except FileNotFoundError as error:
        raise PathRefused(f"{shown(path)} does not exist", EXAMPLE, error_class=ErrorClass.BAD_REQUEST) from error
    except PermissionError as error:
        raise PathRefused(
            f"{shown(path)} cannot be read", "Make it readable: chmod -R a+rX.", error_class=ErrorClass.BAD_REQUEST
        ) from error
    except OSError as error:
        if error.errno not in NOT_THE_SAME:
            raise _unready(error) from error
        kind = _kind_at(folder_fd, part)
        if kind == KINDS[stat.S_IFDIR]:
            raise changed(path, "was being replaced while it was opened") from error
        raise PathRefused(
            f"{shown(path)} is {kind}, not a folder",
            "Submit a real folder, with the files themselves in it.",
            error_class=ErrorClass.NOT_A_REGULAR_FILE,
        ) from error


def _unready(error: OSError) -> Unready:
    return Unready(f"reading the workspace failed: {error.strerror}", "Nothing is wrong with it: submit again later.")


def _kind_at(folder_fd: int, part: str) -> str:
    try:
        return kind_of(os.stat(part, dir_fd=folder_fd, follow_symlinks=False).st_mode)
    except OSError:
        return "gone"


def _entry(name: str, status: os.stat_result) -> Entry:
    return Entry(name, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

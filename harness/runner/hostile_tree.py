"""The files below a folder that an agent wrote: each name is opened relative to its folder, never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

MAX_ENTRIES = 200_000
# Names are the agent's cheapest good: a folder of links can have more of them than the host has memory.
MAX_PER_FOLDER = 20_000
MAX_DEPTH = 32
ANY_FOLDERS = "**"


class HostileTree:
    """Regular files in the order of their names, one walk; `left_out` counts what was not gone into."""

    def __init__(self, root: Path, is_wanted: Callable[[Path, bool], bool]) -> None:
        """`is_wanted` is asked for each relative path, and whether it is a folder."""
        self._root = root
        self._is_wanted = is_wanted
        self._budget = iter(range(MAX_ENTRIES))
        self.left_out = 0

    def files(self) -> Iterator[tuple[int, Path]]:
        """Each file as its folder's descriptor, good until the next one, and its path relative to the root."""
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield from self._in(root, Path())
        finally:
            os.close(root)

    def _in(self, directory: int, here: Path) -> Iterator[tuple[int, Path]]:
        for name in self._names(directory):
            if next(self._budget, None) is None:
                self.left_out += 1
                return
            relative = here / name
            try:
                mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            except OSError:
                self.left_out += 1
                continue
            if not self._is_wanted(relative, stat.S_ISDIR(mode)):
                continue
            if stat.S_ISREG(mode) and _is_plain(name):
                yield directory, relative
            elif stat.S_ISDIR(mode) and _is_plain(name) and len(here.parts) < MAX_DEPTH:
                yield from self._below(directory, relative)
            else:
                self.left_out += 1

    def _names(self, directory: int) -> list[str]:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_PER_FOLDER + 1))
        if len(names) > MAX_PER_FOLDER:
            self.left_out += 1
        return names[:MAX_PER_FOLDER]

    def _below(self, directory: int, relative: Path) -> Iterator[tuple[int, Path]]:
        try:
            child = os.open(relative.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        except OSError:
            self.left_out += 1
            return
        try:
            yield from self._in(child, relative)
        finally:
            os.close(child)


def matches(path: Path, pattern: str, *, is_folder: bool = False) -> bool:
    """Whether a path fits a pattern, of which `**` is any folders; of a folder: whether something below it may."""
    return _fits(path.parts, Path(pattern).parts, is_folder)


def _fits(parts: tuple[str, ...], pattern: tuple[str, ...], is_folder: bool) -> bool:
    if not pattern:
        return not parts and not is_folder
    if pattern[0] == ANY_FOLDERS:
        return is_folder or any(_fits(parts[skipped:], pattern[1:], False) for skipped in range(len(parts) + 1))
    if not parts:
        return is_folder
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:], is_folder)


def _is_plain(name: str) -> bool:
    """Whether a name can be written anywhere and printed safely."""
    return name.isprintable() and "\\" not in name and len(name.encode(errors="replace")) <= 255

"""How far a long read, copy or download is, told while it goes on: bytes done, of bytes in all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

# Takes how many bytes were done since it was last called.
Count = Callable[[int], None]
# What is being done, and how many bytes there are of it.
Meter = Callable[[str, int], AbstractContextManager[Count]]
WATCH_EVERY_S = 0.5


@contextmanager
def unmetered(what: str, total_bytes: int) -> Iterator[Count]:
    """For nobody."""
    yield lambda count: None


@contextmanager
def watched(folder: Path, count: Count) -> Iterator[None]:
    """Counts what `folder` grows by while the block runs: a library fills it, whose own progress bars are its own."""
    is_over = threading.Event()
    before = size_of(folder)

    def watch() -> None:
        seen = before
        while not is_over.wait(WATCH_EVERY_S):
            now = size_of(folder)
            count(max(0, now - seen))
            seen = max(seen, now)

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def size_of(folder: Path) -> int:
    """Bytes of the regular files below `folder`; links are not followed, and files may vanish meanwhile."""
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            total += 0 if path.is_symlink() or not path.is_file() else path.stat().st_size
        except FileNotFoundError:
            continue
    return total

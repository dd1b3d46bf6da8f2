"""Files that change while the grader looks: a process of its own rewrites them until it is ended."""

import ctypes
import multiprocessing
import os
import struct
from collections.abc import Callable
from pathlib import Path

from checkpoints import OUTPUT, WEIGHTS, copy_of_base, read_weights, set_float, write_weights
from grader import Answer, submit, validate

IN_OPEN, IN_ACCESS = 0x20, 0x1
RENAME_EXCHANGE, AT_FDCWD = 2, -100
HIDDEN = "/var/lib/harness/eval/arithmetic/test.jsonl"
LIBC = ctypes.CDLL(None, use_errno=True)
Ask = Callable[[str], Answer]


def _race(name: str, change: Callable[[Path], None], asks: list[Ask]) -> Answer:
    """Asks while `change` runs over and over in another process."""
    folder = copy_of_base(OUTPUT / name)
    process = multiprocessing.get_context("fork").Process(target=_for_ever, args=(change, folder), daemon=True)
    process.start()
    try:
        answers = [ask(str(folder)) for ask in asks]
    finally:
        process.kill()
        process.join()
    return {"answers": {str(number): answer for number, answer in enumerate(answers)}}


def _for_ever(change: Callable[[Path], None], folder: Path) -> None:
    os.nice(1)
    while True:
        change(folder)


def rewritten_in_place(targets: Answer) -> Answer:
    """The same file, other numbers each time, as fast as it goes."""
    header, data = read_weights()
    changed = bytearray(data)
    for index in range(0, 8000, 16):
        set_float(header, changed, index, 0.5)
    begin = 8 + struct.unpack("<Q", Path(os.environ["MODEL_PATH"], WEIGHTS).read_bytes()[:8])[0]

    def change(folder: Path) -> None:
        with (folder / WEIGHTS).open("r+b") as file:
            for content in (changed, data):
                file.seek(begin)
                file.write(content)
                file.flush()

    return _race("rewritten_in_place", change, [submit] * 4 + [validate] * 2)


def flipped_to_nan(targets: Answer) -> Answer:
    """One number between finite and NaN, written through a mapping: the file's times need not change."""
    import mmap

    path_bytes = Path(os.environ["MODEL_PATH"], WEIGHTS).read_bytes()[:8]
    place = 8 + struct.unpack("<Q", path_bytes)[0] + 4 * 5

    def change(folder: Path) -> None:
        with (folder / WEIGHTS).open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            for _ in range(100_000):
                view[place : place + 4] = struct.pack("<f", float("nan"))
                view[place : place + 4] = struct.pack("<f", 0.25)

    return _race("flipped_to_nan", change, [submit] * 3)


def cut_and_grown(targets: Answer) -> Answer:
    def change(folder: Path) -> None:
        path = folder / WEIGHTS
        size = path.stat().st_size
        os.truncate(path, size // 2)
        os.truncate(path, size)

    return _race("cut_and_grown", change, [submit] * 2 + [validate])


def replaced_by_rename(targets: Answer) -> Answer:
    header, data = read_weights()

    def change(folder: Path) -> None:
        write_weights(folder, header, bytes(data), name=".next")
        (folder / ".next").rename(folder / WEIGHTS)

    return _race("replaced_by_rename", change, [submit] * 2 + [validate])


def swapped_when_opened(targets: Answer) -> Answer:
    """Waits for the grader's own open, and puts a link to hidden data in the file's place."""

    def change(folder: Path) -> None:
        watch = LIBC.inotify_init1(0)
        LIBC.inotify_add_watch(watch, os.fsencode(folder), IN_OPEN | IN_ACCESS)
        link = folder / ".link"
        link.symlink_to(HIDDEN)
        os.read(watch, 4096)
        exchange(link, folder / "config.json")
        os.read(watch, 4096)
        exchange(link, folder / "config.json")
        os.close(watch)
        link.unlink()

    return _race("swapped_when_opened", change, [validate] * 3)


def folder_swapped_for_link(targets: Answer) -> Answer:
    """The folder itself is by turns a folder and a link to `/`."""

    def change(folder: Path) -> None:
        link = folder.with_suffix(".link")
        if not link.is_symlink() and not link.exists():
            link.symlink_to("/")
        exchange(link, folder)

    return _race("folder_swapped_for_link", change, [submit] * 2 + [validate] * 3)


def leased_file(targets: Answer) -> Answer:
    """A lease makes the next open of the file wait for its holder, which never lets go."""
    import fcntl
    import signal

    path = copy_of_base(OUTPUT / "leased_file") / WEIGHTS
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    with path.open("r+b") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        return {"answers": {"leased": validate(str(path.parent))}}


def exchange(first: Path, second: Path) -> None:
    """Both names change places in one step."""
    LIBC.renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE)


RACES = (
    rewritten_in_place,
    flipped_to_nan,
    cut_and_grown,
    replaced_by_rename,
    swapped_when_opened,
    folder_swapped_for_link,
    leased_file,
)

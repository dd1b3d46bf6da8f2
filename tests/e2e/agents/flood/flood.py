"""Uses up processes, memory, log, disk and inodes, each within bounds that do the host no harm; notes what it met."""

import contextlib
import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from checkpoints import OUTPUT, WEIGHTS, changed_base
from grader import Answer, submit

REPORT, ROOM = Path("/workspace/code/report.json"), Path("/workspace/code/room")
FORKS, FILES = 4000, 500_000
LOG_BYTES, DISK_BYTES, MEMORY_BYTES = 200_000_000, 2_000_000_000, 4_000_000_000
CHUNK = b"\xaa" * 1_000_000


def fork_bomb() -> Answer:
    """Children that only wait, until no more can be had."""
    children, met = [], "no error"
    while len(children) < FORKS:
        try:
            child = os.fork()
        except OSError as error:
            met = errno.errorcode[error.errno or 0]
            break
        if child == 0:
            signal.pause()
            os._exit(0)
        children.append(child)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {"met": met, "count": len(children)}


def memory() -> Answer:
    """A child that takes memory until it is killed."""
    child = os.fork()
    if child == 0:
        held = []
        while len(held) * len(CHUNK) < MEMORY_BYTES:
            held.append(bytearray(CHUNK))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}


def log() -> Answer:
    """Lines and one line without an end."""
    line, written = b"x" * 99 + b"\n", 0
    while written < LOG_BYTES // 2:
        written += os.write(1, line * 1000)
    while written < LOG_BYTES:
        written += os.write(1, CHUNK)
    return {"written": written}


def disk() -> Answer:
    """Both places that can be written, until neither takes anything."""
    met, written = {}, 0
    for place in (OUTPUT / "fill", Path("/tmp/fill")):
        try:
            with place.open("wb", buffering=0) as file:
                while written < DISK_BYTES:
                    written += file.write(CHUNK)
        except OSError as error:
            met[str(place)] = errno.errorcode[error.errno or 0]
    return {"met": met, "written": written}


def checkpoint_without_room() -> Answer:
    """What a training run meets that saves on a full disk, and what the grader says to what is left of it."""
    folder = OUTPUT / "cut"
    try:
        changed_base(folder, 2001)
        met = "no error"
    except OSError as error:
        met = errno.errorcode[error.errno or 0]
    folder.mkdir(exist_ok=True)
    return {"met": met, "answer": submit(str(folder))}


def files() -> Answer:
    """Empty files until no inode is left (or enough of them are there)."""
    place, count, met = Path("/tmp/many"), 0, "no error"
    place.mkdir()
    try:
        for count in range(FILES):
            (place / str(count)).touch()
    except OSError as error:
        met = errno.errorcode[error.errno or 0]
    return {"met": met, "count": count}


def honest(number: int) -> Answer:
    return submit(str(OUTPUT / f"honest_{number}"))


def background() -> None:
    """A process that outlives its parents, heeds no signal, and goes on writing."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            with contextlib.suppress(OSError):
                (OUTPUT / "honest_1" / WEIGHTS).touch()
            time.sleep(0.01)


def main() -> None:
    for number in range(1, 6):
        changed_base(OUTPUT / f"honest_{number}", 2100 + number)
    # Space for the report, which is written when there is none left.
    ROOM.write_bytes(CHUNK)
    report: dict[str, Answer] = {}
    steps: tuple[Callable[[], Answer], ...] = (fork_bomb, memory, log, disk, checkpoint_without_room)
    for number, step in enumerate(steps, start=1):
        report[step.__name__] = step()
        if step is not disk:
            report[step.__name__]["honest"] = honest(number)
        sys.stderr.write(f"{step.__name__}: {report[step.__name__]}\n")
    (OUTPUT / "fill").unlink()
    report["files"] = files()
    report["files"]["honest"] = submit(str(OUTPUT / "honest_4"))
    report["disk_again"] = disk()
    ROOM.unlink()
    with REPORT.open("x") as file:
        json.dump(report, file)
    disk()
    background()


if __name__ == "__main__":
    main()

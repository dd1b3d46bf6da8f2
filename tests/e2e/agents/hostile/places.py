"""Attempts on places: what is mounted read-only, and what is hidden."""

import base64
import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grader import Answer, call

LIBC = ctypes.CDLL(None, use_errno=True)
MS_REMOUNT_BIND = 0x1020
# Searched for hidden texts. The rest is the image, which is built from the checkout and knows no hidden item.
SEARCHED = ("/workspace", "/tmp", "/run", "/var", "/etc", "/home", "/root", "/srv", "/mnt", "/media", "/dev/shm")
MAX_SEARCHED_BYTES = 4_000_000
OWN_FOLDER = Path(__file__).resolve().parent


def refused(action: Callable[[], Any]) -> str:
    """The name of the error that `action` meets; ALLOWED if none."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))
    return "ALLOWED"


def write_into(folder: Path) -> Answer:
    """Every way to change a folder that is mounted read-only."""
    file = next(path for path in sorted(folder.rglob("*")) if path.is_file())

    def remount() -> None:
        if LIBC.mount(None, str(folder).encode(), None, MS_REMOUNT_BIND, None) < 0:
            raise OSError(ctypes.get_errno(), "mount")

    def unmount() -> None:
        if LIBC.umount2(str(folder).encode(), 2) < 0:
            raise OSError(ctypes.get_errno(), "umount2")

    met = {
        "overwrite": refused(lambda: file.write_bytes(b"x")),
        "append": refused(lambda: os.close(os.open(file, os.O_WRONLY | os.O_APPEND))),
        "by_descriptor": refused(lambda: _reopen_writable(file)),
        "truncate": refused(lambda: os.truncate(file, 0)),
        "create": refused(lambda: (folder / "new").write_text("x")),
        "unlink": refused(file.unlink),
        "rename": refused(lambda: file.rename(folder / "other")),
        "replace": refused(lambda: shutil.copy("/etc/hostname", file)),
        "link": refused(lambda: os.link(file, folder / "hard")),
        "chmod": refused(lambda: file.chmod(0o777)),
        "chown": refused(lambda: os.chown(file, os.getuid(), os.getgid())),
        "utime": refused(lambda: os.utime(file, (0, 0))),
        "mount_point_away": refused(lambda: folder.rename("/workspace/elsewhere")),
        "mount_point_removed": refused(folder.rmdir),
        "remount": refused(remount),
        "unmount": refused(unmount),
    }
    return {"met": met}


def _reopen_writable(file: Path) -> None:
    with file.open("rb") as reader:
        os.close(os.open(f"/proc/self/fd/{reader.fileno()}", os.O_RDWR))


def open_hidden_paths(targets: Answer) -> Answer:
    """Where hidden data, database and sockets lie on the host and in the grader, by every root this process has."""
    roots = ["", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/..", "/proc/thread-self/root", "/workspace/../.."]
    roots += ["/workspace" + "/.." * 40]
    met = {
        root + path: refused(lambda p=root + path: os.open(p, os.O_RDONLY))
        for root in roots
        for path in targets["paths"]
    }  # type: ignore[misc]
    return {"met": met}


def search_hidden_texts(targets: Answer) -> Answer:
    """Looks for hidden items in every file that can be read, and in other processes' memory of their environment."""
    needles = [base64.b64decode(text) for text in targets["needles"]]
    found, looked = [], 0
    for path in _files():
        try:
            state = path.stat()
            # Not a pipe of another process: reading it would wait for ever.
            if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_SEARCHED_BYTES:
                continue
            content = path.read_bytes()
        except OSError:
            continue
        looked += 1
        if any(needle in content for needle in needles):
            found.append(str(path))
    return {"found": found, "looked": looked}


def _files() -> Iterator[Path]:
    for root in SEARCHED:
        for folder, _, names in os.walk(root, followlinks=False):
            if Path(folder) == OWN_FOLDER:
                continue
            for name in names:
                path = Path(folder) / name
                if stat.S_ISREG(os.lstat(path).st_mode):
                    yield path
    for process in Path("/proc").glob("[0-9]*"):
        yield from (process / name for name in ("environ", "cmdline", "mountinfo"))
        try:
            yield from (process / "fd").iterdir()
        except OSError:
            continue


def links_for_the_collector(targets: Answer) -> Answer:
    """Leaves what the harness will find when it keeps the workspace: links to its own files, FIFOs, holes, depth."""
    code = Path("/workspace/code")
    for number, path in enumerate(targets["paths"]):
        (code / f"loot-{number}").symlink_to(path)
    (code / "root").symlink_to("/")
    (code / "circle").symlink_to(code)
    os.mkfifo(code / "fifo")
    with (code / "terabyte").open("wb") as file:
        file.truncate(10**12)
    deep = code
    for _ in range(200):
        deep = deep / "d"
        deep.mkdir()
    os.close(os.open(os.fsencode(code) + b"/\xff\n.txt", os.O_CREAT | os.O_WRONLY))
    return {"left": True}


def fetch_hidden_urls(targets: Answer) -> Answer:
    """Files of the grader by address, beside the routes that it has."""
    paths = ["/openapi.json", "/docs", "/redoc", "/static/test.jsonl", "/eval", "/items", "/snapshots", "/db"]
    paths += ["/..%2f..%2feval", "/%2e%2e/%2e%2e/var/lib/harness/eval", "/../../var/lib/harness/eval", "//eval"]
    return {"answers": {path: call("GET", path) for path in paths}}

"""Executors as processes of this machine, started anew after each session as Docker does with theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.executor.__main__ import EXIT_SESSION_OVER

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def executor_process(path: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """One executor, for one session, with its log beside the socket."""
    command = [sys.executable, "-m", "harness.executor", "--socket", str(path), *options]
    with path.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def executors(path: Path, *options: str) -> Iterator[None]:
    """An executor for every session that is opened on `path`."""
    stopping = threading.Event()
    started = threading.Event()
    current: list[subprocess.Popen[bytes]] = []

    def keep_one_up() -> None:
        while not stopping.is_set():
            with executor_process(path, *options) as process:
                current[:] = [process]
                started.set()
                if process.wait() != EXIT_SESSION_OVER:
                    return

    thread = threading.Thread(target=keep_one_up, daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield
    finally:
        stopping.set()
        current[0].kill()
        thread.join(30)

"""Which harness process drives a run, and whether it still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from harness.domain.runs import Owner

_PROC = Path("/proc")


def boot_id() -> str:
    """Identity of this machine's current boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot; None if there is no such process (or only its zombie)."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command's name may hold spaces and brackets: fields are counted after the last bracket.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def current_owner() -> Owner:
    """This process."""
    pid = os.getpid()
    return Owner(pid=pid, started_ticks=start_ticks(pid) or 0, boot_id=boot_id(), host=socket.gethostname())


def is_alive(owner: Owner) -> bool:
    """Whether `owner` still runs. One on another machine counts as alive: nothing here can tell otherwise."""
    if owner.boot_id != boot_id():
        return owner.host != socket.gethostname()
    return start_ticks(owner.pid) == owner.started_ticks

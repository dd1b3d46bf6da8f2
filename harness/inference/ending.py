"""How the service ends itself where an engine hangs or cannot be trusted: at once, with all that it has started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

END_EXIT_CODE = 75


def lead_group() -> None:
    """Makes this process the first of a process group of its own, which its children will belong to."""
    if os.getpgrp() != os.getpid():
        os.setpgrp()


def end_process() -> None:
    """Ends this process at once, whatever its threads are at, and the rest of the group that it leads."""
    if os.getpgrp() == os.getpid():
        for other in _group(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
    os._exit(END_EXIT_CODE)


def _group(leader: int) -> list[int]:
    """The processes of a group, without its leader."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name before the last bracket can hold anything.
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == leader and int(stat.parent.name) != leader:
                found.append(int(stat.parent.name))
    return found

"""`python3 -m harness.executor`: one session on its unix socket; ends with its own exit code, to be started anew."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

from harness.executor.candidate import PR_SET_DUMPABLE, Limits, prepare
from harness.executor.frames import BadFrame
from harness.executor.service import Session, session_on
from harness.executor.system_calls import Filter

# Docker starts a container again whose main process failed (restart policy `on-failure`): see decision 0021.
EXIT_SESSION_OVER = 75


def main() -> int:
    """Serves one scorer."""
    parser = argparse.ArgumentParser(prog="harness.executor", description=__doc__)
    parser.add_argument("--socket", default=Path("/sock/s.sock"), type=Path)
    parser.add_argument("--cpu-s", default=Limits.cpu_s, type=int, help="processor time of one candidate")
    parser.add_argument("--idle-s", default=Limits.idle_s, type=float, help="time that one candidate may wait")
    parser.add_argument("--memory-mb", default=Limits.memory_mb, type=int, help="address space of one candidate")
    options = parser.parse_args()
    prepare()
    system_calls = Filter()
    system_calls.prctl(PR_SET_DUMPABLE, 0)
    # What is there now is shared with all candidates; a collection in each of them would copy it.
    gc.freeze()
    limits = Limits(options.cpu_s, options.idle_s, options.memory_mb)
    connection, buffer = session_on(options.socket)
    try:
        Session(connection, buffer, limits, system_calls).run()
    except BadFrame as error:
        sys.stderr.write(f"the session ended: {error}\n")
    return EXIT_SESSION_OVER


if __name__ == "__main__":
    sys.exit(main())

"""The command line: the composition root, and the only place that prints."""

from __future__ import annotations

import signal
import sys

from harness.cli.edge import guarded


def main() -> None:
    """Runs the `harness` command and ends the process with its exit code (contracts.md section 6)."""
    # SIGTERM skips `finally` unless it is an exception; it means the same as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(guarded(sys.argv[1:]))

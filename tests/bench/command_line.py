"""How quick commands are that start nothing: whole processes, in turn.

`python tests/bench/command_line.py [--times 10] [--json]`. The images are built, and an empty home is used.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from statistics import median

from machine import machine, report
from noop_overhead import ROOT, timed

COMMANDS = (
    ("--help",),
    ("list", "benchmarks"),
    ("images",),
    ("run", "--agent", "noop", "--task", "arithmetic", "--dry-run"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    where = machine()
    took: dict[str, list[float]] = {f"harness {' '.join(words)}": [] for words in COMMANDS}
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as home:
        environment = {**os.environ, "HARNESS_HOME": home, "HARNESS_ROOT": str(ROOT)}
        for _ in range(options.times):
            for name, words in zip(took, COMMANDS, strict=True):
                took[name].append(timed([sys.executable, "-m", "harness", *words], environment, 0))
    lines = [f"{name:60} {median(times):5.2f} s" for name, times in took.items()]
    figures = {"machine": where, "seconds": took}
    report(figures, [f"median of {options.times}", *lines], as_json=options.json)


if __name__ == "__main__":
    main()

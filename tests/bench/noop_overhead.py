"""What a run costs beyond its container: `harness run --agent noop` beside `docker run` of the same image.

`python tests/bench/noop_overhead.py [--times 10] [--json]`. Both are whole processes, timed from start to exit,
one after the other. One run before those that count caches baseline, data, model and isolation probe, and starts the
grader.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from machine import machine, report, summary

from harness.sandbox.images import detect_device, expected_tags

ROOT = Path(__file__).resolve().parents[2]
TASK = "arithmetic"
TARGET_S = 3.0
EXIT_NOT_GRADED = 1  # How a run of `noop` ends: it hands nothing in.


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    image = expected_tags(ROOT, detect_device("auto"))["agent"]
    where, runs, plain = machine(), [], []
    with own_home() as home:
        for _ in range(options.times):
            runs.append(timed(run_command(), home, EXIT_NOT_GRADED))
            plain.append(timed(["docker", "run", "--rm", image, "true"], home, 0))
            print(f"harness run {runs[-1]:.2f} s, docker run {plain[-1]:.2f} s", file=sys.stderr, flush=True)
    difference = median(runs) - median(plain)
    figures = {
        "machine": where,
        "harness_run_s": runs,
        "docker_run_s": plain,
        "harness_run": summary(runs),
        "docker_run": summary(plain),
        "difference_s": difference,
        "target_s": TARGET_S,
    }
    lines = [
        f"`harness run --agent noop --task {TASK}`  median of {len(runs)}: {median(runs):.2f} s",
        f"`docker run --rm {image} true`  median of {len(plain)}: {median(plain):.2f} s",
        f"difference {difference:.2f} s (target: at most {TARGET_S:.1f} s)",
    ]
    report(figures, lines, as_json=options.json)


def run_command() -> list[str]:
    return [sys.executable, "-m", "harness", "run", "--agent", "noop", "--task", TASK]


@contextmanager
def own_home() -> Iterator[dict[str, str]]:
    """Environment of a new home with everything cached that a second run finds cached; taken down afterwards."""
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        environment = {**os.environ, "HARNESS_HOME": folder, "HARNESS_ROOT": str(ROOT)}
        try:
            timed(run_command(), environment, EXIT_NOT_GRADED)
            yield environment
        finally:
            subprocess.run([sys.executable, "-m", "harness", "down"], env=environment, capture_output=True, cwd=ROOT)


def timed(command: Sequence[str], environment: dict[str, str], expected: int) -> float:
    """Seconds that a process takes, start to exit."""
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    took = time.perf_counter() - started
    if done.returncode != expected:
        sys.exit(f"`{' '.join(command)}` ended with {done.returncode}, not {expected}:\n{done.stderr[-4000:]}")
    return took


if __name__ == "__main__":
    main()

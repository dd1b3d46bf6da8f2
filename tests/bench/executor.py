"""How fast programs are judged: 100 of them through an executor, beside a plain loop and a process for each.

python tests/bench/executor.py [--json] [--cpu-s 0.2] [--repeat 3]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

from executor_process import executors  # noqa: E402
from machine import machine, report  # noqa: E402

from harness.executor.client import answers  # noqa: E402
from harness.scorer.evaluators.code import Code  # noqa: E402
from harness.scorer.wire import ScoreItem  # noqa: E402

N = 100
EVAL = """
def program(question, model_answer, **extra):
    return model_answer

def check(candidate, question, reference, **extra):
    work = candidate.function("work")
    for k in range(10):
        assert work(k) == k + 1
"""
LOOP = """
import sys
sources = sys.stdin.read().split("\\f")
for source in sources:
    namespace = {}
    exec(source, namespace)
    assert [namespace["work"](k) for k in range(10)] == list(range(1, 11))
"""


def source(steps: int) -> str:
    """A program whose ten calls take `steps` additions each."""
    return f"def work(k):\n    n = 0\n    for i in range({steps}):\n        n += i & 1\n    return k + 1\n"


def calibrated(cpu_s: float) -> int:
    """Steps of one call for `cpu_s` of processor time in ten."""
    namespace: dict[str, Callable[[int], int]] = {}
    exec(source(1_000_000), namespace)
    start = time.thread_time()
    namespace["work"](0)
    return int(1_000_000 * cpu_s / 10 / (time.thread_time() - start))


def processor_s() -> float:
    """Processor time of this process and of all that it has waited for, with theirs."""
    own, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + theirs.ru_utime + theirs.ru_stime


def by_executor(programs: list[str], repeat: int) -> list[float]:
    """Seconds of whole evaluations with open session, each by a new executor that was up already."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        file, socket = Path(folder) / "eval.py", Path(folder) / "s.sock"
        file.write_text(EVAL)
        items = [ScoreItem(item_id=str(k), question="", reference="", answer=text) for k, text in enumerate(programs)]
        with executors(socket):
            for _ in range(repeat):
                while not answers(socket):
                    time.sleep(0.02)
                start = time.monotonic()
                verdicts = Code(file, socket).run(items)
                seconds.append(time.monotonic() - start)
                assert {verdict.score for verdict in verdicts} == {1.0}
    return seconds


def by_loop(programs: list[str], repeat: int) -> list[float]:
    """Seconds of one Python process that runs all programs one after the other, without any protection."""
    return [_python(LOOP, "\f".join(programs)) for _ in range(repeat)]


def by_processes(programs: list[str]) -> float:
    """Seconds of a new Python process for each program, one after the other."""
    return sum(_python(LOOP, program) for program in programs)


def _python(code: str, text: str) -> float:
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", code], input=text, text=True, check=True)
    return time.monotonic() - start


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cpu-s", default=0.2, type=float, help="processor time of one program")
    parser.add_argument("--repeat", default=3, type=int)
    options = parser.parse_args()
    where, cores = machine(), len(os.sched_getaffinity(0))
    light, heavy = [source(1)] * N, [source(calibrated(options.cpu_s))] * N
    figures = {
        "machine": where,
        "programs": N,
        "light_executor_s": median(by_executor(light, options.repeat)),
        "light_processes_s": by_processes(light),
    }
    start = processor_s()
    figures["heavy_loop_s"] = median(by_loop(heavy, options.repeat))
    figures["heavy_loop_processor_s"] = (processor_s() - start) / options.repeat
    start = processor_s()
    figures["heavy_executor_s"] = median(by_executor(heavy, options.repeat))
    figures["heavy_executor_processor_s"] = (processor_s() - start) / options.repeat
    lines = [
        f"{N} programs that do nothing: {figures['light_executor_s']:.2f} s through the executor, "
        f"{figures['light_processes_s']:.2f} s with a new Python process for each",
        f"{N} programs of {options.cpu_s:g} s each: {figures['heavy_loop_s']:.2f} s in a plain loop "
        f"({figures['heavy_loop_processor_s']:.2f} s of processor time), "
        f"{figures['heavy_executor_s']:.2f} s through the executor on {cores} cores "
        f"({figures['heavy_executor_processor_s']:.2f} s of processor time)",
    ]
    report(figures, lines, as_json=options.json)


if __name__ == "__main__":
    main()

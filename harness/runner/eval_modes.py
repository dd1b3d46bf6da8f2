"""A benchmark scored in another way than its config says (`--eval-mode`), where it has what that way needs."""

from __future__ import annotations

import ast
from pathlib import Path

from harness.domain.specs import Benchmark, EvalMode
from harness.errors import UsageError

EVAL_FILE = "eval.py"
# Functions of eval.py that a mode calls; told by reading the file, which is never run here.
NEEDED = {EvalMode.PER_SAMPLE: ("evaluate",), EvalMode.CODE: ("program", "check")}


def with_eval_mode(benchmark: Benchmark, mode: EvalMode | None) -> Benchmark:
    """The benchmark with `mode` in the place of its config's; None: as it is.

    Raises:
        UsageError: the benchmark has not what this mode needs; says which modes it has.
    """
    if mode is None or mode is benchmark.config.eval_mode:
        return benchmark
    lack = _lack(benchmark, mode)
    if lack:
        raise UsageError(
            f"benchmark {benchmark.id} cannot be scored in eval_mode {mode.value}: {lack}",
            f"It can in: {', '.join(eval_modes(benchmark))}.",
        )
    return benchmark.model_copy(update={"config": benchmark.config.model_copy(update={"eval_mode": mode})})


def eval_modes(benchmark: Benchmark) -> tuple[EvalMode, ...]:
    """The modes it can be scored in, its own first."""
    own = benchmark.config.eval_mode
    return (own, *(mode for mode in EvalMode if mode is not own and not _lack(benchmark, mode)))


def runs_programs(benchmark: Benchmark) -> bool:
    """Whether its evaluation may run a model's programs, which then needs an executor.

    OpenCompass's config decides in its own mode, and is not read here: a benchmark that can judge programs has one.
    """
    mode = benchmark.config.eval_mode
    return mode is EvalMode.CODE or (mode is EvalMode.OPENCOMPASS and not _lack(benchmark, EvalMode.CODE))


def _lack(benchmark: Benchmark, mode: EvalMode) -> str:
    """What is missing for `mode`; empty if nothing is."""
    if mode is EvalMode.OPENCOMPASS:
        return "" if benchmark.config.opencompass_dataset else "its config names no opencompass_dataset"
    if mode not in NEEDED:
        return "that mode is for benchmarks whose config says so"
    file = benchmark.path / EVAL_FILE
    if not file.is_file():
        return f"it has no {EVAL_FILE}"
    missing = [name for name in NEEDED[mode] if name not in _functions(file)]
    return f"its {EVAL_FILE} has no {' and no '.join(f'{name}()' for name in missing)}" if missing else ""


def _functions(file: Path) -> set[str]:
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}

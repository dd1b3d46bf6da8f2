"""Where a benchmark's train and hidden items come from: a function of its script, or a file that it ships."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.domain.base import Frozen
from harness.domain.specs import Benchmark
from harness.errors import UsageError

TRAIN_FILE, EVAL_FILE = "train.jsonl", "test.jsonl"
TRAIN_FUNCTION, EVAL_FUNCTION = "download_train_data", "download_eval_data"
SCRIPTS = ("data.py", "download_data.py")
SHIPPED = "data"
MAX_SCRIPT_BYTES = 2**20


class Fetch(Frozen):
    """One call of a benchmark's data script: which function of which file fills `target`."""

    benchmark: Benchmark
    script: str
    function: str
    target: Path
    data_dir: Path | None


Fetcher = Callable[[Fetch], None]


class Source(Frozen):
    """What provides one file: `script` by its `function`, or else the file that lies at `shipped`."""

    file: str
    function: str
    script: str | None = None
    shipped: Path | None = None


def train_source(benchmark: Benchmark) -> Source:
    """What provides the train items.

    Raises:
        UsageError: nothing does.
    """
    found = _source(benchmark, TRAIN_FILE, TRAIN_FUNCTION)
    if found is None:
        raise UsageError(
            f"benchmark {benchmark.id} provides no {TRAIN_FILE}",
            f"Its data.py must define {TRAIN_FUNCTION}(target_dir), or {SHIPPED}/{TRAIN_FILE} must exist.",
        )
    return found


def eval_source(benchmark: Benchmark) -> Source | None:
    """What provides the hidden items; None where the benchmark has train data only."""
    return _source(benchmark, EVAL_FILE, EVAL_FUNCTION)


def _source(benchmark: Benchmark, file: str, function: str) -> Source | None:
    for script in SCRIPTS:
        path = benchmark.path / script
        if path.is_file() and function in set(defined_names(path)):
            return Source(file=file, function=function, script=script)
    shipped = benchmark.path / SHIPPED / file
    return Source(file=file, function=function, shipped=shipped) if shipped.is_file() else None


def defined_names(path: Path) -> Iterator[str]:
    """The names that a Python file binds at its top level, told without running it.

    Raises:
        UsageError: it is too large, or no Python.
    """
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file that somebody else wrote; nothing of it is run.

    Raises:
        UsageError: it is too large, or no Python.
    """
    if path.stat().st_size > MAX_SCRIPT_BYTES:
        raise UsageError(f"{path} is larger than {MAX_SCRIPT_BYTES} bytes", "Move what is no code into data files.")
    try:
        return ast.parse(path.read_bytes(), filename=path.name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path} is no valid Python: {error}", "Correct the file.") from error

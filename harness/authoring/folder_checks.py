"""Checks of a benchmark folder as it lies there: nothing of it is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from harness.authoring.verdicts import Skipped
from harness.domain.specs import Benchmark, EvalMode
from harness.errors import UsageError
from harness.runner.data_sources import SCRIPTS, SHIPPED, parsed

PLACE = "{question}"
METRIC = re.compile(r"metric: ", re.IGNORECASE)
# What must not be handed to an agent: it tells how answers are judged and where hidden items come from.
PRIVATE_FILES = frozenset({*SCRIPTS, "eval.py"})
# Function of eval.py that judges, by mode.
JUDGES = {EvalMode.PER_SAMPLE: "evaluate", EvalMode.CODE: "check"}


def licence(benchmark: Benchmark) -> str:
    """The licence of every data source is named."""
    sources = benchmark.config.licence
    if not sources or not all(source.source.strip() and source.licence.strip() for source in sources):
        raise UsageError("no licence is named", "Add `licence: [{source: ..., licence: ...}]` to config.yaml.")
    return ", ".join(f"{source.licence} ({source.source})" for source in sources)


def prompt(benchmark: Benchmark) -> str:
    """The question is in the prompt; sampling is repeatable, or there is more than one sample."""
    config = benchmark.config
    if PLACE not in config.prompt:
        raise UsageError(f"the prompt does not hold {PLACE}", "Put it where the question belongs.")
    if config.temperature > 0 and config.samples == 1:
        raise UsageError(
            f"one sample at temperature {config.temperature:g} is luck", "Set temperature: 0, or samples above 1."
        )
    return f"{len(config.few_shot)} worked examples, at most {config.max_tokens} new tokens"


def description(benchmark: Benchmark) -> str:
    """description.md names the metric and how long an answer may be."""
    path = benchmark.path / "description.md"
    if not path.is_file():
        raise UsageError("there is no description.md", "Write what the agent should know of the task.")
    text = path.read_text(encoding="utf-8", errors="replace")
    length = f"most {benchmark.config.max_tokens} new tokens"
    if not METRIC.search(text.replace("**", "")):
        raise UsageError("description.md does not name the metric", "Write `Metric: ` and what is counted.")
    if length not in " ".join(text.split()):
        raise UsageError("description.md does not tell how long an answer may be", f"Write `at {length}`.")
    return "names the metric and the length of an answer"


def code(benchmark: Benchmark) -> str:
    """Its Python files can be read, and none imports the harness."""
    said = independence(benchmark.path)
    judge = JUDGES.get(benchmark.config.eval_mode)
    if judge is not None and not (benchmark.path / "eval.py").is_file():
        raise UsageError(f"there is no eval.py, and eval_mode {benchmark.config.eval_mode} needs its {judge}()")
    return said


def independence(folder: Path) -> str:
    """The Python files of a folder can be read, and none imports the harness."""
    files = sorted(folder.rglob("*.py"))
    for path in files:
        for line, name in _imports(path):
            if name.split(".")[0] == "harness":
                raise UsageError(
                    f"{path.relative_to(folder)} line {line} imports {name}",
                    "It runs where the harness is not: take it out.",
                )
    return f"{len(files)} Python file{'s' if len(files) != 1 else ''}, none imports the harness"


def exposure(benchmark: Benchmark) -> str:
    """Nothing hidden lies where it would be handed out."""
    for name in benchmark.config.expose_files:
        if name in PRIVATE_FILES or Path(name).parts[0] == SHIPPED:
            raise UsageError(f"expose_files names {name}", "Agents may not see it: take it out.")
    allowed = benchmark.path / SHIPPED / "test.jsonl"
    stray = sorted(set(benchmark.path.rglob("test*.jsonl")) - {allowed})
    if stray:
        raise UsageError(
            f"{stray[0].relative_to(benchmark.path)} looks like hidden items", f"Move it to {SHIPPED}/test.jsonl."
        )
    exposed = benchmark.config.expose_files
    return f"exposes {', '.join(exposed)}" if exposed else "exposes no files of its own"


def mode(benchmark: Benchmark) -> str | Skipped:
    """The evaluation mode is one that the suite can try."""
    if benchmark.config.eval_mode not in JUDGES:
        return Skipped(reason=f"answers under eval_mode {benchmark.config.eval_mode} are not tried by this suite")
    return str(benchmark.config.eval_mode)


def has_extract(benchmark: Benchmark) -> bool:
    """Whether eval.py defines `extract`."""
    tree = parsed(benchmark.path / "eval.py")
    return any(isinstance(node, ast.FunctionDef) and node.name == "extract" for node in tree.body)


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""

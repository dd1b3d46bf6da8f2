"""A benchmark's eval.py, imported: its functions, called with those fields of an item that they take."""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import EvaluationFailed
from harness.scorer.wire import ScoreItem

MAX_WORDS = 2_000


class EvalFile:
    """The module in one eval.py, run as if it were a script: files beside it can be imported."""

    def __init__(self, path: Path) -> None:
        """Raises: EvaluationFailed: it is not there, or importing it raised."""
        self._path = path
        self._module = _imported(path)

    def function(self, name: str, positional: tuple[str, ...]) -> Callable[..., Any]:
        """A function of the module that must be there: takes `positional`, then an item's extra fields as a mapping.

        Raises:
            EvaluationFailed: it is not there.
        """
        function: Callable[..., Any] | None = getattr(self._module, name, None)
        if not callable(function):
            raise EvaluationFailed(f"{self._path.name} has no function {name}({', '.join(positional)}, **kwargs)")
        wanted = _keyword_names(function)

        def call(*values: object, extra: Mapping[str, Any]) -> Any:
            kept = {k: v for k, v in extra.items() if k not in positional and (not wanted or k in wanted)}
            return function(*values, **kept)

        return call

    def is_extracted(self, answer: str, extra: Mapping[str, Any]) -> bool:
        """What the module's `extract(model_answer, **extra)`, if there is one, says: whether an answer can be read."""
        if getattr(self._module, "extract", None) is None:
            return True
        return self.function("extract", ("model_answer",))(answer, extra=extra) is not None


def score_of(item: ScoreItem, function: str, value: object) -> float:
    """The number that a function of the benchmark gave an item.

    Raises:
        EvaluationFailed: it is no number in [0, 1].
    """
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        score = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        kind = type(value).__name__
        raise EvaluationFailed(f"item {item.item_id}: {function}() returned {kind}, not a number") from error
    if not (math.isfinite(score) and 0 <= score <= 1):
        raise EvaluationFailed(f"item {item.item_id}: {function}() returned {score}, which is not in [0, 1]")
    return score


def words_of(error: BaseException) -> str:
    """An exception of the benchmark's code, for the record."""
    return f"{type(error).__name__}: {error}"[:MAX_WORDS]


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_eval", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise EvaluationFailed(f"there is no {path}", "Benchmarks of this eval_mode need an eval.py.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise EvaluationFailed(f"importing {path.name} raised {words_of(error)}") from error
    return module


def _keyword_names(function: Callable[..., Any]) -> frozenset[str]:
    """Names that `function` takes; empty if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset()
    return frozenset(parameter.name for parameter in parameters)

"""`per_sample`: the benchmark's `evaluate(question, model_answer, reference_answer, **extra)`, item by item.

If eval.py also has `extract(model_answer)`, an answer for which it returns None is recorded as not extracted.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import EvaluationFailed
from harness.scorer.wire import ItemVerdict, ScoreItem

POSITIONAL = ("question", "model_answer", "reference_answer")


class PerSample:
    """An `Evaluator` on one eval.py."""

    def __init__(self, eval_file: Path) -> None:
        module = _imported(eval_file)
        self._evaluate = _function(module, "evaluate", eval_file)
        self._extract = getattr(module, "extract", None)
        self._names = _keyword_names(self._evaluate)

    def run(self, items: Sequence[ScoreItem]) -> list[ItemVerdict]:
        """See `Evaluator`."""
        return [self._verdict(item) for item in items]

    def _verdict(self, item: ScoreItem) -> ItemVerdict:
        extra = {k: v for k, v in item.extra.items() if k not in POSITIONAL and (not self._names or k in self._names)}
        try:
            value = self._evaluate(item.question, item.answer, item.reference, **extra)
            is_extracted = self._extract is None or self._extract(item.answer) is not None
        except (Exception, SystemExit) as error:
            # An edge: whatever the benchmark's code raises is told with the item it was raised on.
            raise EvaluationFailed(f"item {item.item_id}: eval.py raised {_words(error)}") from error
        return ItemVerdict(item_id=item.item_id, score=_score(item.item_id, value), is_extracted=is_extracted)


def _imported(eval_file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_eval", eval_file)
    if not eval_file.is_file() or spec is None or spec.loader is None:
        raise EvaluationFailed(f"there is no {eval_file}", "per_sample benchmarks need an eval.py with evaluate().")
    module = importlib.util.module_from_spec(spec)
    # As if it were run as a script: files beside it can be imported.
    sys.path.insert(0, str(eval_file.parent))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise EvaluationFailed(f"importing {eval_file.name} raised {_words(error)}") from error
    return module


def _function(module: ModuleType, name: str, eval_file: Path) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise EvaluationFailed(f"{eval_file.name} has no function {name}({', '.join(POSITIONAL)}, **kwargs)")
    return function


def _keyword_names(function: Callable[..., Any]) -> frozenset[str]:
    """Names that `function` takes beside the three; empty if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset()
    return frozenset(parameter.name for parameter in parameters)


def _score(item_id: str, value: object) -> float:
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        score = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise EvaluationFailed(f"item {item_id}: evaluate() returned {type(value).__name__}, not a number") from error
    if not (math.isfinite(score) and 0 <= score <= 1):
        raise EvaluationFailed(f"item {item_id}: evaluate() returned {score}, which is not in [0, 1]")
    return score


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2_000]

"""What every evaluator does, and which modes this version has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harness.domain.specs import EvalMode
from harness.scorer.wire import ItemVerdict, ScoreItem

# Modes that `build_evaluator` knows.
MODES = (EvalMode.PER_SAMPLE, EvalMode.CODE)


class Evaluator(Protocol):
    """A benchmark's judgement of a model's answers."""

    def run(self, items: Sequence[ScoreItem]) -> list[ItemVerdict]:
        """One verdict for each item, in order, with a finite score in [0, 1].

        Raises:
            EvaluationFailed: the benchmark's code raised or gave no score; names the item.
        """


def build_evaluator(mode: EvalMode, eval_file: Path, executor: Path) -> Evaluator:
    """The evaluator of a mode in `MODES`, with the benchmark's own code in `eval_file`; `executor` is a socket."""
    if mode is EvalMode.CODE:
        from harness.scorer.evaluators.code import Code

        return Code(eval_file, executor)
    from harness.scorer.evaluators.per_sample import PerSample

    return PerSample(eval_file)

"""`per_sample`: the benchmark's `evaluate(question, model_answer, reference_answer, **extra)`, item by item.

If eval.py also has `extract(model_answer, **extra)`, an answer for which it returns None is recorded as not extracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import EvaluationFailed
from harness.scorer.evaluators.eval_file import EvalFile, score_of, words_of
from harness.scorer.wire import ItemVerdict, ScoreItem

POSITIONAL = ("question", "model_answer", "reference_answer")


class PerSample:
    """An `Evaluator` on one eval.py."""

    def __init__(self, eval_file: Path) -> None:
        self._file = EvalFile(eval_file)
        self._evaluate = self._file.function("evaluate", POSITIONAL)

    def run(self, items: Sequence[ScoreItem]) -> list[ItemVerdict]:
        """See `Evaluator`."""
        return [self._verdict(item) for item in items]

    def _verdict(self, item: ScoreItem) -> ItemVerdict:
        try:
            value = self._evaluate(item.question, item.answer, item.reference, extra=item.extra)
            is_extracted = self._file.is_extracted(item.answer, item.extra)
        except (Exception, SystemExit) as error:
            # An edge: whatever the benchmark's code raises is told with the item it was raised on.
            raise EvaluationFailed(f"item {item.item_id}: eval.py raised {words_of(error)}") from error
        score = score_of(item, "evaluate", value)
        return ItemVerdict(item_id=item.item_id, score=score, is_extracted=is_extracted)

"""What every evaluator does, and which modes this version has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.domain.specs import EvalMode
from harness.scorer.wire import AskedItem, ItemVerdict, PromptsReply, PromptsRequest, ScoreItem, ScoreRequest

# Modes that `build_evaluator` knows, and those of them whose evaluator decides what is asked.
MODES = frozenset({EvalMode.PER_SAMPLE, EvalMode.CODE, EvalMode.OPENCOMPASS})
OWN_PROMPTS = frozenset({EvalMode.OPENCOMPASS})


class Evaluator(Protocol):
    """A benchmark's judgement of a model's answers."""

    def run(self, items: Sequence[ScoreItem]) -> list[ItemVerdict]:
        """One verdict for each item, in order, with a finite score in [0, 1].

        Raises:
            EvaluationFailed: the benchmark's code raised or gave no score; names the item.
        """


class Prompter(Protocol):
    """What an evaluator asks a model, where it decides that itself."""

    def prompts(self, items: Sequence[AskedItem], *, chat: bool) -> PromptsReply:
        """One prompt for each item, in order.

        Raises:
            EvaluationFailed: there are none.
        """


@dataclass(frozen=True)
class Place:
    """Where an evaluator finds the benchmark's own code, and the socket of the executor."""

    eval_file: Path
    executor: Path


def build_evaluator(request: ScoreRequest, place: Place) -> Evaluator:
    """The evaluator of a request whose mode is in `MODES`."""
    if request.eval_mode is EvalMode.OPENCOMPASS:
        from harness.scorer.evaluators.opencompass import OpenCompass

        return OpenCompass(request.opencompass_dataset, place)
    if request.eval_mode is EvalMode.CODE:
        from harness.scorer.evaluators.code import Code

        return Code(place.eval_file, place.executor)
    from harness.scorer.evaluators.per_sample import PerSample

    return PerSample(place.eval_file)


def build_prompter(request: PromptsRequest, place: Place) -> Prompter:
    """The one of a request whose mode is in `OWN_PROMPTS`."""
    from harness.scorer.evaluators.opencompass import OpenCompass

    return OpenCompass(request.opencompass_dataset, place)

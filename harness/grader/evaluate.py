"""One evaluation: hidden items -> completions -> verdicts -> item results, with half-trusted services in between."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from harness.domain.items import Item, divide
from harness.domain.specs import RunPlan
from harness.errors import EvaluationFailed
from harness.grader.prompts import build_prompt, sampling_of
from harness.inference.wire import (
    Completion,
    EngineInfo,
    GenerateReply,
    GenerateRequest,
    LoadReply,
    LoadRequest,
)
from harness.scorer.wire import ItemVerdict, ScoreItem, ScoreReply, ScoreRequest
from harness.store.models import EvaluationKey, ItemScore, NewEvaluation

SCORE_TIMEOUT_S = 600.0
# What of an answer is scored, and what of it is kept; a token is rarely more than 16 characters.
CHARACTERS_PER_TOKEN = 16
MAX_KEPT_CHARACTERS = 20_000

T = TypeVar("T")


class Inference(Protocol):
    """What the grader asks of an inference service (`harness.inference.client.InferenceClient`)."""

    def is_ready(self) -> bool: ...
    def info(self) -> EngineInfo: ...
    def load(self, request: LoadRequest) -> LoadReply: ...
    def generate(self, request: GenerateRequest) -> GenerateReply: ...


class Scorer(Protocol):
    """What the grader asks of a scorer service (`harness.scorer.client.ScorerClient`)."""

    def is_ready(self) -> bool: ...
    def score(self, request: ScoreRequest) -> ScoreReply: ...


@dataclass(frozen=True)
class Services:
    """The two services of one run."""

    inference: Inference
    scorer: Scorer

    def are_ready(self) -> bool:
        """Whether both answer now."""
        return self.inference.is_ready() and self.scorer.is_ready()


@dataclass(frozen=True)
class Subject:
    """What is to be evaluated: a model folder as the inference service sees it, under a key, within a wall limit."""

    plan: RunPlan
    key: EvaluationKey
    folder: Path
    limit_s: float


def evaluate(subject: Subject, items: Sequence[Item], services: Services) -> NewEvaluation:
    """The evaluation of `subject` on all `items`, ready to be stored.

    Raises:
        LoadFailed: the engine cannot serve these weights.
        EvaluationFailed: no score came out, or the engine is not the planned one.
        ServiceUnavailable: a service died or talks nonsense; TooSlow where it ran into the wall limit.
    """
    plan = subject.plan
    info = planned_engine(plan, services.inference)
    load_seconds, _ = _timed(lambda: services.inference.load(LoadRequest(path=str(subject.folder))))
    generate_seconds, completions = _timed(lambda: _generate(subject, items, services.inference))
    score_seconds, verdicts = _timed(lambda: _score(plan, items, completions, services.scorer))
    return NewEvaluation(
        key=subject.key,
        engine=info.spec,
        engine_info={"versions": info.versions, "device_name": info.device_name},
        items=_results(items, completions, verdicts),
        load_seconds=load_seconds,
        generate_seconds=generate_seconds,
        score_seconds=score_seconds,
    )


def planned_engine(plan: RunPlan, inference: Inference) -> EngineInfo:
    """What the engine says it is.

    Raises:
        EvaluationFailed: it is another one than the plan's: its scores would be filed under the wrong key.
    """
    info = inference.info()
    if info.spec != plan.engine:
        raise EvaluationFailed("the inference service runs another engine than planned", "Restart the run's services.")
    return info


def _generate(subject: Subject, items: Sequence[Item], inference: Inference) -> tuple[Completion, ...]:
    plan = subject.plan
    spec = plan.benchmark.config.prompt_spec()
    request = GenerateRequest(
        prompts=tuple(build_prompt(spec, item.question) for item in items),
        sampling=sampling_of(spec, plan.engine.seed),
        limit_s=subject.limit_s,
    )
    completions = inference.generate(request).completions
    if len(completions) != len(items):
        raise EvaluationFailed(f"the inference service gave {len(completions)} answers to {len(items)} prompts")
    longest = spec.max_tokens * CHARACTERS_PER_TOKEN
    return tuple(c.model_copy(update={"text": c.text[:longest]}) for c in completions)


def _score(
    plan: RunPlan, items: Sequence[Item], completions: Sequence[Completion], scorer: Scorer
) -> tuple[ItemVerdict, ...]:
    request = ScoreRequest(
        eval_mode=plan.benchmark.config.eval_mode,
        items=tuple(
            ScoreItem(item_id=i.id, question=i.question, reference=i.answer, answer=c.text, extra=i.extra)
            for i, c in zip(items, completions, strict=True)
        ),
        timeout_s=SCORE_TIMEOUT_S,
    )
    verdicts = scorer.score(request).verdicts
    if [verdict.item_id for verdict in verdicts] != [item.id for item in items]:
        raise EvaluationFailed("the scorer's verdicts are not those of the items that were sent")
    for verdict in verdicts:
        if not (math.isfinite(verdict.score) and 0 <= verdict.score <= 1):
            raise EvaluationFailed(f"the scorer gave item {verdict.item_id} the score {verdict.score}")
    return verdicts


def _results(
    items: Sequence[Item], completions: Sequence[Completion], verdicts: Sequence[ItemVerdict]
) -> tuple[ItemScore, ...]:
    parts = divide(items)
    return tuple(
        ItemScore(
            item_id=item.id,
            part=parts[item.id],
            score=verdict.score,
            output=completion.text[:MAX_KEPT_CHARACTERS],
            output_tokens=completion.output_tokens,
            is_truncated=completion.is_truncated,
            is_extracted=verdict.is_extracted,
        )
        for item, completion, verdict in zip(items, completions, verdicts, strict=True)
    )


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.monotonic()
    result = work()
    return time.monotonic() - started, result

"""One evaluation: hidden items -> completions -> verdicts -> item results, with half-trusted services in between."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Protocol, TypeVar

from harness.domain.items import Item, divide
from harness.domain.prompts import Prompt
from harness.domain.specs import EvalMode, RunPlan
from harness.errors import EvaluationFailed
from harness.grader.limits import load_limit_s, score_limit_s
from harness.grader.prompts import build_prompt, sampling_of
from harness.inference.wire import (
    Completion,
    EngineInfo,
    GenerateReply,
    GenerateRequest,
    LoadReply,
    LoadRequest,
    Sampling,
    SleepReply,
)
from harness.scorer.wire import (
    AskedItem,
    ItemVerdict,
    PromptsReply,
    PromptsRequest,
    ScoreItem,
    ScoreReply,
    ScoreRequest,
)
from harness.store.models import EvaluationKey, ItemScore, NewEvaluation

# Modes in which the evaluator decides what the model is asked.
OWN_PROMPTS = frozenset({EvalMode.OPENCOMPASS})
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
    def sleep(self) -> SleepReply: ...


class Scorer(Protocol):
    """What the grader asks of a scorer service (`harness.scorer.client.ScorerClient`)."""

    def is_ready(self) -> bool: ...
    def prompts(self, request: PromptsRequest) -> PromptsReply: ...
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
    # Before the load: what cannot be asked needs no engine.
    asked = _asked(plan, items, services.scorer)
    load = LoadRequest(path=str(subject.folder), limit_s=load_limit_s(plan.model.size_bytes))
    load_seconds, _ = _timed(lambda: services.inference.load(load))
    generate_seconds, completions = _timed(lambda: _generate(subject, asked, services.inference))
    score_seconds, verdicts = _timed(lambda: _score(plan, items, completions, services.scorer))
    return NewEvaluation(
        key=subject.key,
        engine=info.spec,
        engine_info={"versions": info.versions, "device_name": info.device_name, "settings": info.settings},
        items=_results(plan, items, completions, verdicts),
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


@dataclass(frozen=True)
class _Asked:
    """One prompt for each item, and how completions are drawn."""

    prompts: tuple[Prompt, ...]
    sampling: Sampling


def _asked(plan: RunPlan, items: Sequence[Item], scorer: Scorer) -> _Asked:
    config = plan.benchmark.config
    sampling = sampling_of(config.prompt_spec(), plan.engine.seed)
    if config.eval_mode not in OWN_PROMPTS:
        return _Asked(tuple(build_prompt(config.prompt_spec(), item.question) for item in items), sampling)
    request = PromptsRequest(
        eval_mode=config.eval_mode,
        opencompass_dataset=config.opencompass_dataset,
        chat=config.chat,
        items=tuple(AskedItem(item_id=i.id, question=i.question, extra=i.extra) for i in items),
        timeout_s=score_limit_s(len(items)),
    )
    reply = scorer.prompts(request)
    if len(reply.prompts) != len(items):
        raise EvaluationFailed(f"the scorer made {len(reply.prompts)} prompts of {len(items)} items")
    return _Asked(
        reply.prompts,
        sampling.model_copy(update={"max_tokens": reply.max_tokens or sampling.max_tokens, "stop": reply.stop}),
    )


def _generate(subject: Subject, asked: _Asked, inference: Inference) -> tuple[Completion, ...]:
    """`samples` completions for each prompt, next to each other."""
    config = subject.plan.benchmark.config
    n_samples = config.samples
    prompts = tuple(prompt for prompt in asked.prompts for _ in range(n_samples))
    # The limit is for answers as long as the benchmark's own; an evaluator may ask for longer ones.
    limit_s = subject.limit_s * max(1.0, asked.sampling.max_tokens / config.max_tokens)
    request = GenerateRequest(prompts=prompts, sampling=asked.sampling, limit_s=limit_s)
    completions = inference.generate(request).completions
    if len(completions) != len(prompts):
        raise EvaluationFailed(f"the inference service gave {len(completions)} answers to {len(prompts)} prompts")
    longest = asked.sampling.max_tokens * CHARACTERS_PER_TOKEN
    return tuple(c.model_copy(update={"text": c.text[:longest]}) for c in completions)


def _score(
    plan: RunPlan, items: Sequence[Item], completions: Sequence[Completion], scorer: Scorer
) -> tuple[ItemVerdict, ...]:
    config = plan.benchmark.config
    drawn = [(item, sample) for item in items for sample in range(config.samples)]
    request = ScoreRequest(
        eval_mode=config.eval_mode,
        opencompass_dataset=config.opencompass_dataset,
        items=tuple(
            ScoreItem(item_id=i.id, sample=n, question=i.question, reference=i.answer, answer=c.text, extra=i.extra)
            for (i, n), c in zip(drawn, completions, strict=True)
        ),
        timeout_s=score_limit_s(len(drawn)),
    )
    verdicts = scorer.score(request).verdicts
    if [verdict.item_id for verdict in verdicts] != [item.id for item, _ in drawn]:
        raise EvaluationFailed("the scorer's verdicts are not those of the items that were sent")
    for verdict in verdicts:
        if not (math.isfinite(verdict.score) and 0 <= verdict.score <= 1):
            raise EvaluationFailed(f"the scorer gave item {verdict.item_id} the score {verdict.score}")
    return verdicts


def _results(
    plan: RunPlan, items: Sequence[Item], completions: Sequence[Completion], verdicts: Sequence[ItemVerdict]
) -> tuple[ItemScore, ...]:
    parts, config = divide(items), plan.benchmark.config
    n_samples = config.samples
    results = []
    for number, item in enumerate(items):
        drawn = slice(number * n_samples, (number + 1) * n_samples)
        answers, judged = completions[drawn], verdicts[drawn]
        scores = tuple(verdict.score for verdict in judged)
        results.append(
            ItemScore(
                item_id=item.id,
                part=parts[item.id],
                score=fmean(scores),
                sample_scores=scores if n_samples > 1 else (),
                cluster=str(item.extra.get(config.cluster_by, "")) if config.cluster_by else "",
                output=answers[0].text[:MAX_KEPT_CHARACTERS],
                output_tokens=round(fmean(answer.output_tokens for answer in answers)),
                is_truncated=2 * sum(answer.is_truncated for answer in answers) > n_samples,
                is_extracted=2 * sum(verdict.is_extracted for verdict in judged) >= n_samples,
            )
        )
    return tuple(results)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.monotonic()
    result = work()
    return time.monotonic() - started, result

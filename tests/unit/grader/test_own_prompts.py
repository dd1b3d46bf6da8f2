"""Evaluators that decide what is asked: the grader sends their prompts, and draws answers as they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import samples
from fakes import FakeInference, FakeScorer
from safetensors_file import model_tensors, write_model

from harness.domain.items import Item
from harness.domain.prompts import Message, Prompt
from harness.domain.specs import Benchmark, BenchmarkConfig, EvalMode, RunPlan
from harness.errors import EvaluationFailed
from harness.grader.evaluate import Services, Subject, evaluate
from harness.scorer.wire import PromptsReply, PromptsRequest
from harness.store.models import EvaluationKey

ITEMS = tuple(Item(id=f"i{k}", question=f"{k}+1", answer=str(k + 1), extra={"level": k}) for k in range(3))


@dataclass
class Prompting(FakeScorer):
    """Asks in its own words."""

    requests: list[PromptsRequest] = field(default_factory=list)
    make: Callable[[PromptsReply], PromptsReply] = lambda reply: reply

    def prompts(self, request: PromptsRequest) -> PromptsReply:
        self.requests.append(request)
        prompts = tuple(
            Prompt(messages=(Message(role="user", content=item.question),), plain=f"plain {item.question}")
            for item in request.items
        )
        return self.make(PromptsReply(prompts=prompts, max_tokens=900, stop=("END",)))


def plan_of(**config: object) -> RunPlan:
    values = {"name": "sums", "eval_mode": EvalMode.OPENCOMPASS, "opencompass_dataset": "sums_gen", "max_tokens": 300}
    benchmark = Benchmark(
        id="sums", path=Path("benchmarks/sums"), digest="b" * 64, config=BenchmarkConfig(**{**values, **config})
    )
    return samples.plan(benchmark=benchmark)


def run(folder: Path, scorer: FakeScorer, plan: RunPlan) -> FakeInference:
    write_model(folder / "model", model_tensors(1.0))
    inference = FakeInference(plan.engine)
    key = EvaluationKey(tree_hash="t", task_protocol="p", engine_hash="e", base_model_hash="b")
    evaluate(Subject(plan=plan, key=key, folder=folder / "model", limit_s=10.0), ITEMS, Services(inference, scorer))
    return inference


def test_its_prompts_are_sent_and_its_way_of_drawing_is_used(tmp_path: Path) -> None:
    scorer = Prompting()
    (request,) = run(tmp_path, scorer, plan_of(stop=("\nProblem:",))).requests
    assert [prompt.plain for prompt in request.prompts] == [f"plain {item.question}" for item in ITEMS]
    assert (request.sampling.max_tokens, request.sampling.stop) == (900, ("END",))
    (asked,) = scorer.requests
    assert (asked.opencompass_dataset, asked.chat) == ("sums_gen", True)
    assert [(item.question, item.extra) for item in asked.items] == [(item.question, item.extra) for item in ITEMS]


def test_no_reference_goes_into_a_prompt(tmp_path: Path) -> None:
    scorer = Prompting()
    run(tmp_path, scorer, plan_of())
    assert "answer" not in scorer.requests[0].model_dump_json()


def test_longer_answers_have_more_time(tmp_path: Path) -> None:
    (request,) = run(tmp_path, Prompting(), plan_of()).requests
    assert request.limit_s == 10.0 * 900 / 300


def test_the_benchmarks_own_length_where_the_evaluator_has_none(tmp_path: Path) -> None:
    scorer = Prompting(make=lambda reply: reply.model_copy(update={"max_tokens": None, "stop": ()}))
    (request,) = run(tmp_path, scorer, plan_of(stop=("\nProblem:",), chat=False)).requests
    assert (request.sampling.max_tokens, request.sampling.stop, request.limit_s) == (300, (), 10.0)
    assert scorer.requests[0].chat is False


def test_prompts_that_do_not_fit_the_items_fail_the_evaluation(tmp_path: Path) -> None:
    scorer = Prompting(make=lambda reply: reply.model_copy(update={"prompts": reply.prompts[1:]}))
    with pytest.raises(EvaluationFailed, match="2 prompts of 3 items"):
        run(tmp_path, scorer, plan_of())

"""Prompts, items, shown scores and the fair pool on their own."""

from __future__ import annotations

import threading

import pytest
from grader_case import Case

from harness.domain.scoring import Score, rounded, shown_step
from harness.domain.specs import FewShot, PromptSpec, Protocol
from harness.errors import EvaluationFailed
from harness.grader.fair_pool import FairPool
from harness.grader.items import hidden_items
from harness.grader.prompts import build_prompt, sampling_of
from harness.grader.shown import shown_score
from harness.store.models import PartScores

SHOTS = (FewShot(question="1+1", answer="2"),)


def test_a_chat_prompt_has_the_few_shots_as_turns():
    spec = PromptSpec(prompt="Q: {question}", system="Be brief.", few_shot=SHOTS)
    messages = build_prompt(spec, "2+2").messages or ()
    assert [(m.role, m.content) for m in messages] == [
        ("system", "Be brief."), ("user", "Q: 1+1"), ("assistant", "2"), ("user", "Q: 2+2"),
    ]  # fmt: skip


def test_a_plain_prompt_is_one_text():
    spec = PromptSpec(prompt="Q: {question}\nA:", system="Be brief.", few_shot=SHOTS, chat=False)
    assert build_prompt(spec, "2+2").text == "Be brief.\n\nQ: 1+1\nA: 2\n\nQ: 2+2\nA:"


def test_braces_in_a_question_are_left_alone():
    assert (build_prompt(PromptSpec(chat=False), "{x} {question}")).text == "{x} {question}"


def test_sampling_is_the_protocols():
    sampling = sampling_of(PromptSpec(max_tokens=7, stop=("\n",)), seed=3)
    assert (sampling.max_tokens, sampling.temperature, sampling.stop, sampling.seed) == (7, 0, ("\n",), 3)


def test_a_limit_takes_the_same_items_every_time(case: Case):
    some = hidden_items(case.home, case.plan("r", limit=10))
    every = hidden_items(case.home, case.plan("r"))
    assert some == every[:10]


def test_items_that_are_not_the_planned_ones_score_nothing(case: Case):
    plan = case.plan("r")
    other = plan.model_copy(update={"data": plan.data.model_copy(update={"eval_hash": "0" * 64})})
    with pytest.raises(EvaluationFailed):
        hidden_items(case.home, other)
    gone = plan.model_copy(update={"data": plan.data.model_copy(update={"eval_path": case.home.eval / "none"})})
    with pytest.raises(EvaluationFailed):
        hidden_items(case.home, gone)


@pytest.mark.parametrize(("stderr", "step"), [(0, 0.1), (1.9, 1), (2.0, 1), (2.2, 2), (9.9, 5), (500, 50)])
def test_a_shown_score_is_a_multiple_of_a_step_that_says_nothing(stderr: float, step: float):
    score = Score(score_pct=61.37, stderr_pct=stderr, n_items=100)
    assert shown_step(score) == step
    assert abs(rounded(score) / step - round(rounded(score) / step)) < 1e-9
    assert abs(rounded(score) - 61.37) <= step / 2 + 1e-9


def test_without_feedback_items_there_is_nothing_to_show():
    one = Score(score_pct=100, stderr_pct=0, n_items=1)
    parts = PartScores(feedback=None, final=one, overall=one)
    assert shown_score(parts, Protocol.STANDARD) is None
    assert shown_score(parts, Protocol.PAPER) is not None


def test_one_runs_jobs_wait_for_each_other_and_not_for_anothers():
    pool, door, order = FairPool(threads=2, per_run=1, name="test"), threading.Event(), []

    def slow() -> None:
        assert door.wait(10)
        order.append("slow")

    first = pool.submit("a", slow)
    second = pool.submit("a", lambda: order.append("second"))
    pool.submit("b", lambda: order.append("other")).result(10)
    assert order == ["other"]
    door.set()
    first.result(10)
    second.result(10)
    assert order == ["other", "slow", "second"]


def test_an_error_of_a_job_is_its_futures():
    def broken() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError):
        FairPool(threads=1, per_run=1, name="test").submit("a", broken).result(10)

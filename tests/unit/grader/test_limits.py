"""How long an evaluation may take: what it can need at the measured pace, with room to spare."""

import pytest
from grader_case import N_ITEMS, AgentSide, Case

from harness.domain.specs import EngineSpec
from harness.grader.limits import (
    EVALUATION_FLOOR_S,
    LOAD_FLOOR_S,
    MARGIN,
    SCORE_FLOOR_S,
    SLOWEST_TOKENS_PER_S,
    limit_s,
    load_limit_s,
    measured_pace,
    score_limit_s,
    slowest_pace,
)


def test_the_limit_is_a_multiple_of_what_the_answers_can_need() -> None:
    assert limit_s(n_tokens=100_000, pace=50.0, floor_s=900) == MARGIN * 2_000


def test_a_fast_engine_has_the_floor() -> None:
    assert limit_s(n_tokens=1_000, pace=1_000.0, floor_s=900) == 900


def test_without_a_measurement_the_slowest_machine_is_assumed() -> None:
    assert limit_s(n_tokens=100_000, pace=None, floor_s=900) == 100_000 / SLOWEST_TOKENS_PER_S


def test_a_first_hang_on_a_gpu_is_noticed_within_hours() -> None:
    spec = EngineSpec(image="none", device="gpu:1 x NVIDIA H200")
    slowest = slowest_pace(spec)
    assert slowest_pace(spec.model_copy(update={"device": "cpu:any"})) < slowest
    assert limit_s(n_tokens=1_319 * 400, pace=None, floor_s=900, slowest=slowest) < 4 * 3_600


def test_the_pace_is_the_baselines(case: Case, agent: AgentSide) -> None:
    pace = measured_pace(case.db, agent.run_id)
    # The fake says one token for each item.
    assert pace is not None
    assert pace > 0
    assert measured_pace(case.db, case.register_only()) is None


def test_several_answers_to_an_item_are_counted(case: Case, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr("harness.grader.worker.limit_s", lambda **given: (asked.append(given), limit_s(**given))[1])
    benchmark = case.plan("x").benchmark
    config = benchmark.config.model_copy(update={"samples": 3, "temperature": 0.8, "max_tokens": 50})
    agent = case.add_run(benchmark=benchmark.model_copy(update={"config": config, "digest": "three"}))
    agent.submit(agent.write("v1", 0.8))
    assert [given["n_tokens"] for given in asked] == [N_ITEMS * 3 * 50] * 2
    one = measured_pace(case.db, agent.run_id)
    assert one is not None
    assert asked[1]["pace"] == pytest.approx(3 * one)


def test_a_load_has_time_for_a_cold_engine_and_a_slow_disk(case: Case, agent: AgentSide) -> None:
    agent.submit(agent.write("v1", 0.8))
    assert set(case.inference.load_limits) == {load_limit_s(1)}
    assert load_limit_s(1) >= LOAD_FLOOR_S > 5 * 100
    assert load_limit_s(140 * 10**9) > 2 * load_limit_s(14 * 10**9)


def test_a_submission_is_generated_within_the_limit(case: Case, agent: AgentSide) -> None:
    agent.submit(agent.write("v1", 0.8))
    assert case.inference.requests[-1].limit_s >= EVALUATION_FLOOR_S


def test_the_scorers_limit_follows_the_number_of_answers(case: Case, agent: AgentSide, monkeypatch) -> None:
    assert score_limit_s(10) == SCORE_FLOOR_S
    assert score_limit_s(20_000) == 10 * score_limit_s(2_000) > SCORE_FLOOR_S
    asked = []
    score = case.scorer.score
    monkeypatch.setattr(case.scorer, "score", lambda request: (asked.append(request), score(request))[1])
    agent.submit(agent.write("v1", 0.81))
    assert [request.timeout_s for request in asked] == [score_limit_s(len(request.items)) for request in asked] != []

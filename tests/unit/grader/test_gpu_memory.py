"""Agent and engine share a GPU: the engine sleeps where nothing is to be done, and too little memory is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from grader_case import AgentSide, Case
from served import wait_until

from harness.domain.admin import CloseRun, FinishRun
from harness.domain.runs import EndedBy
from harness.domain.specs import Limits
from harness.errors import NoGpuMemory

GIB = 2**30
NUMBERS = "the engine needs 8.0 GiB of GPU memory, 3.0 GiB are free, 5.0 GiB are missing"


def shortage(case: Case, *, times: int = 1_000_000) -> Callable[[str], None]:
    """For `FakeInference.on_load`: the agent's process holds memory, for so many looks at it."""
    left = [times]

    def short(path: str) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise NoGpuMemory(free_bytes=3 * GIB, needed_bytes=8 * GIB)

    return short


def test_the_engine_sleeps_once_nothing_is_left_to_score(case: Case, agent: AgentSide):
    wait_until(lambda: case.inference.sleeps > 0, 10)
    slept = case.inference.sleeps
    first, second = agent.submit_later(agent.write("v1", 0.8)), agent.submit_later(agent.write("v2", 0.7))
    agent.wait_for(first)
    agent.wait_for(second)
    wait_until(lambda: case.inference.sleeps > slept, 10)
    assert case.inference.sleeps <= slept + 2


def test_an_engine_that_is_gone_before_it_sleeps_costs_nothing(case: Case, agent: AgentSide):
    def vanish() -> None:
        case.inference.is_up = False

    # Gone after its last answer: the scores are there, and there is nothing to put to sleep.
    case.inference.alter = lambda reply: (vanish(), reply)[1]
    assert agent.submit(agent.write("v1", 0.8)).json()["score"] is not None
    case.inference.alter = lambda reply: reply
    case.inference.is_up = True
    assert agent.submit(agent.write("v2", 0.7)).json()["score"] is not None


def test_memory_that_is_given_back_in_time_is_waited_for(case: Case, agent: AgentSide):
    case.inference.on_load = shortage(case, times=1)
    assert agent.submit(agent.write("v1", 0.8)).json()["score"] is not None


def test_too_little_memory_is_a_503_with_numbers_and_uses_no_quota(case: Case):
    agent = case.add_run(limits=Limits(timeout_s=600, max_submissions=1, max_submissions_per_hour=9))
    case.inference.on_load = shortage(case)
    reply = agent.submit(agent.write("v1", 0.8))
    assert (reply.status_code, reply.json()["error_class"]) == (503, "no_gpu_memory")
    assert reply.json()["error"] == NUMBERS
    assert "nvidia-smi" in reply.json()["detail"]
    assert int(reply.headers["Retry-After"]) > 0
    view = agent.submission(1)
    assert (view["state"], view["error"], view["error_class"]) == ("rejected", NUMBERS, "no_gpu_memory")
    case.inference.on_load = lambda path: None
    assert agent.submit("output/v1").json()["score"] is not None


def test_a_run_that_never_gives_the_memory_back_is_not_void(case: Case, agent: AgentSide):
    case.inference.on_load = shortage(case)
    agent.submit(agent.write("v1", 0.8))
    case.admin.post(f"/runs/{agent.run_id}/finish", FinishRun(ended_by=EndedBy.FINISHED).model_dump_json())
    closed = case.admin.post(f"/runs/{agent.run_id}/close", CloseRun().model_dump_json())
    assert closed["verdict"] == "no_submission"


def test_a_validation_without_memory_says_so_too(case: Case, agent: AgentSide):
    case.inference.on_load = shortage(case)
    reply = agent.client.post("validate", json={"model_path": agent.write("v1", 0.8)})
    assert (reply.status_code, reply.json()["error_class"], reply.json()["error"]) == (503, "no_gpu_memory", NUMBERS)


@pytest.mark.parametrize("times", [0, 1])
def test_a_baseline_waits_for_memory(case: Case, times: int):
    case.inference.on_load = shortage(case, times=times)
    agent = case.add_run()
    assert case.admin.status(agent.run_id).baseline is not None

"""Whose doing it is when an admission falls over something that nobody foresaw."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from grader_case import AgentSide, Case

from harness.domain.admin import CloseRun, FinishRun
from harness.domain.runs import EndedBy, Verdict
from harness.grader import admission


def falls_over(error: Exception, *, also_on_base: bool) -> Callable[..., tuple[str, ...]]:
    """In the place of `admission.compare`; the base model's folder has all of its companions."""
    compare = admission.compare

    def fall(folder_fd, entries, base):
        is_base = base.companions.keys() <= {entry.name for entry in entries} != set()
        if also_on_base or not is_base:
            raise error
        return compare(folder_fd, entries, base)

    return fall


def bare(agent: AgentSide) -> str:
    """A checkpoint without any of the base model's other files."""
    path = agent.write("v1", 0.8)
    for file in (agent.workspace / path).iterdir():
        if file.suffix != ".safetensors":
            file.unlink()
    return path


def ended(case: Case, agent: AgentSide) -> Verdict | None:
    case.admin.post(f"/runs/{agent.run_id}/finish", FinishRun(ended_by=EndedBy.FINISHED).model_dump_json())
    case.admin.post(f"/runs/{agent.run_id}/close", CloseRun().model_dump_json())
    return case.admin.status(agent.run_id).verdict


@pytest.mark.parametrize("error", [RecursionError("too deep"), KeyError("secret"), PermissionError(errno.EACCES, "no")])
def test_a_checkpoint_that_an_admission_falls_over_does_not_void_its_run(
    case: Case, agent: AgentSide, monkeypatch, error: Exception
):
    monkeypatch.setattr(admission, "compare", falls_over(error, also_on_base=False))
    reply = agent.submit(bare(agent))
    assert (reply.status_code, reply.json()["error_class"]) == (422, "unscorable")
    assert "secret" not in reply.text
    assert ended(case, agent) is Verdict.NO_SUBMISSION


def test_it_is_told_to_who_validates_too(case: Case, agent: AgentSide, monkeypatch):
    monkeypatch.setattr(admission, "compare", falls_over(RecursionError("too deep"), also_on_base=False))
    reply = agent.client.post("validate", json={"model_path": bare(agent)})
    assert (reply.status_code, reply.json()["error_class"]) == (422, "unscorable")


def test_an_admission_that_falls_over_the_base_model_too_is_the_graders_trouble(
    case: Case, agent: AgentSide, monkeypatch
):
    monkeypatch.setattr(admission, "compare", falls_over(KeyError("x"), also_on_base=True))
    reply = agent.submit(bare(agent))
    assert (reply.status_code, reply.json()["error_class"]) == (503, "grader_trouble")
    assert ended(case, agent) is Verdict.INFRA_VOID


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), OSError(errno.EMFILE, "many"), MemoryError()])
def test_what_the_machine_lacks_is_never_the_agents_doing(case: Case, agent: AgentSide, monkeypatch, error: Exception):
    monkeypatch.setattr(admission, "compare", falls_over(error, also_on_base=False))
    assert agent.submit(bare(agent)).json()["error_class"] == "grader_trouble"
    assert ended(case, agent) is Verdict.INFRA_VOID


def test_the_control_leaves_nothing_behind(case: Case, agent: AgentSide, monkeypatch):
    before = sorted(case.home.snapshots.iterdir())
    monkeypatch.setattr(admission, "compare", falls_over(KeyError("x"), also_on_base=False))
    agent.submit(bare(agent))
    assert sorted(case.home.snapshots.iterdir()) == before

"""A checkpoint of nobody's run: handed in over the admin socket alone, and scored as an agent's would be."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from grader_case import BASE_SKILL, N_ITEMS, OWNER, Case
from safetensors_file import model_tensors, write_model
from served import wait_until

from harness.checkpoint.tree import tree_hash
from harness.domain.admin import CloseRun, FinishRun, GradeCheckpoint, RegisterRun, RunStatus
from harness.domain.base import now_utc
from harness.domain.runs import EndedBy, RunKind, SubmissionState, Verdict
from harness.domain.specs import Grading, ModelRef
from harness.errors import ServiceUnavailable
from harness.report.grading import GradingReport, grading_report


def begun(case: Case, number: int, grading: Grading, **changes: object) -> str:
    """A registered grading; no network, no token."""
    # One grader serves all tests.
    run_id = f"20260101T000000_grade_{16 * case._scenario + number:04x}"
    plan = case.plan(run_id, grading=grading, created_at=now_utc(), **changes)
    request = RegisterRun(plan=plan, owner=OWNER, token_sha256="", subnet="")
    assert case.admin.post("/runs", request.model_dump_json())["kind"] == "grade"
    return run_id


def model_of(case: Case, skill: float) -> ModelRef:
    folder = write_model(case.home.models / f"mine-{skill}", model_tensors(skill))
    path = folder.relative_to(case.home.path)
    return ModelRef(repo_id="mine", revision="local", path=path, tree_hash=tree_hash(folder), size_bytes=1)


def alone(case: Case, number: int, skill: float, *, is_anew: bool = False) -> GradingReport:
    """A model of its own, scored to the end."""
    grading = Grading(path="/x/mine", has_base=False, is_anew=is_anew)
    run_id = begun(case, number, grading, model=model_of(case, skill))
    case.admin.post(f"/runs/{run_id}/baseline")
    wait_until(lambda: case.admin.status(run_id).baseline is not None, 20)
    return concluded(case, run_id)


def handed_in(case: Case, number: int, folder: Path, *, is_anew: bool = False) -> str:
    run_id = begun(case, number, Grading(path=str(folder), has_base=True, is_anew=is_anew))
    case.start_clock(run_id)
    case.hand_over(run_id, folder.parent)
    case.admin.post(f"/runs/{run_id}/submissions", GradeCheckpoint(model_path=folder.name).model_dump_json())
    return run_id


def judged(case: Case, run_id: str) -> RunStatus:
    wait_until(lambda: case.admin.status(run_id).submissions[0].state.is_final, 20)
    return case.admin.status(run_id)


def concluded(case: Case, run_id: str) -> GradingReport:
    case.admin.post(f"/runs/{run_id}/finish", FinishRun(ended_by=EndedBy.FINISHED).model_dump_json())
    case.admin.post(f"/runs/{run_id}/close", CloseRun().model_dump_json())
    return grading_report(case.db, run_id)


def test_a_model_of_its_own_has_its_score(case: Case):
    report = alone(case, 1, 0.9)
    assert (report.state, report.overall.n_items) == ("graded", N_ITEMS)
    assert report.overall.score_pct > 80
    assert not report.measured.is_stored
    assert report.measured.engine == case.inference.spec.model_dump(mode="json")
    assert report.measured.engine_info == {
        "versions": {"fake": "1"}, "device_name": "fake", "settings": {"block_size": "16"},
    }  # fmt: skip


def test_the_same_bytes_are_scored_once_and_anew_where_that_is_asked_for(case: Case):
    first, stored = alone(case, 1, 0.6), alone(case, 2, 0.6)
    generated = case.inference.generated
    assert (stored.measured.is_stored, stored.score) == (True, first.score)
    again = alone(case, 3, 0.6, is_anew=True)
    assert case.inference.generated == generated + 1
    assert (again.measured.is_stored, again.agreement.n_equal, again.agreement.n_items) == (False, N_ITEMS, N_ITEMS)
    assert alone(case, 4, 0.6).agreement is None


def test_a_repeat_that_answers_otherwise_says_where(case: Case):
    alone(case, 1, 0.6)
    case.inference.alter = lambda reply: reply.model_copy(
        update={"completions": (reply.completions[0].model_copy(update={"text": "else"}), *reply.completions[1:])}
    )
    agreement = alone(case, 2, 0.6, is_anew=True).agreement
    assert (agreement.n_equal, len(agreement.differing_items)) == (N_ITEMS - 1, 1)


def test_against_a_base_it_goes_the_way_of_a_submission(case: Case, tmp_path: Path):
    folder = write_model(tmp_path / "v1", model_tensors(0.9), {"architectures": ["LlamaForCausalLM"], "hidden_size": 9})
    run_id = handed_in(case, 1, folder)
    case.admin.post(f"/runs/{run_id}/baseline")
    assert judged(case, run_id).submissions[0].state is SubmissionState.SCORED
    wait_until(lambda: case.admin.status(run_id).baseline is not None, 20)
    report = concluded(case, run_id)
    assert (report.base_model, report.state) == ("base", "graded")
    assert report.improvement.low > 0
    assert "config.json" in (report.note or "")


def test_anew_against_a_base_is_the_checkpoint_and_not_the_base(case: Case, tmp_path: Path):
    folder = write_model(tmp_path / "v1", model_tensors(0.9))
    for number, is_anew in ((1, False), (2, True)):
        run_id = handed_in(case, number, folder, is_anew=is_anew)
        case.admin.post(f"/runs/{run_id}/baseline")
        judged(case, run_id)
        wait_until(lambda run_id=run_id: case.admin.status(run_id).baseline is not None, 20)
        report = concluded(case, run_id)
    assert case.admin.status(run_id).baseline.is_cached
    assert report.agreement.n_equal == N_ITEMS
    assert sum(path.endswith("models/base") for path in case.inference.loads) == 1


def test_what_admission_refuses_is_told(case: Case, tmp_path: Path):
    folder = write_model(tmp_path / "v1", model_tensors(0.9))
    (folder / "evil.py").write_text("x")
    run_id = handed_in(case, 1, folder)
    assert judged(case, run_id).submissions[0].state is SubmissionState.REJECTED
    report = concluded(case, run_id)
    assert (report.score, report.state) == (None, Verdict.NO_SUBMISSION.value)
    assert "evil.py" in report.detail


def test_a_checkpoint_is_handed_in_once(case: Case, tmp_path: Path):
    folder = write_model(tmp_path / "v1", model_tensors(0.9))
    run_id = handed_in(case, 1, folder)
    case.admin.post(f"/runs/{run_id}/submissions", GradeCheckpoint(model_path="v1").model_dump_json())
    assert len(case.admin.status(run_id).submissions) == 1


def test_a_run_with_an_agent_takes_none(case: Case):
    agent = case.add_run()
    body = GradeCheckpoint(model_path=agent.write("v1", 0.9)).model_dump_json()
    reply = case.admin.client.post(
        f"/runs/{agent.run_id}/submissions", content=body, headers={"Content-Type": "application/json"}
    )
    assert reply.status_code == 409
    assert not case.admin.status(agent.run_id).submissions


@pytest.mark.parametrize("token", ["", "%20", "x"])
def test_nobody_has_an_address_of_a_grading(case: Case, token: str):
    begun(case, 1, Grading(path="/x/mine", has_base=False), model=model_of(case, 0.6))
    assert httpx.get(f"http://127.0.0.1:{case.port}/r/{token}/health").status_code == 404


def test_a_repeat_goes_on_after_a_restart_of_the_grader(own_case: Case):
    alone(own_case, 1, 0.6)
    own_case.without_services.add("20260101T000000_grade_0002")
    run_id = begun(own_case, 2, Grading(path="/x/mine", has_base=False, is_anew=True), model=model_of(own_case, 0.6))
    own_case.admin.post(f"/runs/{run_id}/baseline")
    wait_until(lambda: own_case.admin.status(run_id).needs_services, 20)
    own_case.stop()
    own_case.without_services.clear()
    own_case.start()
    wait_until(lambda: own_case.admin.status(run_id).baseline is not None, 20)
    assert own_case.admin.status(run_id).kind is RunKind.GRADE
    assert concluded(own_case, run_id).agreement.n_equal == N_ITEMS


def test_a_repeat_that_was_tried_twice_is_still_one(case: Case):
    alone(case, 1, BASE_SKILL + 0.2)
    left = [1]

    def break_once() -> None:
        if left:
            left.pop()
            raise ServiceUnavailable("killed")

    case.inference.before = break_once
    assert alone(case, 2, BASE_SKILL + 0.2, is_anew=True).agreement.n_equal == N_ITEMS

"""A checkpoint scored outside a run: what is asked of the grader, what every ending leaves, what dies half-way."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from harness.domain.admin import GradeCheckpoint, RegisterRun, RunStatus, SubmissionView
from harness.domain.base import now_utc
from harness.domain.runs import EndedBy, Phase, RunKind, SubmissionState, Verdict
from harness.domain.specs import Grading
from harness.errors import EvaluationFailed, GraderUnavailable, InfrastructureError, Interrupted, UsageError
from harness.home import Home
from harness.runner import grading as grading_module
from harness.runner import launch as launch_module
from harness.runner.grader_client import GraderClient
from harness.runner.grading import GradingTrial
from harness.runner.hold import held
from harness.runner.host import Host
from harness.runner.launch import Launcher
from harness.runner.objects import RunObjects
from harness.runner.orphans import GRADE_FILE, remove_orphans, tend_orphans
from harness.runner.plan import GRADE_NAME, NO_AGENT, complete, draft
from harness.runner.progress import Progress, Reporter
from harness.runner.request import RunRequest
from harness.settings import Settings
from tests.run_fakes import RUN_ID, FakeGrader, FakeObjects, ago, make_plan

ROOT = Path(__file__).resolve().parents[2]


class GradingGrader(FakeGrader):
    """Admits, or refuses, the checkpoint one poll after it was handed in; scores it with the services."""

    def __init__(self, objects: FakeObjects) -> None:
        super().__init__(objects)
        self.has_cached_baseline = False
        self.handed_over: list[Path] = []
        self.handed_in: list[str] = []
        self.ends_as = SubmissionState.SCORED
        self.is_restarted = False
        self._set(kind=RunKind.GRADE)

    def hand_over(self, run_id: str, directory: Path) -> None:
        self.handed_over.append(directory)
        self._set(needs_output=False)

    def grade(self, run_id: str, checkpoint: GradeCheckpoint) -> RunStatus:
        self.handed_in.append(checkpoint.model_path)
        self._see(SubmissionState.ADMITTING)
        return self._set(needs_output=self.is_restarted)

    def _see(self, state: SubmissionState) -> None:
        detail = "evil.py (no code)" if state in (SubmissionState.REJECTED, SubmissionState.FAILED) else None
        view = SubmissionView(
            submission_id=1, state=state, model_path=self.handed_in[0], submitted_at=now_utc(), detail=detail
        )
        self._set(submissions=(view,))
        self.open_submissions = int(not state.is_final)

    def status(self, run_id: str) -> RunStatus:
        seen = self.status_now.submissions
        if seen and seen[0].state is SubmissionState.ADMITTING and not self.status_now.needs_output:
            is_refused = self.ends_as is SubmissionState.REJECTED
            self._see(SubmissionState.REJECTED if is_refused else SubmissionState.QUEUED)
        status = super().status(run_id)
        if seen and seen[0].state is SubmissionState.QUEUED and self.objects.services:
            self._see(self.ends_as)
        return status.model_copy(update={"submissions": self.status_now.submissions})


class Stage:
    """A registered grading with its fakes."""

    def __init__(self, folder: Path, *, has_base: bool) -> None:
        self.objects = FakeObjects(folder)
        self.grader = GradingGrader(self.objects)
        self.shown: list[Progress] = []
        self.checkpoint = folder / "checkpoints" / "v1"
        grading = Grading(path=str(self.checkpoint), has_base=has_base)
        self.plan = make_plan(folder).model_copy(update={"grading": grading})

    def run(self) -> RunStatus:
        reporter = Reporter(RUN_ID, self.shown.append, ago(0))
        return GradingTrial(self.plan, cast(GraderClient, self.grader), cast(RunObjects, self.objects), reporter).run()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading_module, "POLL_S", 0.0)


@pytest.fixture
def alone(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "run", has_base=False)


@pytest.fixture
def against_base(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "run", has_base=True)


def test_a_model_of_its_own_is_scored_as_a_baseline_and_nothing_is_left(alone: Stage) -> None:
    alone.run()
    assert alone.grader.phases == [Phase.BASELINE, Phase.COLLECTING]
    assert (alone.grader.handed_in, "clock" in alone.grader.calls) == ([], False)
    assert alone.objects.calls == ["start services", "keep record", "remove"]
    assert alone.grader.finished_with is not None
    assert alone.grader.finished_with.ended_by is EndedBy.FINISHED


def test_with_a_base_the_checkpoint_is_handed_in_by_the_folder_it_lies_in(against_base: Stage) -> None:
    against_base.run()
    assert against_base.grader.handed_over == [against_base.checkpoint.parent]
    assert against_base.grader.handed_in == ["v1"]
    assert against_base.objects.calls[-2:] == ["keep record", "remove"]


def test_a_stored_result_starts_no_service(alone: Stage) -> None:
    alone.grader.has_cached_baseline = True
    alone.run()
    assert "start services" not in alone.objects.calls


def test_a_refused_checkpoint_is_told_before_anything_is_scored(against_base: Stage) -> None:
    against_base.grader.ends_as = SubmissionState.REJECTED
    status = against_base.run()
    assert status.submissions[0].state is SubmissionState.REJECTED
    assert "start services" not in against_base.objects.calls
    assert against_base.objects.is_removed


def test_a_grader_that_was_started_anew_is_given_the_folder_again(against_base: Stage) -> None:
    against_base.grader.is_restarted = True
    against_base.run()
    assert len(against_base.grader.handed_over) == 2


def test_a_model_that_does_not_load_is_its_own_fault(alone: Stage) -> None:
    alone.grader.baseline_error = "load_failed: no such architecture"
    alone.objects.services_die = True
    assert alone.run().ended_by is EndedBy.CRASH


def test_a_model_that_the_grader_could_not_score_is_void(alone: Stage) -> None:
    alone.grader.baseline_error = "evaluation_failed: the evaluator raised"
    alone.objects.services_die = True
    with pytest.raises(EvaluationFailed, match="the evaluator raised"):
        alone.run()
    assert alone.grader.status_now.verdict is Verdict.INFRA_VOID
    assert alone.objects.is_removed


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted("stopped")])
def test_an_interruption_closes_it_and_leaves_nothing(alone: Stage, error: BaseException) -> None:
    alone.objects.raises["start services"] = error
    with pytest.raises(Interrupted, match=RUN_ID):
        alone.run()
    assert alone.grader.status_now.verdict is Verdict.INTERRUPTED
    assert alone.objects.is_removed


def test_a_broken_docker_closes_it_as_void(alone: Stage) -> None:
    alone.objects.raises["start services"] = InfrastructureError("no space")
    with pytest.raises(InfrastructureError, match="no space"):
        alone.run()
    assert alone.grader.status_now.verdict is Verdict.INFRA_VOID
    assert alone.objects.is_removed


def test_without_a_grader_nothing_is_left_running(alone: Stage) -> None:
    alone.objects.raises["start services"] = GraderUnavailable("gone")
    with pytest.raises(GraderUnavailable):
        alone.run()
    assert alone.objects.is_removed


def test_no_deadline_is_shown(against_base: Stage) -> None:
    against_base.run()
    assert all(progress.remaining_s is None for progress in against_base.shown)


class LaunchStage:
    """A launcher whose host and grader are fakes, on a real catalog and a real home."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.settings = Settings(home=home.path, root=ROOT, device="cpu")
        self.made = FakeObjects(home.path / "objects")
        self.grader = GradingGrader(self.made)
        self.registered: list[RegisterRun] = []
        self.grader.register = self._register
        monkeypatch.setattr(launch_module, "GraderClient", lambda home, revive: self.grader)
        monkeypatch.setattr(launch_module, "tend_orphans", lambda *arguments: None)
        self.launcher = Launcher(cast(Host, self), lambda progress: None)
        self.client = None

    def _register(self, run: RegisterRun) -> RunStatus:
        self.registered.append(run)
        return self.grader.status_now

    def revive_grader(self) -> None:
        """Nothing to do."""

    def require_images(self, plan_draft: object) -> None:
        """They are there."""

    def require_grader(self, image: str, grader: object) -> None:
        """It is there."""

    def run_data_script(self, plan_draft: object, call) -> None:
        name = "train.jsonl" if call.function == "download_train_data" else "test.jsonl"
        (call.target / name).write_text(f'{{"id": "{name}", "question": "{name}", "answer": "2"}}\n')

    def objects(self, plan: object, token: str) -> FakeObjects:
        return self.made

    def draft(self, **changes: object):
        grading = Grading(path="/x/v1", has_base=False)
        request = RunRequest(task="arithmetic", grading=grading, **changes)
        return draft(request, self.settings)


@pytest.fixture
def launch_stage(home: Home, monkeypatch: pytest.MonkeyPatch) -> LaunchStage:
    return LaunchStage(home, monkeypatch)


def test_a_gradings_plan_has_no_agent_and_no_image_of_one(launch_stage: LaunchStage) -> None:
    plan_draft = launch_stage.draft()
    assert (plan_draft.agent, "agent" in plan_draft.images) == (NO_AGENT, False)
    assert f"_{GRADE_NAME}_" in plan_draft.run_id


def test_a_grading_is_registered_without_token_and_network_and_driven_to_its_end(launch_stage: LaunchStage) -> None:
    plan_draft = launch_stage.draft()
    launch_stage.launcher.grade(plan_draft)
    (registered,) = launch_stage.registered
    assert (registered.plan.kind, registered.token_sha256, registered.subnet) == (RunKind.GRADE, "", "")
    assert launch_stage.made.is_removed
    assert [path.name for path in launch_stage.home.run(plan_draft.run_id).path.iterdir()] == [".lock"]


def test_a_grading_that_cannot_begin_leaves_no_folder(launch_stage: LaunchStage, tmp_path: Path) -> None:
    before = launch_stage.home.run_ids()
    with pytest.raises(UsageError, match="no Hugging Face model folder"):
        launch_stage.launcher.grade(launch_stage.draft(model=str(tmp_path)))
    assert launch_stage.home.run_ids() == before


class Orphans:
    """A home with the folder of a grading that nobody drives."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.said = home, []
        self.folder = home.run("20260101T000000_grade_0001")
        self.folder.path.mkdir()
        self.grader = GradingGrader(FakeObjects(home.path / "objects"))
        self.grader.is_known = False
        self.active: list[RunStatus] = []
        self.grader.active_runs = lambda: self.active
        monkeypatch.setattr("harness.runner.orphans.reaper.orphans", lambda *arguments: [])

    def tend(self) -> None:
        tend_orphans(None, self.home, cast(GraderClient, self.grader), self.said.append)


@pytest.fixture
def orphans(home: Home, monkeypatch: pytest.MonkeyPatch) -> Orphans:
    return Orphans(home, monkeypatch)


def test_a_grading_that_died_before_it_was_known_is_removed(orphans: Orphans) -> None:
    (orphans.folder.path / GRADE_FILE).write_text("{}")
    orphans.tend()
    assert not orphans.folder.path.exists()


def test_one_that_is_only_just_beginning_is_not_touched(orphans: Orphans) -> None:
    (orphans.folder.path / GRADE_FILE).write_text("{}")
    with held(orphans.folder):
        remove_orphans(None, orphans.home, cast(GraderClient, orphans.grader), orphans.said.append)
    assert orphans.folder.path.exists()


def test_a_grading_that_lost_its_harness_is_closed_and_never_taken_up(
    orphans: Orphans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.runner.orphans.in_background", lambda *a: pytest.fail("it was taken up"))
    orphans.active = [RunStatus(run_id=orphans.folder.path.name, kind=RunKind.GRADE, phase=Phase.BASELINE)]
    orphans.grader.is_known = True
    orphans.tend()
    assert orphans.grader.status_now.verdict is Verdict.INTERRUPTED
    assert any("closed as interrupted" in said for said in orphans.said)


def test_the_plan_says_what_is_graded(launch_stage: LaunchStage) -> None:
    plan = make_plan(Path("x"))
    completed = complete(launch_stage.draft(), plan.model, plan.data)
    assert (completed.kind, completed.grading) == (RunKind.GRADE, Grading(path="/x/v1", has_base=False))

"""Taking a run up again and stopping one: what is driven, what is finished, what is refused."""

import hashlib
import os
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from harness.domain.llm import DriverLlm, ModelList
from harness.domain.runs import EndedBy, Owner, Phase, Verdict
from harness.domain.specs import RunPlan
from harness.errors import GraderUnavailable, Interrupted, PrerequisiteError, UnknownRun, UsageError
from harness.home import Home
from harness.runner import grader_link as link_module
from harness.runner import launch as launch_module
from harness.runner import trial as trial_module
from harness.runner.attempt import Attempt
from harness.runner.hold import held
from harness.runner.host import Host
from harness.runner.launch import DRAFT_FILE, PLAN_FILE, Launcher
from harness.runner.plan import RunDraft, draft
from harness.runner.request import RunRequest
from harness.settings import Settings
from tests.run_fakes import RUN_ID, FakeGrader, FakeObjects, ago, make_plan

ROOT = Path(__file__).resolve().parents[2]


class FakeHost:
    """A host whose Docker always works."""

    client = None
    settings: Settings

    def __init__(self, home: Home, objects: FakeObjects) -> None:
        self.home = home
        self._objects = objects

    def revive_grader(self) -> None:
        """Nothing to do."""

    def require_isolation(self, plan: object) -> None:
        self._objects.calls.append("prove isolation")

    def require_images(self, plan_draft: object) -> None:
        """They are there."""

    def require_grader(self, image: str, grader: object) -> None:
        """It is there."""

    def objects(self, plan: object, token: str) -> FakeObjects:
        return self._objects


class Stage:
    """A run with plan and workspace, whose harness is gone."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = home.run(RUN_ID)
        self.objects = FakeObjects(self.folder.path)
        self.grader = FakeGrader(self.objects)
        self.folder.workspace.mkdir(parents=True)
        self.tidied: list[str] = []
        plan = make_plan(self.folder.path, 100)
        plan = plan.model_copy(update={"images": {**plan.images, "grader": "g"}})
        (self.folder.path / PLAN_FILE).write_text(plan.model_dump_json())
        monkeypatch.setattr(link_module, "POLL_S", 0.0)
        monkeypatch.setattr(trial_module, "EXIT_POLL_S", 0.0)
        monkeypatch.setattr(launch_module, "GraderClient", lambda home, revive: self.grader)
        monkeypatch.setattr(launch_module, "remove_orphans", lambda *arguments: None)
        monkeypatch.setattr(launch_module, "tidy", lambda client, home, run_id: self.tidied.append(run_id))
        self.launcher = Launcher(cast(Host, FakeHost(home, self.objects)), lambda progress: None)

    def at(self, **fields: object) -> None:
        self.grader.status_now = self.grader.status_now.model_copy(update=fields)


@pytest.fixture
def stage(home: Home, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(home, monkeypatch)


def stopped(stage: Stage, used_s: float) -> None:
    """A run whose agent was stopped after `used_s` of its 100 s, an hour ago."""
    ended_at = ago(3600)
    stage.at(
        verdict=Verdict.INTERRUPTED,
        ended_by=EndedBy.STOPPED,
        phase=Phase.ENDED,
        agent_ended_at=ended_at,
        deadline=ended_at + timedelta(seconds=100 - used_s),
    )
    Attempt(is_started=True, stopped_at=ended_at).save(stage.folder)


def test_a_stopped_run_goes_on_with_the_time_that_was_left(stage: Stage) -> None:
    stopped(stage, 40)
    stage.launcher.resume(RUN_ID)
    assert "reopen" in stage.grader.calls
    assert "create 60" in stage.objects.calls
    attempt = Attempt.load(stage.folder)
    assert (attempt.number, round(attempt.used_s), attempt.stopped_at) == (2, 40, None)


def test_what_a_broken_off_stop_left_is_not_adopted(stage: Stage) -> None:
    stopped(stage, 40)
    stage.launcher.resume(RUN_ID)
    calls = stage.objects.calls
    assert calls.index("remove but the workspace") < calls.index("create 60")


def test_a_stop_that_was_broken_off_is_finished_before_the_run_goes_on(stage: Stage) -> None:
    stopped(stage, 40)
    stage.at(verdict=None, ended_by=None, phase=Phase.AGENT, agent_ended_at=None)
    stage.objects.agent_started_at, stage.objects.ended_at = ago(3700), Attempt.load(stage.folder).stopped_at

    def remove(*, keep_workspace: bool) -> None:
        stage.objects.agent_started_at = None

    stage.objects.remove = remove
    stage.launcher.resume(RUN_ID)
    assert stage.objects.calls.count("stop on request") == 1
    assert "create 60" in stage.objects.calls


def test_a_run_that_ended_while_its_harness_died_is_tidied_up(stage: Stage) -> None:
    stage.at(verdict=Verdict.GRADED, ended_by=EndedBy.FINISHED, phase=Phase.ENDED)
    stage.folder.token.touch()
    assert stage.launcher.resume(RUN_ID).verdict is Verdict.GRADED
    assert stage.tidied == [RUN_ID]


def test_a_run_that_has_ended_is_not_taken_up(stage: Stage) -> None:
    stage.at(verdict=Verdict.GRADED, ended_by=EndedBy.FINISHED, phase=Phase.ENDED)
    with pytest.raises(UsageError, match="has ended: graded"):
        stage.launcher.resume(RUN_ID)
    assert stage.tidied == []


def test_a_run_that_was_never_registered_is_prepared(stage: Stage) -> None:
    stage.grader.is_known = False
    stage.launcher.resume(RUN_ID)
    assert stage.grader.phases[0] is Phase.PREPARING
    assert stage.objects.calls[0] == "prove isolation"


def test_a_run_whose_agent_is_at_work_is_taken_up_without_a_proof(stage: Stage) -> None:
    stage.at(phase=Phase.AGENT)
    stage.launcher.resume(RUN_ID)
    assert "prove isolation" not in stage.objects.calls


def test_a_run_that_cannot_be_registered_leaves_no_network(stage: Stage) -> None:
    def register(run: object) -> None:
        raise GraderUnavailable("it does not answer")

    stage.grader.is_known = False
    stage.grader.register = register
    with pytest.raises(GraderUnavailable):
        stage.launcher.resume(RUN_ID)
    assert stage.objects.calls == ["prove isolation", "remove but the workspace"]


def test_a_half_written_token_is_never_used(stage: Stage) -> None:
    registered = []
    stage.grader.is_known = False
    stage.grader.register = registered.append
    stage.launcher.resume(RUN_ID)
    assert registered[0].token_sha256 != hashlib.sha256(b"").hexdigest()
    assert not stage.folder.token.exists()


def test_a_second_interruption_says_how_to_go_on(stage: Stage) -> None:
    stage.at(phase=Phase.AGENT)
    stage.objects.raises = {"wait": KeyboardInterrupt(), "stop on request": KeyboardInterrupt()}
    with pytest.raises(Interrupted, match="harness resume"):
        stage.launcher.resume(RUN_ID)


def test_a_run_that_nobody_drives_can_be_stopped(stage: Stage) -> None:
    stage.at(phase=Phase.AGENT)
    stage.launcher.stop(RUN_ID)
    assert stage.grader.status_now.verdict is Verdict.INTERRUPTED
    assert stage.objects.calls[-1] == "remove but the workspace"


def test_a_run_that_is_just_being_taken_up_is_not_stopped_behind_its_back(stage: Stage) -> None:
    with held(stage.folder), pytest.raises(UsageError, match="Try again in a moment"):
        stage.launcher.stop(RUN_ID)


def test_a_process_of_another_machine_is_not_stopped_by_its_number_here(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number is somebody else's here: after a reboot under a new host name, for one."""
    stage.at(owner=Owner(pid=1, started_ticks=1, boot_id="another", host="elsewhere"))
    monkeypatch.setattr(os, "kill", lambda pid, number: pytest.fail(f"sends signal {number} to {pid}"))
    with held(stage.folder), pytest.raises(UsageError, match="elsewhere"):
        stage.launcher.stop(RUN_ID)


def test_a_folder_without_a_plan_is_no_run(stage: Stage) -> None:
    (stage.folder.path / PLAN_FILE).unlink()
    with pytest.raises(UnknownRun):
        stage.launcher.resume(RUN_ID)


def test_only_one_process_drives_a_run(stage: Stage, tmp_path: Path) -> None:
    with held(stage.folder), pytest.raises(UsageError, match="driven by another process"):
        stage.launcher.resume(RUN_ID)


def test_a_request_that_is_refused_leaves_no_run(stage: Stage, home: Home, tmp_path: Path) -> None:
    settings = Settings(home=home.path, root=ROOT, device="cpu")
    request = RunRequest(agent="noop", task="arithmetic", model=str(tmp_path))
    host = FakeHost(home, stage.objects)
    host.settings = settings
    launcher = Launcher(cast(Host, host), lambda progress: None)
    before = home.run_ids()
    with pytest.raises(UsageError, match="no Hugging Face model folder"):
        launcher.start(draft(request, settings))
    assert home.run_ids() == before


class ProviderHost(FakeHost):
    """A host whose provider answers as it is told; `asked` is what was prepared before."""

    def __init__(self, stage: Stage, home: Home, tmp_path: Path, answer: ModelList) -> None:
        super().__init__(home, stage.objects)
        folder = tmp_path / "agents" / "caller"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("name: caller\nllm: openai\n")
        (folder / "start.sh").write_text("true\n")
        self.settings = Settings(home=home.path, root=ROOT, device="cpu").model_copy(
            update={"agents_dir": folder.parent, "openai_api_base": "", "openai_api_key": None, "chat_model": ""}
        )
        self.answer = answer
        self.asked: list[list[str]] = []

    def ask_driver(self, plan_draft: RunDraft) -> ModelList:
        self.asked.append([path.name for path in self.home.models.iterdir()])
        return self.answer


def provider_host(stage: Stage, home: Home, tmp_path: Path, **answer: object) -> ProviderHost:
    found = ModelList.model_validate({"provider": "openai", "status": "ok", **answer})
    return ProviderHost(stage, home, tmp_path, found)


def test_a_run_is_refused_before_anything_is_prepared_where_its_llm_is(
    stage: Stage, home: Home, tmp_path: Path
) -> None:
    host = provider_host(stage, home, tmp_path, status="key_refused", error="401: bad key")
    before = home.run_ids()
    request = RunRequest(agent="caller", task="arithmetic", llm_url="http://localhost:1")
    with pytest.raises(PrerequisiteError, match="401: bad key"):
        Launcher(cast(Host, host), lambda progress: None).start(draft(request, host.settings))
    assert host.asked == [[]]
    assert home.run_ids() == before
    assert list(home.models.iterdir()) == []


def test_without_a_key_the_providers_server_is_not_even_asked(stage: Stage, home: Home, tmp_path: Path) -> None:
    host = provider_host(stage, home, tmp_path)
    launcher = Launcher(cast(Host, host), lambda progress: None)
    found = draft(RunRequest(agent="caller", task="arithmetic"), host.settings)
    with pytest.raises(PrerequisiteError, match=r"no key for https://api\.openai\.com"):
        launcher.start(found)
    assert host.asked == []
    host.require_product_images = lambda plan_draft: None
    assert str(home.keys / "openai") in launcher.what_lacks(found)


def test_a_stopped_run_whose_llm_is_away_can_be_taken_up_later(stage: Stage, home: Home, tmp_path: Path) -> None:
    stopped(stage, 40)
    host = provider_host(stage, home, tmp_path, status="unreachable", error="refused")
    request = RunRequest(agent="caller", task="arithmetic", llm_url="http://localhost:1")
    (stage.folder.path / DRAFT_FILE).write_text(draft(request, host.settings).model_dump_json())
    plan = RunPlan.model_validate_json((stage.folder.path / PLAN_FILE).read_text())
    driver = DriverLlm(provider="openai", url="http://localhost:1/v1", model="m")
    (stage.folder.path / PLAN_FILE).write_text(plan.model_copy(update={"llm": driver}).model_dump_json())
    launcher = Launcher(cast(Host, host), lambda progress: None)
    with pytest.raises(PrerequisiteError, match="cannot be reached"):
        launcher.resume(RUN_ID)
    assert stage.objects.calls == []
    assert "reopen" not in stage.grader.calls
    # It now lists another model beside the run's own, which no request named.
    host.answer = ModelList(provider="openai", status="ok", models=("another", "m"))
    launcher.resume(RUN_ID)
    assert "reopen" in stage.grader.calls


def test_a_model_that_is_not_listed_and_an_open_key_file_are_told(stage: Stage, home: Home, tmp_path: Path) -> None:
    host = provider_host(stage, home, tmp_path, models=("gpt-x",))
    said: list[str] = []
    launcher = Launcher(cast(Host, host), lambda progress: said.append(progress.message))
    (home.keys / "openai").write_text("sk-1")
    (home.keys / "openai").chmod(0o644)
    request = RunRequest(agent="caller", task="arithmetic", llm_url="http://localhost:1", llm_model="other")
    found = draft(request, host.settings)
    llm = launcher._driver(found)
    assert llm is not None
    assert (llm.model, llm.key_from) == ("other", str(home.keys / "openai"))
    assert any("does not list other" in text for text in said)
    assert any("chmod 600" in text for text in said)
    assert "sk-1" not in llm.model_dump_json() + "".join(said)

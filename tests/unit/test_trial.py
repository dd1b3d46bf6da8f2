"""The run loop: phases in order, re-entry after a death, and what every kind of ending becomes."""

from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from harness.domain.admin import SubmissionView
from harness.domain.connections import NETWORK, Connection
from harness.domain.llm import OVER_BUDGET
from harness.domain.runs import CONTINUATION, EndedBy, Phase, Verdict
from harness.domain.specs import Continuation, NetworkPolicy
from harness.errors import (
    EvaluationFailed,
    GraderUnavailable,
    InfrastructureError,
    Interrupted,
    ServiceUnavailable,
    WorkspaceSpoiled,
)
from harness.runner import grader_link as link_module
from harness.runner import llm_watch as llm_watch_module
from harness.runner import service_starts as starts_module
from harness.runner import trial as trial_module
from harness.runner.attempt import Attempt
from harness.runner.grader_client import GraderClient
from harness.runner.objects import AgentEnd, RunObjects
from harness.runner.progress import Progress, Reporter
from harness.runner.service_starts import MAX_STARTS
from harness.runner.trial import Trial
from tests.run_fakes import DRIVER, RUN_ID, FakeGrader, FakeObjects, ago, llm_call, make_plan


class Stage:
    """A trial with its fakes."""

    def __init__(self, folder: Path, timeout_s: int = 60, **more) -> None:
        self.objects = FakeObjects(folder)
        self.grader = FakeGrader(self.objects)
        self.shown: list[Progress] = []
        self.plan = make_plan(folder, timeout_s, **more)

    def run(self, start: Phase = Phase.PREPARING):
        return self._trial().run(start)

    def stop(self, phase: Phase):
        return self._trial().stop(phase)

    def _trial(self) -> Trial:
        reporter = Reporter(RUN_ID, self.shown.append, ago(0))
        return Trial(self.plan, cast(GraderClient, self.grader), cast(RunObjects, self.objects), reporter)


class InterruptedOnce:
    """A call that a person interrupts the first time."""

    def __init__(self, call) -> None:
        self.call, self.calls = call, 0

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls == 1:
            raise KeyboardInterrupt
        return self.call(*arguments)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(link_module, "POLL_S", 0.0)
    monkeypatch.setattr(trial_module, "EXIT_POLL_S", 0.0)
    monkeypatch.setattr(starts_module, "FIRST_BACK_OFF_S", 0.0)
    for name in ("POLL_S", "SETTLE_S"):
        monkeypatch.setattr(llm_watch_module, name, 0.0)
    return Stage(tmp_path / "run")


def test_phases_are_entered_in_order_and_everything_is_removed(stage: Stage) -> None:
    status = stage.run()
    assert stage.grader.phases == [
        Phase.PREPARING,
        Phase.BASELINE,
        Phase.AGENT,
        Phase.FINISHING,
        Phase.COLLECTING,
    ]
    assert status.verdict is Verdict.NO_SUBMISSION
    assert stage.objects.calls[-2:] == ["keep record", "remove"]
    assert not stage.objects.folder.token.exists()


def test_services_are_not_started_when_nothing_needs_them(stage: Stage) -> None:
    stage.run()
    assert "start services" not in stage.objects.calls


def test_an_uncached_baseline_starts_the_services(stage: Stage) -> None:
    stage.grader.has_cached_baseline = False
    stage.run()
    assert stage.objects.calls.count("start services") == 1


def test_submissions_in_flight_are_scored_after_the_agent_has_ended(stage: Stage) -> None:
    stage.grader.open_submissions = 3
    stage.objects.end = AgentEnd(EndedBy.CRASH, 1, "exit code 1")
    status = stage.run()
    assert status.verdict is Verdict.GRADED
    assert stage.grader.finished_with is not None
    assert stage.grader.finished_with.ended_by is EndedBy.CRASH


def test_the_baseline_is_told_for_the_items_that_decide_and_for_those_that_are_shown(stage: Stage) -> None:
    stage.run()
    said = [progress.message for progress in stage.shown]
    assert "baseline cached: 11.0 % on the items that decide, 10.0 % on those of the feedback" in said


def test_a_failed_baseline_closes_the_run_as_void(stage: Stage) -> None:
    stage.grader.has_cached_baseline = False
    stage.grader.baseline_error = "the evaluator raised"
    with pytest.raises(EvaluationFailed, match="the evaluator raised"):
        stage.run()
    assert stage.grader.status_now.verdict is Verdict.INFRA_VOID
    assert stage.objects.is_removed


def test_a_workspace_that_its_agent_spoiled_is_the_agents_failure(stage: Stage) -> None:
    """Else an agent whose run is stopped could have it left out of means."""
    stage.objects.raises["prepare"] = WorkspaceSpoiled("the disk is full")
    with pytest.raises(WorkspaceSpoiled):
        stage.run()
    assert stage.grader.status_now.verdict is Verdict.AGENT_FAILED
    assert stage.objects.is_removed


def test_services_that_never_answer_the_grader_make_the_run_void(stage: Stage) -> None:
    stage.grader.open_submissions = 1
    stage.objects.services_die = True
    with pytest.raises(ServiceUnavailable):
        stage.run()
    assert stage.grader.status_now.verdict is Verdict.INFRA_VOID
    assert stage.objects.calls.count("start services") == MAX_STARTS


@pytest.mark.parametrize("phase", [Phase.AGENT, Phase.FINISHING])
def test_services_that_die_of_what_the_agent_hands_in_never_make_the_run_void(stage: Stage, phase: Phase) -> None:
    """`/validate` judges nothing: else a checkpoint that ends the engine, validated often enough, voids its run."""
    stage.grader.deaths_in_use = deaths = 3 * MAX_STARTS
    stage.objects.ends_after = 2 * deaths if phase is Phase.AGENT else 1
    stage.grader.open_submissions = 1
    assert stage.run().verdict is Verdict.GRADED
    assert stage.objects.calls.count("start services") == deaths + 1


def test_services_that_die_of_the_base_model_make_the_run_void(stage: Stage) -> None:
    stage.grader.has_cached_baseline = False
    stage.grader.deaths_in_use = 3 * MAX_STARTS
    with pytest.raises(ServiceUnavailable):
        stage.run()
    assert stage.grader.status_now.verdict is Verdict.INFRA_VOID


def test_starts_that_fail_one_after_the_other_make_the_run_void_also_beside_an_agent(stage: Stage) -> None:
    stage.objects.ends_after = 50
    stage.objects.failing_starts = 50
    stage.grader.open_submissions = 1
    with pytest.raises(ServiceUnavailable, match="killed"):
        stage.run()
    assert stage.objects.calls.count("start services") == MAX_STARTS


def test_services_that_are_killed_while_they_start_are_started_once_more(stage: Stage) -> None:
    stage.grader.has_cached_baseline = False
    stage.objects.failing_starts = 2
    assert stage.run().verdict is Verdict.NO_SUBMISSION
    assert stage.objects.calls.count("start services") == 3


def test_a_grader_that_goes_away_again_is_given_the_workspace_when_it_is_back(stage: Stage) -> None:
    stage.objects.raises["hand over"] = GraderUnavailable("it went away")
    stage.objects.ends_after = 5
    stage.grader.status_now = stage.grader.status_now.model_copy(update={"needs_output": True})
    assert stage.run().verdict is Verdict.NO_SUBMISSION
    assert stage.objects.calls.count("hand over") > 1


def test_a_grader_that_never_takes_the_workspace_is_said_to_do_so(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(link_module, "MAX_HAND_OVERS", 1)
    stage.objects.raises["hand over"] = GraderUnavailable("refused")
    stage.objects.ends_after = 5
    stage.grader.has_cached_baseline = False
    stage.grader.status_now = stage.grader.status_now.model_copy(update={"needs_output": True})
    with pytest.raises(GraderUnavailable, match="refused"):
        stage.run()


def test_an_agent_works_on_while_the_grader_is_away(stage: Stage) -> None:
    stage.objects.ends_after = 5
    waiting = stage.objects.wait_agent

    def wait_agent(timeout_s: float, deadline, llm):
        stage.grader.is_away = 1 < stage.objects.ends_after < 5
        return waiting(timeout_s, deadline, llm)

    stage.objects.wait_agent = wait_agent
    assert stage.run().verdict is Verdict.NO_SUBMISSION
    assert [p.message for p in stage.shown if "waiting for the grader" in p.message] != []
    assert "stop" not in stage.objects.calls


def test_without_a_grader_the_run_is_left_as_it_is(stage: Stage) -> None:
    stage.objects.raises["follow"] = GraderUnavailable("it does not answer")
    with pytest.raises(GraderUnavailable):
        stage.run()
    assert stage.grader.status_now.verdict is None
    assert not stage.objects.is_removed
    assert "stop" not in stage.objects.calls


def test_a_broken_docker_is_never_the_agents_doing(stage: Stage) -> None:
    stage.objects.raises["start"] = InfrastructureError("no space")
    with pytest.raises(InfrastructureError, match="no space"):
        stage.run()
    assert stage.grader.status_now.verdict is Verdict.INFRA_VOID
    assert stage.objects.is_removed


def test_a_daemon_that_goes_away_leaves_the_run_to_be_taken_up_and_voided(stage: Stage) -> None:
    gone = InfrastructureError("Docker does not answer")
    stage.objects.raises = {"wait": gone, "stop": gone}
    with pytest.raises(InfrastructureError, match="does not answer"):
        stage.run()
    assert stage.grader.status_now.verdict is None
    stage.objects.ends_after = 1
    stage.objects.end = AgentEnd(EndedBy.INFRASTRUCTURE, 143, "Docker's daemon was restarted")
    assert stage.run(Phase.AGENT).verdict is Verdict.INFRA_VOID
    assert stage.objects.is_removed


@pytest.mark.parametrize("where", ["prepare", "wait", "start"])
def test_an_interruption_stops_the_run_and_keeps_its_workspace(stage: Stage, where: str) -> None:
    stage.objects.raises[where] = KeyboardInterrupt()
    with pytest.raises(Interrupted, match=RUN_ID):
        stage.run()
    assert stage.grader.status_now.verdict is Verdict.INTERRUPTED
    assert stage.objects.calls[-1] == "remove but the workspace"
    assert "stop on request" in stage.objects.calls


def test_an_interruption_while_scoring_leaves_the_run_open(stage: Stage) -> None:
    stage.grader.open_submissions = 2
    stage.objects.raises["start services"] = KeyboardInterrupt()
    with pytest.raises(Interrupted):
        stage.run(Phase.FINISHING)
    assert stage.grader.status_now.verdict is None
    # The grader's descriptor of the workspace would keep it mounted.
    assert stage.objects.calls[-2:] == ["release", "remove but the workspace"]


def test_an_interruption_after_the_agents_end_keeps_how_it_ended(stage: Stage) -> None:
    stage.objects.end = AgentEnd(EndedBy.CRASH, 3, "exit code 3")
    finish = stage.grader.finish = InterruptedOnce(stage.grader.finish)
    with pytest.raises(Interrupted):
        stage.run()
    assert finish.calls == 2
    assert stage.grader.status_now.ended_by is EndedBy.CRASH
    assert stage.grader.status_now.verdict is None


def test_a_stop_that_is_broken_off_is_marked_and_can_be_made_again(stage: Stage) -> None:
    stage.objects.raises = {"wait": KeyboardInterrupt(), "stop on request": KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        stage.run()
    assert stage.grader.status_now.verdict is None
    marked = Attempt.load(stage.objects.folder).stopped_at
    assert marked is not None
    stage.objects.ended_at = ago(7)
    stage.stop(Phase.AGENT)
    assert stage.grader.status_now.verdict is Verdict.INTERRUPTED
    assert Attempt.load(stage.objects.folder).stopped_at == stage.objects.ended_at


def test_a_stop_that_is_broken_off_before_the_record_is_closed_keeps_the_workspace(stage: Stage) -> None:
    stage.objects.raises["wait"] = KeyboardInterrupt()
    stage.grader.close = InterruptedOnce(stage.grader.close)
    with pytest.raises(KeyboardInterrupt):
        stage.run()
    assert stage.grader.status_now.ended_by is EndedBy.STOPPED
    stage.stop(Phase.FINISHING)
    assert stage.grader.status_now.verdict is Verdict.INTERRUPTED
    assert stage.objects.calls[-1] == "remove but the workspace"


def test_a_live_agent_is_adopted_with_its_own_clock(stage: Stage) -> None:
    stage.objects.agent_started_at = ago(30)
    Attempt(is_started=True).save(stage.objects.folder)
    stage.grader.status_now = stage.grader.status_now.model_copy(update={"started_at": ago(30), "deadline": ago(-30)})
    stage.run(Phase.AGENT)
    assert "start" not in stage.objects.calls
    assert "clock" not in stage.grader.calls


def test_the_clock_is_the_containers_own(stage: Stage) -> None:
    """Set before the agent can ask for it, and right once it has started: start, budget and end agree."""
    stage.run()
    status = stage.grader.status_now
    assert status.started_at == stage.objects.agent_started_at
    assert status.deadline == status.started_at + timedelta(seconds=stage.plan.limits.timeout_s)


def test_the_grader_has_the_workspace_before_the_agent_starts(stage: Stage) -> None:
    stage.run()
    assert stage.objects.calls.index("hand over") < stage.objects.calls.index("start")


def test_a_later_attempt_keeps_the_first_start(stage: Stage) -> None:
    first = ago(1000)
    stage.grader.status_now = stage.grader.status_now.model_copy(update={"started_at": first, "deadline": ago(900)})
    Attempt(number=2, used_s=20.0).save(stage.objects.folder)
    stage.run(Phase.AGENT)
    assert stage.grader.status_now.started_at == first


def test_an_agent_that_was_created_but_never_started_is_started(stage: Stage) -> None:
    stage.run(Phase.AGENT)
    assert stage.objects.calls.count("start") == 1
    assert Attempt.load(stage.objects.folder).is_started


def test_a_container_that_has_disappeared_is_infrastructure(stage: Stage) -> None:
    Attempt(is_started=True).save(stage.objects.folder)
    status = stage.run(Phase.AGENT)
    assert status.verdict is Verdict.INFRA_VOID


def test_a_death_while_finishing_asks_the_container_again(stage: Stage) -> None:
    stage.objects.agent_started_at = ago(30)
    stage.objects.end = AgentEnd(EndedBy.OUT_OF_MEMORY, 137, "")
    status = stage.run(Phase.FINISHING)
    assert status.verdict is Verdict.AGENT_FAILED


def test_a_death_while_collecting_keeps_the_recorded_end(stage: Stage) -> None:
    stage.grader.scored = 1
    status = stage.run(Phase.COLLECTING)
    assert status.verdict is Verdict.GRADED
    assert stage.grader.phases == [Phase.COLLECTING]


def test_a_resumed_agent_gets_only_the_time_that_was_left(stage: Stage) -> None:
    Attempt(number=2, used_s=45.0).save(stage.objects.folder)
    stage.run()
    assert "create 15" in stage.objects.calls
    deadline, started = stage.grader.status_now.deadline, stage.objects.agent_started_at
    assert deadline is not None
    assert started is not None
    assert abs(deadline - started - timedelta(seconds=15)) < timedelta(seconds=1)


def test_an_agent_that_outlives_its_deadline_is_stopped(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "DEADLINE_GRACE_S", -1000.0)
    stage.objects.ends_after = 50
    stage.run()
    assert "stop" in stage.objects.calls


def test_progress_shows_phase_time_left_and_submissions(stage: Stage) -> None:
    stage.objects.ends_after = 3
    stage.run()
    agent = [p for p in stage.shown if p.phase is Phase.AGENT and not p.message]
    assert any(p.remaining_s is not None and p.remaining_s > 0 for p in stage.shown)
    assert agent


def test_messages_and_states_have_one_clock_once_the_agent_has_started(stage: Stage) -> None:
    """The run is taken up after an hour, or its baseline took one."""
    shown: list[Progress] = []
    reporter = Reporter(RUN_ID, shown.append, ago(3600))
    reporter.say(Phase.BASELINE, "scored")
    reporter.show(stage.grader.status_now.model_copy(update={"started_at": ago(20)}), Phase.AGENT)
    reporter.say(Phase.AGENT, "it goes on")
    assert [round(one.elapsed_s, -1) for one in shown] == [3600, 20, 20]


EARLY = Continuation(min_left_s=10)
DONE = AgentEnd(EndedBy.FINISHED, 0, "")


def continued(stage: Stage, *ends: AgentEnd, **plan) -> Stage:
    """The stage with an agent that is continued, and ends so."""
    stage.plan = make_plan(stage.objects.folder.path, 60, **{"continuation": EARLY, **plan})
    *stage.objects.earlier, stage.objects.end = ends
    return stage


def parts(stage: Stage) -> list[str]:
    return [
        call for call in stage.objects.calls if call.split()[0] in ("create", "start", "remove") and call != "remove"
    ]


def test_an_agent_that_ends_early_goes_on_with_the_time_that_is_left(stage: Stage) -> None:
    crash, over = AgentEnd(EndedBy.CRASH, 1, "exit code 1"), AgentEnd(EndedBy.DEADLINE, 124, "its time was up")
    continued(stage, DONE, crash, over).run()
    # The fake starts and ends parts within no time, so that nearly all is left.
    assert parts(stage) == ["start gateway", "create 60", "start", *["remove agent", "create 60", "start"] * 2]
    assert stage.grader.calls.count("clock") == 2, "the clock is set for the first part alone"
    told = [event.detail for event in stage.grader.events if event.kind == CONTINUATION]
    assert [(fact["number"], fact["ended_by"], fact["exit_code"]) for fact in told] == [
        (1, "finished", 0),
        (2, "crash", 1),
    ]
    assert stage.grader.status_now.ended_by is EndedBy.DEADLINE
    assert Attempt.load(stage.objects.folder).continuation == 2


def test_what_an_agent_is_told_when_it_goes_on(stage: Stage) -> None:
    best = SubmissionView(submission_id=1, state="scored", model_path="v", submitted_at=ago(1), shown_pct=37.5)
    stage.grader.status_now = stage.grader.status_now.model_copy(update={"submissions": (best,)})
    continued(stage, DONE, AgentEnd(EndedBy.DEADLINE, 124, "")).run()
    assert "37.5" in (stage.objects.folder.meta / "continue.md").read_text()


@pytest.mark.parametrize(
    "kind", [EndedBy.BUDGET, EndedBy.INFRASTRUCTURE, EndedBy.OUT_OF_MEMORY, EndedBy.DISK_FULL, EndedBy.DEADLINE]
)
def test_an_end_that_is_a_limits_is_the_end(stage: Stage, kind: EndedBy) -> None:
    continued(stage, AgentEnd(kind, 1, "")).run()
    assert stage.objects.calls.count("start") == 1


def test_two_continuations_that_did_nothing_are_enough(stage: Stage) -> None:
    continued(stage, DONE).run()
    assert stage.objects.calls.count("start") == 3
    assert "called no LLM and submitted nothing" in " ".join(progress.message for progress in stage.shown)


def test_one_that_does_something_is_continued_up_to_a_number(stage: Stage) -> None:
    continued(stage, DONE, llm=DRIVER, continuation=Continuation(min_left_s=1, max_times=4))
    waiting = stage.objects.wait_agent

    def wait_agent(timeout_s: float, deadline, llm):
        stage.objects.gateway.rows.append(llm_call(len(stage.objects.gateway.rows)))
        return waiting(timeout_s, deadline, llm)

    stage.objects.wait_agent = wait_agent
    stage.run()
    assert stage.objects.calls.count("start") == 5
    assert len(stage.grader.llm_calls) == 5


def test_too_little_time_left_is_no_time(stage: Stage) -> None:
    continued(stage, DONE, continuation=Continuation(min_left_s=61)).run()
    assert stage.objects.calls.count("start") == 1


def test_an_agent_that_cannot_be_taken_up_is_told_once(stage: Stage) -> None:
    continued(stage, DONE)
    agent = stage.plan.agent
    config = agent.config.model_copy(update={"resume": None})
    stage.plan = stage.plan.model_copy(update={"agent": agent.model_copy(update={"config": config})})
    stage.run()
    assert [p.message for p in stage.shown if "no `resume` script" in p.message] != []
    assert stage.objects.calls.count("start") == 1


def dying(stage: Stage, where: str) -> None:
    """The harness dies there: nothing of it is left but what is on disk."""
    stage.objects.raises[where] = SystemExit()
    with pytest.raises(SystemExit):
        stage.run()
    stage.objects.raises.clear()


@pytest.mark.parametrize("where", ["remove agent", "create 60", "start"])
def test_a_death_between_two_parts_is_taken_up_there(stage: Stage, where: str, monkeypatch) -> None:
    continued(stage, DONE, AgentEnd(EndedBy.DEADLINE, 124, ""))
    if where == "remove agent":
        dying(stage, where)
    else:
        calling = stage.objects.remove_agent

        def remove_agent() -> None:
            calling()
            stage.objects.raises[where] = SystemExit()

        stage.objects.remove_agent = remove_agent
        with pytest.raises(SystemExit):
            stage.run()
    deadline = stage.grader.status_now.deadline
    if where == "start":
        # Created and never started: what `find_agent` finds then.
        Attempt.load(stage.objects.folder).unstarted().save(stage.objects.folder)
    stage.run(Phase.AGENT)
    assert stage.grader.status_now.ended_by is EndedBy.DEADLINE
    assert stage.grader.status_now.deadline == deadline
    assert Attempt.load(stage.objects.folder).continuation == 1


def test_a_run_that_is_stopped_while_it_is_continued_keeps_its_parts() -> None:
    attempt = Attempt().continued(3, 1).started().stopped(ago(1)).next(40.0)
    assert (attempt.number, attempt.continuation, attempt.calls, attempt.used_s) == (2, 1, 3, 40.0)
    assert not attempt.is_continuing
    assert not attempt.is_started
    assert attempt.stopped_at is None


def test_an_agent_whose_budget_is_spent_is_stopped(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_watch_module, "LAST_ACT_S", 0.0)
    stage.plan = make_plan(stage.objects.folder.path, llm=DRIVER)
    stage.objects.gateway.tell(OVER_BUDGET)
    stage.objects.ends_after = 50
    stage.run()
    assert "stop" in stage.objects.calls
    assert stage.objects.saw is not None
    assert "budget of its driver LLM" in stage.objects.saw.spent
    assert stage.objects.gateway.is_closed


def test_a_gateway_that_does_not_come_back_voids_the_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm_watch_module, "PATIENCE_S", 0.0)
    stage.plan = make_plan(stage.objects.folder.path, llm=DRIVER)
    stage.objects.ends_after = 50
    following = stage.objects.follow_log

    def follow_log() -> None:
        following()
        stage.objects.gateway.is_away = True
        stage.objects.raises["start gateway"] = ServiceUnavailable("the gateway ended")

    stage.objects.follow_log = follow_log
    with pytest.raises(ServiceUnavailable):
        stage.run()
    assert stage.grader.status_now.verdict is Verdict.INFRA_VOID
    assert stage.objects.is_removed


def test_calls_are_recorded_also_after_the_grader_was_away(stage: Stage) -> None:
    stage.plan = make_plan(stage.objects.folder.path, llm=DRIVER)
    stage.objects.gateway.rows = [llm_call(1)]
    stage.objects.ends_after = 5
    waiting = stage.objects.wait_agent

    def wait_agent(timeout_s: float, deadline, llm):
        stage.grader.is_away = 1 < stage.objects.ends_after < 5
        return waiting(timeout_s, deadline, llm)

    stage.objects.wait_agent = wait_agent
    stage.run()
    assert [call.number for call in stage.grader.llm_calls] == [1]


def test_a_death_while_finishing_asks_the_gateway_again(stage: Stage) -> None:
    stage.plan = make_plan(stage.objects.folder.path, llm=DRIVER)
    stage.objects.agent_started_at = ago(30)
    stage.objects.gateway.rows = [llm_call(1, 500, given_up="the provider answered 500")]
    stage.run(Phase.FINISHING)
    assert stage.objects.saw is not None
    assert stage.objects.saw.given_up == "the provider answered 500"


def test_what_a_run_reached_is_in_its_record_once_it_has_ended(stage: Stage) -> None:
    stage.plan = make_plan(stage.objects.folder.path, network=NetworkPolicy.ALLOWLIST, allowed_hosts=("pypi.org",))
    for number in range(5):
        fields = {"number": number, "at": ago(0), "host": "pypi.org", "port": 443, "verdict": "allowed"}
        stage.objects.gateway.reached.append(Connection.model_validate(fields | {"bytes_down": 10}))
    stage.run()
    (event,) = [event for event in stage.grader.events if event.kind == NETWORK]
    assert stage.objects.gateway.is_closed
    (host,) = event.detail["hosts"]
    assert (host["host"], host["allowed"], host["bytes_down"]) == ("pypi.org", 5, 50)


def test_a_run_without_a_network_has_no_such_event(stage: Stage) -> None:
    stage.plan = make_plan(stage.objects.folder.path, llm=DRIVER)
    stage.run()
    assert NETWORK not in {event.kind for event in stage.grader.events}

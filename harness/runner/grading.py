"""A checkpoint that is scored outside a run: the trial without an agent, by the same grader, services and record."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.domain.admin import CloseRun, EventIn, FinishRun, GradeCheckpoint, RunStatus, SetPhase, StartClock
from harness.domain.runs import EndedBy, Phase, SubmissionState, Verdict
from harness.domain.specs import RunPlan
from harness.errors import (
    ErrorClass,
    EvaluationFailed,
    GraderUnavailable,
    HarnessError,
    InfrastructureError,
    Interrupted,
)
from harness.runner.grader_client import GraderClient
from harness.runner.objects import RunObjects
from harness.runner.progress import Reporter
from harness.runner.service_keeper import ServiceKeeper
from harness.sandbox.owner import current_owner

POLL_S = 0.5
MAX_HAND_OVERS = 30


class GradingTrial:
    """Drives one registered grading to its verdict; whatever ends it, nothing but its record is left."""

    def __init__(self, plan: RunPlan, grader: GraderClient, objects: RunObjects, reporter: Reporter) -> None:
        if plan.grading is None:
            raise ValueError(f"{plan.run_id} is no grading")
        self._plan, self._grading = plan, plan.grading
        self._grader = grader
        self._objects = objects
        self._reporter = reporter
        self._phase = Phase.PREPARING
        self._refused = 0
        self._services = ServiceKeeper(
            objects,
            note=lambda start: grader.add_event(plan.run_id, EventIn(kind="services", detail={"start": start})),
            say=lambda message: reporter.say(self._phase, message),
        )

    def run(self) -> RunStatus:
        """From the registered plan to the verdict.

        Raises:
            Interrupted: by a person, after it was closed.
            GraderUnavailable: nothing could be recorded; the next harness closes it.
            HarnessError: it was closed as void.
        """
        try:
            status = self._concluded(self._scored())
        except (Interrupted, KeyboardInterrupt) as error:
            self._end(EndedBy.STOPPED, "")
            raise Interrupted(f"grading {self._plan.run_id} was interrupted", "Start it again.") from error
        except GraderUnavailable:
            self._objects.remove(keep_workspace=False)
            raise
        except HarnessError as error:
            self._end(EndedBy.INFRASTRUCTURE, str(error))
            raise
        if status.verdict is Verdict.INFRA_VOID:
            raise EvaluationFailed(f"the checkpoint could not be scored: {reason_of(status)}", "Try again.")
        return status

    def _scored(self) -> RunStatus:
        """The grading with all that it asked for scored, failed or refused."""
        if self._grading.has_base:
            handed_in = self._hand_in()
            if handed_in.submissions[-1].state is SubmissionState.REJECTED:
                return handed_in
        self._enter(Phase.BASELINE)
        self._grader.ask_baseline(self._plan.run_id)
        return self._wait_for(lambda status: not status.open_submissions and _has_baseline(status))

    def _hand_in(self) -> RunStatus:
        """The status once the checkpoint is admitted, or refused."""
        now = datetime.now(UTC)
        clock = StartClock(started_at=now, deadline=now + timedelta(seconds=self._plan.limits.timeout_s))
        self._grader.start_clock(self._plan.run_id, clock)
        self._hand_over()
        self._reporter.say(self._phase, "copying and checking the checkpoint")
        self._grader.grade(self._plan.run_id, GradeCheckpoint(model_path=Path(self._grading.path).name))
        return self._wait_for(lambda status: all(s.state is not SubmissionState.ADMITTING for s in status.submissions))

    def _wait_for(self, is_so: Callable[[RunStatus], bool]) -> RunStatus:
        while not is_so(status := self._poll()):
            time.sleep(POLL_S)
        return status

    def _poll(self) -> RunStatus:
        """Where it is; does what the grader needs of the harness."""
        status = self._grader.status(self._plan.run_id)
        self._reporter.show(status, self._phase)
        if status.needs_output and self._grading.has_base and any(_is_admitting(s.state) for s in status.submissions):
            self._hand_over()
        if status.needs_services:
            self._services.keep(status)
        return status

    def _hand_over(self) -> None:
        """The folder that the checkpoint lies in; a grader that was started anew has to be given it again."""
        try:
            self._grader.hand_over(self._plan.run_id, Path(self._grading.path).parent)
            self._refused = 0
        except InfrastructureError:
            self._refused += 1
            if self._refused >= MAX_HAND_OVERS:
                raise

    def _concluded(self, status: RunStatus) -> RunStatus:
        error = "" if self._grading.has_base else status.baseline_error or ""
        if error and not error.startswith(ErrorClass.LOAD_FAILED):
            raise EvaluationFailed(f"the model could not be scored: {error}", "Put right what the message names.")
        if self._grading.has_base and status.baseline_error and not _is_refused(status):
            # The checkpoint's own score is worth having without the improvement.
            self._reporter.say(self._phase, f"the base model could not be scored: {status.baseline_error}")
        # A model that does not load is its own fault, as with an agent's.
        return self._end(EndedBy.CRASH if error else EndedBy.FINISHED, error)

    def _end(self, ended_by: EndedBy, detail: str) -> RunStatus:
        """Closes the record and removes what was started."""
        try:
            self._enter(Phase.COLLECTING)
            self._grader.finish(self._plan.run_id, FinishRun(ended_by=ended_by, detail=detail[:2000]))
            status = self._grader.close(self._plan.run_id, CloseRun())
            self._objects.keep_record()
        finally:
            self._objects.remove(keep_workspace=False)
        return status

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._grader.set_phase(self._plan.run_id, SetPhase(phase=phase, owner=current_owner()))


def reason_of(status: RunStatus) -> str:
    """Why a grading has no score, in the grader's words."""
    failed = next((s for s in status.submissions if s.detail), None)
    return (failed.detail if failed else None) or status.baseline_error or "no reason was recorded"


def _has_baseline(status: RunStatus) -> bool:
    return status.baseline is not None or status.baseline_error is not None


def _is_admitting(state: SubmissionState) -> bool:
    return state is SubmissionState.ADMITTING


def _is_refused(status: RunStatus) -> bool:
    return any(s.state is SubmissionState.REJECTED for s in status.submissions)

"""What a run and the grader tell each other while it goes on: its state, its events, its workspace, its services."""

from __future__ import annotations

import time

from harness.domain.admin import EventIn, RunStatus, SetPhase
from harness.domain.runs import Phase
from harness.errors import InfrastructureError
from harness.runner.grader_client import GraderClient
from harness.runner.objects import RunObjects
from harness.runner.progress import Reporter
from harness.runner.service_keeper import ServiceKeeper
from harness.sandbox.owner import current_owner

POLL_S = 1.0
SAMPLE_EVERY_S = 10.0
# A grader that is there and takes no descriptor so many times in a row never will.
MAX_HAND_OVERS = 30


class GraderLink:
    """The grader's word on one run, shown to a person as it comes; `phase` is where the run is."""

    def __init__(self, run_id: str, grader: GraderClient, objects: RunObjects, reporter: Reporter) -> None:
        self._run_id = run_id
        self._grader = grader
        self._objects = objects
        self._reporter = reporter
        self._services = ServiceKeeper(objects, note=lambda start: self.note("services", start=start), say=self.say)
        self.phase = Phase.PREPARING
        self._polled_at = self._sampled_at = 0.0
        self._refused = 0
        self._last: RunStatus | None = None

    def enter(self, phase: Phase) -> None:
        """The run is in `phase` from now on, and this process drives it."""
        self.phase = phase
        self._grader.set_phase(self._run_id, SetPhase(phase=phase, owner=current_owner()))

    def say(self, message: str) -> None:
        """Something that is worth a line for a person."""
        self._reporter.say(self.phase, message)

    def note(self, kind: str, **detail: object) -> None:
        """An event of the record."""
        self._grader.add_event(self._run_id, EventIn(kind=kind, detail=detail))

    def status(self) -> RunStatus:
        """The run's state, now."""
        status = self._last = self._grader.status(self._run_id)
        self._reporter.show(status, self.phase)
        return status

    def poll(self) -> RunStatus:
        """The run's state, at most once in POLL_S; does what the grader needs of the harness."""
        if self._last is not None and time.monotonic() < self._polled_at + POLL_S:
            return self._last
        status = self.status()
        self._polled_at = time.monotonic()
        if status.needs_output:
            self.hand_over()
        if status.needs_services:
            self._services.keep(status)
        self._sample()
        return status

    def hand_over(self) -> None:
        """Gives it the workspace. One that has just been started anew may go away again: it asks when it is back."""
        try:
            self._objects.hand_over(self._grader)
            self._refused = 0
        except InfrastructureError as error:
            self._refused += 1
            if self._refused >= MAX_HAND_OVERS:
                raise
            self.say(f"the grader did not take the workspace: {error.what}")

    def _sample(self) -> None:
        if self.phase is not Phase.AGENT or time.monotonic() - self._sampled_at < SAMPLE_EVERY_S:
            return
        self._sampled_at = time.monotonic()
        sample = self._objects.sample()
        if sample is not None:
            self._grader.add_sample(self._run_id, sample)

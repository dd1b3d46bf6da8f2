"""One run, phase by phase; each phase can be entered again after a death (architecture.md, "Flow of one run")."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from harness.domain.admin import ArtifactIn, CloseRun, FinishRun, RunStatus, StartClock
from harness.domain.runs import CONTINUATION, EndedBy, Phase, Verdict
from harness.domain.specs import RunPlan
from harness.errors import (
    EvaluationFailed,
    GraderUnavailable,
    HarnessError,
    Interrupted,
    meaning_of,
)
from harness.runner.attempt import Attempt
from harness.runner.collect import collect
from harness.runner.continuation import why_not
from harness.runner.grader_client import GraderClient
from harness.runner.grader_link import GraderLink
from harness.runner.llm_watch import LlmWatch
from harness.runner.objects import AgentEnd, RunObjects
from harness.runner.progress import Reporter
from harness.runner.prompts import prompt_sha256, write_continue
from harness.runner.workspace import clock_copy, write_clock

EXIT_POLL_S = 0.2
# The agent's container ends itself at its deadline (`timeout -k`); the harness steps in only after this.
DEADLINE_GRACE_S = 20.0
ORDER = list(Phase)


class Trial:
    """Drives one registered run to its verdict."""

    def __init__(self, plan: RunPlan, grader: GraderClient, objects: RunObjects, reporter: Reporter) -> None:
        self._plan = plan
        self._grader = grader
        self._objects = objects
        self._folder = objects.folder
        self._link = GraderLink(plan.run_id, grader, objects, reporter)
        self._llm = LlmWatch(plan, grader, objects, say=self._link.say)
        self._is_grader_missed = False
        self._end: AgentEnd | None = None

    def run(self, start: Phase) -> RunStatus:
        """From phase `start` to the verdict. An interruption stops the run cleanly and keeps everything.

        Raises:
            Interrupted: after the run was stopped.
            GraderUnavailable: the run is left as it is, its agent at work, to be taken up by `harness resume`.
            HarnessError: after the run was closed as void.
        """
        try:
            for phase, enter in self._phases():
                if ORDER.index(phase) >= ORDER.index(start):
                    self._link.enter(phase)
                    enter()
            return self._link.status()
        except (Interrupted, KeyboardInterrupt) as error:
            self.stop(self._link.phase)
            raise Interrupted(
                f"run {self._plan.run_id} was stopped", f"Take it up with `harness resume {self._plan.run_id}`."
            ) from error
        except GraderUnavailable:
            # Nothing can be recorded, and what the agent does is worth keeping.
            raise
        except HarnessError as error:
            self._void(error)
            raise

    def _phases(self) -> tuple[tuple[Phase, Callable[[], None]], ...]:
        return (
            (Phase.PREPARING, self._prepare),
            (Phase.BASELINE, self._baseline),
            (Phase.AGENT, self._agent),
            (Phase.FINISHING, self._finish),
            (Phase.COLLECTING, self._collect),
        )

    def _prepare(self) -> None:
        self._objects.prepare()
        self._link.note("workspace", quota=self._objects.quota_mode, size_mb=self._plan.limits.disk_mb)
        self._link.note("prompt", sha256=prompt_sha256(self._plan))

    def _baseline(self) -> None:
        status = self._grader.ask_baseline(self._plan.run_id)
        while status.baseline is None:
            if status.baseline_error is not None:
                raise EvaluationFailed(
                    f"the baseline could not be scored: {status.baseline_error}",
                    "Put right what the message names, then start a new run.",
                )
            time.sleep(EXIT_POLL_S)
            status = self._link.poll()
        kind = "cached" if status.baseline.is_cached else "scored"
        found = f"{status.baseline.final_pct:.1f} % on the items that decide"
        if status.baseline.feedback_pct not in (None, status.baseline.final_pct):
            # What is shown while a run goes on; the two differ, and only one of them is in the headline.
            found += f", {status.baseline.feedback_pct:.1f} % on those of the feedback"
        self._link.say(f"baseline {kind}: {found}")

    def _agent(self) -> None:
        self._objects.prepare()
        attempt = Attempt.load(self._folder)
        started_at = self._objects.find_agent()
        if started_at is None and attempt.is_started:
            self._end = AgentEnd(EndedBy.INFRASTRUCTURE, None, "the agent's container has disappeared")
            return
        if started_at is not None and not attempt.is_started:
            # A death between the end of one part and the start of the next.
            self._objects.remove_agent()
            started_at = None
        self._llm.start()
        if started_at is None:
            deadline = self._start_agent(attempt)
        else:
            deadline = self._link.status().deadline or self._set_clock(started_at, attempt)
        self._end = self._follow(deadline)
        while self._is_continued(self._end, deadline):
            self._end = self._follow(deadline)
        self._llm.finish()

    def _follow(self, deadline: datetime) -> AgentEnd:
        """The end of the container that was started."""
        self._objects.follow_log()
        while (end := self._objects.wait_agent(EXIT_POLL_S, deadline, self._llm.evidence)) is None:
            self._llm.look()
            self._poll_if_possible()
            self._enforce(deadline)
        return end

    def _is_continued(self, end: AgentEnd, deadline: datetime) -> bool:
        """Whether the agent goes on in a new container, with what is left of its time."""
        left_s = (deadline - datetime.now(UTC)).total_seconds()
        attempt = Attempt.load(self._folder).continued(self._llm.answered, len(self._link.status().submissions))
        words = why_not(self._plan, end, attempt, left_s)
        if words is not None:
            if words:
                self._link.say(words)
            return False
        self._link.say(f"the agent ended with {left_s:.0f} s left: it goes on ({attempt.continuation})")
        facts = {"ended_by": end.ended_by.value, "exit_code": end.exit_code, "left_s": round(left_s)}
        self._link.note(CONTINUATION, number=attempt.continuation, **facts)
        attempt.save(self._folder)
        self._objects.remove_agent()
        self._start_part(attempt, deadline)
        return True

    def _start_part(self, attempt: Attempt, deadline: datetime) -> None:
        """A continuation: the clock goes on."""
        left_s = (deadline - datetime.now(UTC)).total_seconds()
        told = [one.shown_pct for one in self._link.status().submissions if one.shown_pct is not None]
        write_continue(self._folder, self._plan, left_s, max(told, default=None))
        self._objects.create_agent(left_s)
        self._link.hand_over()
        attempt.started().save(self._folder)
        self._objects.start_agent()

    def _poll_if_possible(self) -> None:
        """An agent works on while the grader is away."""
        try:
            self._llm.send()
            self._link.poll()
            self._is_grader_missed = False
        except GraderUnavailable as error:
            if not self._is_grader_missed:
                self._link.say(f"waiting for the grader: {error.what}")
            self._is_grader_missed = True

    def _enforce(self, deadline: datetime) -> None:
        """Ends an agent that outlived its time, its LLM, or its disk where no file system of its own stops it."""
        is_late = datetime.now(UTC) > deadline + timedelta(seconds=DEADLINE_GRACE_S)
        if is_late or self._llm.must_stop() or self._objects.is_over_quota():
            self._objects.stop_agent(is_requested=False)

    def _start_agent(self, attempt: Attempt) -> datetime:
        """Starts the agent of an attempt, or the part at which the harness died; returns the deadline."""
        if attempt.is_continuing and (deadline := self._link.status().deadline) is not None:
            self._start_part(attempt, deadline)
            return deadline
        self._objects.create_agent(self._plan.limits.timeout_s - attempt.used_s)
        self._link.note("agent", attempt=attempt.number, used_s=attempt.used_s)
        # The clock is there before the agent can ask for it, and is set right once Docker says when it started.
        self._set_clock(datetime.now(UTC), attempt)
        # So is its workspace: an agent may hand in something with its first breath.
        self._link.hand_over()
        attempt.started().save(self._folder)
        # A run that was stopped and taken up again keeps the start of its first attempt.
        return self._set_clock(self._objects.start_agent(), attempt, is_exact=not attempt.used_s)

    def _set_clock(self, started_at: datetime, attempt: Attempt, *, is_exact: bool = False) -> datetime:
        """Tells the grader and the agent when the agent started; returns the deadline."""
        origin = started_at - timedelta(seconds=attempt.used_s)
        deadline = origin + timedelta(seconds=self._plan.limits.timeout_s)
        clock = StartClock(started_at=origin, deadline=deadline, is_exact=is_exact)
        self._grader.start_clock(self._plan.run_id, clock)
        write_clock(self._folder, clock_copy(self._plan, origin, deadline, None))
        return deadline

    def _finish(self) -> None:
        status = self._link.status()
        if status.ended_by is None:
            status = self._record_end(self._end or self._last_end(status))
        if status.open_submissions:
            self._objects.prepare()
        while status.open_submissions:
            time.sleep(EXIT_POLL_S)
            status = self._link.poll()

    def _record_end(self, end: AgentEnd) -> RunStatus:
        self._link.say(f"the agent ended: {', '.join(filter(None, (end.ended_by.value, end.detail)))}")
        return self._grader.finish(
            self._plan.run_id, FinishRun(ended_by=end.ended_by, exit_code=end.exit_code, detail=end.detail)
        )

    def _last_end(self, status: RunStatus) -> AgentEnd:
        """How the agent ended, asked again after a death of the harness."""
        if self._objects.find_agent() is None:
            return AgentEnd(EndedBy.INFRASTRUCTURE, None, "the agent's container has disappeared")
        self._llm.start()
        end = self._objects.wait_agent(EXIT_POLL_S, status.deadline, self._llm.evidence)
        return end or AgentEnd(EndedBy.INFRASTRUCTURE, None, "the agent's container would not end")

    def _collect(self) -> None:
        self._close(is_kept=False)

    def _close(self, *, is_kept: bool) -> None:
        """Keeps what is worth keeping, ends the record, and removes everything that was started.

        The record is closed first: the grader lets go of the workspace with it, which could not be unmounted before.
        """
        self._llm.finish()
        artifacts: tuple[ArtifactIn, ...] = ()
        if self._objects.attach_for_collection():
            kept = collect(self._folder, self._plan.agent.config.trajectory)
            artifacts = tuple(kept.artifacts)
            if kept.left_out:
                self._link.note("left_out", files=kept.left_out)
        self._grader.close(self._plan.run_id, CloseRun(artifacts=artifacts))
        self._objects.keep_record()
        self._objects.remove(keep_workspace=is_kept)
        if not is_kept:
            self._folder.token.unlink(missing_ok=True)

    def stop(self, phase: Phase) -> RunStatus:
        """Stops a run that is in `phase`: what runs is ended, what exists is kept; one past its agent is left open.

        May be called again where it was broken off.
        """
        self._link.phase = phase
        self._link.say("stopping; everything is kept")
        # The record of a run whose stop was broken off can say `finishing` already: the mark tells what it was.
        is_marked = Attempt.load(self._folder).stopped_at is not None
        if is_marked or ORDER.index(phase) < ORDER.index(Phase.FINISHING):
            self._stop_agent()
            self._grader.finish(self._plan.run_id, FinishRun(ended_by=EndedBy.STOPPED))
            self._close(is_kept=True)
        else:
            if self._end is not None:
                self._record_end(self._end)
            self._grader.release(self._plan.run_id)
            self._objects.remove(keep_workspace=True)
        return self._link.status()

    def _stop_agent(self) -> None:
        attempt = Attempt.load(self._folder)
        # First the mark: should this be broken off, the agent's end is not taken for its own doing.
        attempt = attempt if attempt.stopped_at else attempt.stopped(datetime.now(UTC))
        attempt.save(self._folder)
        ended_at = self._objects.stop_agent(is_requested=True)
        if ended_at is not None:
            attempt.stopped(ended_at).save(self._folder)

    def _void(self, error: HarnessError) -> None:
        """Closed with what was scored before; if nothing was, void, unless it is the agent's own doing."""
        is_agents = meaning_of(error).verdict == Verdict.AGENT_FAILED
        ended_by = EndedBy.CRASH if is_agents else EndedBy.INFRASTRUCTURE
        self._link.say(f"failed: {error.what}")
        detail = str(error)[:2000]
        self._objects.stop_agent(is_requested=False)
        self._grader.finish(self._plan.run_id, FinishRun(ended_by=ended_by, detail=detail))
        self._close(is_kept=False)

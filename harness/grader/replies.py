"""Replies of the agent side, made from the records: feedback only, and never an engine's own words."""

from __future__ import annotations

from collections.abc import Sequence

from harness.domain.base import now_utc
from harness.domain.runs import SubmissionState
from harness.domain.specs import Protocol
from harness.errors import ErrorClass
from harness.grader.gpu_memory import refused
from harness.grader.registry import ActiveRun
from harness.grader.schemas import (
    Best,
    FailedReply,
    HealthReply,
    SubmissionReply,
    SubmissionsReply,
    SubmitReply,
    TimeReply,
)
from harness.grader.shown import difference, shown_score
from harness.grader.standings import Standings
from harness.store.database import Database
from harness.store.models import PartScores, SubmissionRecord
from harness.store.records_evaluations import get_baseline
from harness.store.records_queue import get_submission_by_number, submissions_of

FAILURES = {
    ErrorClass.LOAD_FAILED: (
        "the engine could not load this checkpoint",
        "Check it with POST /validate, or load it yourself with transformers from its folder.",
    ),
    ErrorClass.TOO_SLOW: (
        "this checkpoint's answers took many times longer than the base model's can, twice",
        "The base model was answered in time by the same engine. Check that your model's answers come to an end.",
    ),
    ErrorClass.UNSCORABLE: (
        "this checkpoint, or what it answers, broke its evaluation twice",
        "The base model was scored in between by the same services. Generate with your model and look at its answers.",
    ),
    ErrorClass.EVALUATION_FAILED: (
        "the evaluation failed twice, which is not your doing",
        "Submit it again; a failed submission has no score and is never the best one.",
    ),
}
OTHER_FAILURE = ("the grader could not score this submission", "It is not your doing: submit it again.")


class Scoreboard:
    """One run's submissions and baseline as of now, from which its replies are made."""

    def __init__(self, db: Database, run: ActiveRun) -> None:
        self._protocol: Protocol = run.plan.protocol
        self._submissions = submissions_of(db, run.run_id)
        self._standings = Standings(self._submissions, self._protocol)
        baseline = get_baseline(db, run.run_id)
        self._baseline: PartScores | None = baseline.scores if baseline is not None else None

    def reply(self, record: SubmissionRecord) -> SubmitReply | FailedReply:
        """The reply of a submission that ended, as it was when it ended."""
        ended_at = record.ended_at or now_utc()
        score = shown_score(record.scores, self._protocol)
        baseline = shown_score(self._baseline, self._protocol)
        best = self._standings.best_at(ended_at)
        reply = SubmitReply(
            submission_id=record.number,
            score=score.score_pct if score else None,
            baseline_score=baseline.score_pct if baseline else None,
            improvement=difference(score, baseline),
            best=Best(submission_id=best.number, score=best.score_pct) if best else None,
            total_submissions=self._standings.counted_at(ended_at),
            timestamp=record.submitted_at,
            model_path=record.model_path,
            elapsed_seconds=round((ended_at - record.submitted_at).total_seconds(), 2),
            stderr=score.stderr_pct if score else None,
            note=self._note(record),
        )
        if record.state is SubmissionState.SCORED:
            return reply
        error, detail, error_class = failure_of(record)
        return FailedReply(**reply.model_dump(), error=error, detail=detail, error_class=error_class)

    def view(self, record: SubmissionRecord) -> SubmissionReply:
        """One entry of `/submissions`."""
        has_reply = record.state in (SubmissionState.SCORED, SubmissionState.FAILED)
        error, detail, error_class = failure_of(record) if record.error_class else (None, None, None)
        return SubmissionReply(
            submission_id=record.number,
            state=record.state,
            model_path=record.model_path,
            submitted_at=record.submitted_at,
            position=self._standings.position_of(record),
            reply=self.reply(record) if has_reply else None,
            error=error,
            detail=detail,
            error_class=error_class,
        )

    def views(self) -> SubmissionsReply:
        """`/submissions`."""
        entries = tuple(self.view(record) for record in self._submissions)
        return SubmissionsReply(submissions=entries, total=len(entries))

    def _note(self, record: SubmissionRecord) -> str | None:
        if record.state is SubmissionState.SCORED and shown_score(record.scores, self._protocol) is None:
            return "; ".join(text for text in (record.note, "too few hidden items for a feedback score") if text)
        return record.note


def failure_of(record: SubmissionRecord) -> tuple[str, str, ErrorClass]:
    """What an agent is told of a submission without a score: error, detail, class."""
    error_class = ErrorClass(record.error_class or ErrorClass.GRADER_TROUBLE)
    if error_class is ErrorClass.NO_GPU_MEMORY:
        told = refused(record.detail or "too little GPU memory is free")
        return told.what, told.fix, error_class
    if record.state is SubmissionState.REJECTED and error_class is not ErrorClass.GRADER_TROUBLE:
        # Admission's own words: they name the file and the reason, and quote nothing but the submission.
        return (
            record.detail or "rejected",
            "Mend it and submit again; a rejected submission uses no quota.",
            error_class,
        )
    error, detail = FAILURES.get(error_class, OTHER_FAILURE)
    return error, detail, error_class


def reply_to(db: Database, run: ActiveRun, number: int) -> SubmissionReply:
    """The state of submission `number` of this run. Raises NotFound."""
    record = get_submission_by_number(db, run.run_id, number)
    return Scoreboard(db, run).view(record)


def all_of(db: Database, run: ActiveRun) -> SubmissionsReply:
    """Every submission of this run."""
    return Scoreboard(db, run).views()


def time_of(run: ActiveRun) -> TimeReply:
    """The run's clock, from memory."""
    now = now_utc()
    started, deadline, last = run.started_at, run.deadline, run.last_submit_at
    remaining = (deadline - now).total_seconds() if deadline else float(run.plan.limits.timeout_s)
    return TimeReply(
        start_time=started.timestamp() if started else None,
        timeout_s=run.plan.limits.timeout_s,
        last_submit_time=last.timestamp() if last else None,
        end_time=deadline.timestamp() if deadline else None,
        now=now.timestamp(),
        remaining=0.0 if run.is_over else max(0.0, remaining),
    )


def health_of(run: ActiveRun) -> HealthReply:
    """The run's share of the grader, from memory."""
    return HealthReply(task=run.plan.benchmark.id, available_gpus=_gpus(run.plan.gpus), queue_length=run.queue_length)


def _gpus(uuids: Sequence[str]) -> tuple[str, ...]:
    """Indices as the agent sees its devices; the published API names them so."""
    return tuple(str(index) for index in range(len(uuids)))

"""How a run is closed (verdict and headline, decided from its rows) and, when a person stopped it, opened again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete
from sqlmodel import Session, col, select

from harness.domain.admin import ArtifactIn, CloseRun
from harness.domain.base import now_utc
from harness.domain.runs import EndedBy, Phase, SubmissionState, Verdict, verdict_of
from harness.domain.specs import Protocol
from harness.errors import Conflict, ErrorClass
from harness.store.database import WritableDatabase
from harness.store.headline import best_of, headline_of
from harness.store.mapping import run_record, set_headline
from harness.store.models import Headline, RunRecord
from harness.store.records_queue import GRADER_FAILURES
from harness.store.selection import items_in, require_run, submissions_in
from harness.store.tables import ArtifactRow, BaselineRow, RunRow, SubmissionRow

OPEN_STATES = (SubmissionState.ADMITTING, SubmissionState.QUEUED, SubmissionState.SCORING)


def close_run(db: WritableDatabase, run_id: str, request: CloseRun, at: datetime | None = None) -> RunRecord:
    """The run with verdict and headline decided and stored; idempotent. Raises NotFound.

    A run with a scored submission is graded, whatever the request says. Submissions that are still open stay so where
    the verdict is `interrupted` (a resumed run scores them); otherwise they fail as the grader's own trouble.
    """

    def work(session: Session) -> RunRecord:
        row = require_run(session, run_id)
        if row.verdict is None:
            verdict = _verdict(session, row, request.verdict)
            if verdict is not Verdict.INTERRUPTED:
                _fail_open(session, run_id)
            row.verdict, row.phase, row.closed_at = verdict.value, Phase.ENDED.value, at or now_utc()
            set_headline(row, headline_in(session, row))
            _keep_artifacts(session, run_id, request.artifacts)
        session.flush()
        return run_record(row)

    return db.write(work)


def _verdict(session: Session, row: RunRow, asked: Verdict | None) -> Verdict:
    submissions = submissions_in(session, row.run_id)
    has_scored = any(s.state is SubmissionState.SCORED for s in submissions) or _is_graded_baseline(session, row)
    # Nothing that is still open will be scored, which is the grader's doing as much as a failure is.
    is_unscored = any(s.state in OPEN_STATES or s.error_class in GRADER_FAILURES for s in submissions)
    is_broken = any(s.state is SubmissionState.FAILED and s.error_class not in GRADER_FAILURES for s in submissions)
    # A run that is closed without an end of its agent part never had one: something under it broke.
    ended_by = EndedBy(row.ended_by) if row.ended_by else EndedBy.INFRASTRUCTURE
    decided = verdict_of(
        has_scored=has_scored,
        has_failed_evaluation=is_unscored,
        ended_by=ended_by,
        has_broken_submission=is_broken,
    )
    return decided if has_scored or asked in (None, Verdict.GRADED) else asked


def _is_graded_baseline(session: Session, row: RunRow) -> bool:
    """Whether it was the baseline that was to be scored, as of a model without a base, and it was."""
    grading = run_record(row).plan.grading
    baseline = session.get(BaselineRow, row.run_id) if grading and not grading.has_base else None
    return baseline is not None and baseline.state == SubmissionState.SCORED


def _fail_open(session: Session, run_id: str) -> None:
    rows = select(SubmissionRow).where(SubmissionRow.run_id == run_id, col(SubmissionRow.state).in_(OPEN_STATES))
    for row in session.exec(rows):
        row.state, row.ended_at = SubmissionState.FAILED.value, now_utc()
        row.error_class, row.detail = ErrorClass.GRADER_TROUBLE.value, "the run was closed before this was scored"


def headline_in(session: Session, row: RunRow) -> Headline | None:
    """What the rows of a run say its headline is; None without a scored submission."""
    protocol = Protocol(row.protocol)
    best = best_of(submissions_in(session, row.run_id), protocol)
    if best is None or best.evaluation_id is None:
        return None
    baseline = session.get(BaselineRow, row.run_id)
    evaluation_id = baseline.evaluation_id if baseline else None
    base_items = items_in(session, evaluation_id) if evaluation_id is not None else ()
    return headline_of(best, items_in(session, best.evaluation_id), base_items, protocol)


def _keep_artifacts(session: Session, run_id: str, artifacts: tuple[ArtifactIn, ...]) -> None:
    # A run that was stopped and resumed is collected anew, into an empty folder.
    session.execute(delete(ArtifactRow).where(col(ArtifactRow.run_id) == run_id))
    for artifact in artifacts:
        session.add(ArtifactRow(run_id=run_id, **artifact.model_dump()))


def reopen_run(db: WritableDatabase, run_id: str) -> RunRecord:
    """A run that a person stopped, active again; the harness sets phase, token and clock anew.

    Raises:
        NotFound: no such run.
        Conflict: it was closed for another reason, or comes from another machine.
    """

    def work(session: Session) -> RunRecord:
        row = require_run(session, run_id)
        is_stopped = row.verdict == Verdict.INTERRUPTED or row.ended_by == EndedBy.STOPPED
        if row.verdict is not None:
            if not is_stopped or row.imported_at is not None:
                raise Conflict(f"run {run_id} has ended ({row.verdict})", "Only a run that was stopped here can go on.")
            set_headline(row, None)
            row.verdict, row.closed_at, row.phase = None, None, Phase.PREPARING.value
            row.ended_by, row.exit_code, row.detail, row.agent_ended_at = None, None, "", None
        session.flush()
        return run_record(row)

    return db.write(work)

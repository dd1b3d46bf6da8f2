"""What the harness is told of a run and of the grader as a whole (admin side)."""

from __future__ import annotations

from harness import __version__
from harness.domain.admin import BaselineView, GraderStats, RunStatus, SubmissionView
from harness.domain.runs import SubmissionState
from harness.domain.specs import Protocol
from harness.grader.service import Grader
from harness.grader.shown import shown_score
from harness.grader.workshop import OPEN_STATES
from harness.store.models import BaselineRecord, RunRecord, SubmissionRecord
from harness.store.records_evaluations import get_baseline
from harness.store.records_queue import count_in_state, submissions_of
from harness.store.records_runs import get_run


def status_of(grader: Grader, run_id: str, record: RunRecord | None = None) -> RunStatus:
    """Everything the run loop acts on. Raises NotFound."""
    record = record or get_run(grader.db, run_id)
    protocol = record.plan.protocol
    submissions = submissions_of(grader.db, run_id)
    baseline = get_baseline(grader.db, run_id)
    run = grader.registry.find(run_id)
    is_failed = baseline is not None and baseline.state is SubmissionState.FAILED
    return RunStatus(
        run_id=run_id,
        kind=record.plan.kind,
        phase=record.phase,
        verdict=record.verdict,
        ended_by=record.ended_by,
        owner=record.owner,
        started_at=record.started_at,
        deadline=record.deadline,
        agent_ended_at=record.agent_ended_at,
        baseline=_baseline(baseline, protocol),
        baseline_error=(baseline.detail or "no reason was recorded") if baseline and is_failed else None,
        submissions=tuple(_submission(s, protocol) for s in submissions),
        open_submissions=sum(s.state in OPEN_STATES for s in submissions),
        needs_services=run is not None and run.needs_services,
        service_uses=run.service_uses if run is not None else 0,
        needs_output=run is not None and not run.output.is_there,
        grader_boot_id=grader.boot_id,
    )


def stats_of(grader: Grader) -> GraderStats:
    """The grader as a whole."""
    return GraderStats(
        version=__version__,
        image=grader.image,
        boot_id=grader.boot_id,
        started_at=grader.started_at,
        active_runs=tuple(run.run_id for run in grader.registry.all()),
        queued=count_in_state(grader.db, SubmissionState.ADMITTING, SubmissionState.QUEUED),
        scoring=count_in_state(grader.db, SubmissionState.SCORING),
    )


def _baseline(record: BaselineRecord | None, protocol: Protocol) -> BaselineView | None:
    if record is None or record.scores is None:
        return None
    shown, headline = record.scores.shown(protocol), record.scores.headline(protocol)
    return BaselineView(
        feedback_pct=shown.score_pct if shown else None,
        final_pct=headline.score_pct,
        final_stderr_pct=headline.stderr_pct,
        is_cached=record.is_cached,
    )


def _submission(record: SubmissionRecord, protocol: Protocol) -> SubmissionView:
    shown = record.scores.shown(protocol) if record.scores else None
    headline = record.scores.headline(protocol) if record.scores else None
    told = shown_score(record.scores, protocol)
    return SubmissionView(
        submission_id=record.number,
        state=record.state,
        model_path=record.model_path,
        submitted_at=record.submitted_at,
        feedback_pct=shown.score_pct if shown else None,
        shown_pct=told.score_pct if told else None,
        final_pct=headline.score_pct if headline else None,
        final_stderr_pct=headline.stderr_pct if headline else None,
        error_class=record.error_class,
        detail=record.detail,
        note=record.note,
    )

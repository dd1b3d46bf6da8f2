"""How many submissions a run may make, and when again; counted inside the transaction that adds one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from harness.domain.runs import SubmissionState
from harness.domain.specs import Protocol, RunPlan
from harness.errors import OverQuota
from harness.store.models import Quota
from harness.store.records_queue import GRADER_FAILURES
from harness.store.tables import SubmissionRow

# Rejected attempts cost no quota; this many times the quota of them is a flood.
MAX_REJECTED_FACTOR = 10
# The paper protocol has no quota, but each submission takes disk, and time of every reply after it.
MAX_PAPER_FACTOR = 50
HOUR = timedelta(hours=1)


def quota_of(plan: RunPlan) -> Quota:
    """A run's quota; the paper protocol has none but what stops a flood."""
    limits = plan.limits
    is_paper = plan.protocol is Protocol.PAPER
    return Quota(
        max_total=limits.max_submissions * (MAX_PAPER_FACTOR if is_paper else 1),
        max_per_hour=None if is_paper else limits.max_submissions_per_hour,
        max_rejected=MAX_REJECTED_FACTOR * limits.max_submissions,
        max_rejected_per_hour=MAX_REJECTED_FACTOR * limits.max_submissions_per_hour,
    )


def _wait_s(times: Sequence[datetime], allowed: int, now: datetime) -> float | None:
    """Seconds until fewer than `allowed` of the sorted `times` lie within the last hour; None if that is so now."""
    recent = [at for at in times if at > now - HOUR]
    return None if len(recent) < allowed else (recent[len(recent) - allowed] + HOUR - now).total_seconds()


def check_quota(session: Session, run_id: str, quota: Quota, now: datetime) -> None:
    """Does nothing if one more submission is allowed now.

    Raises:
        OverQuota: with `retry_after_s` where waiting helps.
    """
    rows = session.exec(
        select(SubmissionRow.state, SubmissionRow.error_class, SubmissionRow.submitted_at)
        .where(SubmissionRow.run_id == run_id)
        .order_by(col(SubmissionRow.submitted_at))
    ).all()
    # One that is still being copied counts, or a run could have any number of them at once.
    counted = [at for state, _, at in rows if state != SubmissionState.REJECTED]
    rejected = [at for state, _, at in rows if state == SubmissionState.REJECTED]
    # What the grader failed to score is not held against the agent; trying again stays limited by the hour.
    lost = sum(state == SubmissionState.FAILED and why in GRADER_FAILURES for state, why, _ in rows)
    if quota.max_total is not None and len(counted) - lost >= quota.max_total:
        raise OverQuota(
            f"all {quota.max_total} submissions of this run are used", "The best one so far stays; none can be added."
        )
    if len(rejected) >= quota.max_rejected:
        raise OverQuota(f"{len(rejected)} rejected attempts in this run", "No further submission is taken in this run.")
    _check_hour("submissions", counted, quota.max_per_hour, now)
    _check_hour("rejected attempts", rejected, quota.max_rejected_per_hour, now)


def _check_hour(what: str, times: Sequence[datetime], allowed: int | None, now: datetime) -> None:
    wait = None if allowed is None else _wait_s(times, allowed, now)
    if wait is not None:
        raise OverQuota(
            f"{allowed} {what} within an hour is the limit", f"Submit again in {wait:.0f} s.", retry_after_s=wait
        )

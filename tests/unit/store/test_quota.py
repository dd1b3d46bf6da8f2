"""The submission quota: counted atomically, per run and per hour."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import samples
from samples import START

from harness.domain.specs import Limits, Protocol
from harness.errors import Conflict, ErrorClass, OverQuota
from harness.store.database import WritableDatabase
from harness.store.models import Quota
from harness.store.quota import MAX_PAPER_FACTOR, MAX_REJECTED_FACTOR, quota_of
from harness.store.records_queue import submissions_of
from harness.store.records_submissions import mark_admitted, mark_failed, reject_submission


def quota(total: int | None = None, hour: int | None = None, rejected: int = 99, rejected_hour: int = 99) -> Quota:
    return Quota(max_total=total, max_per_hour=hour, max_rejected=rejected, max_rejected_per_hour=rejected_hour)


@pytest.fixture
def run_id(db: WritableDatabase) -> str:
    return samples.registered(db, samples.plan(limits=Limits(timeout_s=100_000))).run_id


def test_sixteen_at_once_get_exactly_what_is_left(db: WritableDatabase, run_id: str) -> None:
    outcomes: list[str] = []
    barrier = threading.Barrier(16)

    def submit() -> None:
        barrier.wait()
        try:
            outcomes.append(str(samples.submitted(db, run_id, quota=quota(total=5)).number))
        except OverQuota:
            outcomes.append("over")

    threads = [threading.Thread(target=submit) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == sorted(["1", "2", "3", "4", "5"] + ["over"] * 11)
    assert len(submissions_of(db, run_id)) == 5


def test_hourly_limit_says_when_again(db: WritableDatabase, run_id: str) -> None:
    for after_s in (10, 20, 30):
        samples.submitted(db, run_id, after_s, quota(hour=3))
    with pytest.raises(OverQuota) as raised:
        samples.submitted(db, run_id, 100, quota(hour=3))
    assert raised.value.retry_after_s == 3600 + 10 - 100
    assert "3510 s" in raised.value.fix
    samples.submitted(db, run_id, 3610, quota(hour=3))
    with pytest.raises(OverQuota):
        samples.submitted(db, run_id, 3611, quota(hour=3))


def test_spent_total_has_no_retry(db: WritableDatabase, run_id: str) -> None:
    samples.submitted(db, run_id, quota=quota(total=1, hour=1))
    with pytest.raises(OverQuota) as raised:
        samples.submitted(db, run_id, quota=quota(total=1, hour=1))
    assert raised.value.retry_after_s is None


def test_rejected_attempts_use_no_quota(db: WritableDatabase, run_id: str) -> None:
    for _ in range(3):
        new = samples.submitted(db, run_id, quota=quota(total=1, hour=1))
        reject_submission(db, new.id, ErrorClass.NO_WEIGHTS, "empty")
    assert samples.submitted(db, run_id, quota=quota(total=1, hour=1)).number == 4


def test_duplicate_uses_no_quota(db: WritableDatabase, run_id: str) -> None:
    samples.queued(db, run_id, "same")
    twin = samples.submitted(db, run_id, quota=quota(total=2))
    with pytest.raises(Conflict):
        mark_admitted(db, twin.id, "same", copied_at=START + timedelta(seconds=5))
    samples.submitted(db, run_id, quota=quota(total=2))


@pytest.mark.parametrize("allowed", [quota(rejected=2), quota(rejected_hour=2)])
def test_flood_of_rejected_attempts_is_stopped(db: WritableDatabase, run_id: str, allowed: Quota) -> None:
    for _ in range(2):
        reject_submission(db, samples.submitted(db, run_id).id, ErrorClass.NO_WEIGHTS, "empty")
    with pytest.raises(OverQuota, match="rejected attempts"):
        samples.submitted(db, run_id, quota=allowed)


def test_quota_of_one_run_is_not_touched_by_another(db: WritableDatabase, run_id: str) -> None:
    other = samples.registered(db, samples.plan(2))
    samples.submitted(db, other.run_id, quota=quota(total=1))
    samples.submitted(db, run_id, quota=quota(total=1))


def test_plan_decides_the_quota() -> None:
    limits = Limits(max_submissions=7, max_submissions_per_hour=3)
    standard = quota_of(samples.plan(limits=limits))
    assert (standard.max_total, standard.max_per_hour) == (7, 3)
    assert standard.max_rejected == 7 * MAX_REJECTED_FACTOR
    paper = quota_of(samples.plan(limits=limits, protocol=Protocol.PAPER))
    # Not a quota but a bound: each one takes disk, and time of every later reply.
    assert (paper.max_total, paper.max_per_hour, paper.max_rejected) == (7 * MAX_PAPER_FACTOR, None, 70)


def test_what_the_grader_failed_to_score_is_not_held_against_the_agent(db: WritableDatabase, run_id: str) -> None:
    for error_class in (ErrorClass.EVALUATION_FAILED, ErrorClass.LOAD_FAILED):
        mark_failed(db, samples.submitted(db, run_id, quota=quota(total=1)).id, error_class, "why")
    with pytest.raises(OverQuota):
        samples.submitted(db, run_id, quota=quota(total=1))

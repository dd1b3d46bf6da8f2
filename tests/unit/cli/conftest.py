"""A home whose database holds a graded run, with a refused submission in it, and a later one that submitted nothing."""

from __future__ import annotations

import pytest
from samples import closed, items, plan, registered, scored, submitted, with_baseline

from harness.domain.findings import Finding
from harness.errors import ErrorClass
from harness.home import Home
from harness.store.database import WritableDatabase, open_writer
from harness.store.records_findings import add_findings
from harness.store.records_submissions import reject_submission

PLAN = plan(1)
LATER = plan(2, agent="noop")


def parts(right: int) -> tuple[float, ...]:
    """Ten items of which `right` are right."""
    return tuple(float(n < right) for n in range(10))


def fill(db: WritableDatabase) -> None:
    run = registered(db, PLAN)
    with_baseline(db, run, items(parts(3), parts(3)))
    scored(db, run, "1" * 64, items(parts(8), parts(9)))
    refused = submitted(db, run.run_id, after_s=60)
    reject_submission(db, refused.id, ErrorClass.NO_WEIGHTS, "the folder is empty")
    finding = Finding(
        submission_number=1,
        kind="lineage",
        severity="warning",
        detail="nearer to a sibling",
        evidence={"nearest": "sibling"},
    )
    add_findings(db, run.run_id, [finding])
    closed(db, run.run_id)
    registered(db, LATER)
    closed(db, LATER.run_id)


@pytest.fixture
def recorded(own_settings: Home) -> Home:
    db = open_writer(own_settings.db)
    try:
        fill(db)
    finally:
        db.close()
    own_settings.run(PLAN.run_id).path.mkdir()
    return own_settings


@pytest.fixture
def graded() -> str:
    """Id of the graded run."""
    return PLAN.run_id


@pytest.fixture
def later() -> str:
    """Id of the run without a submission."""
    return LATER.run_id

"""Findings are appended, and come back as they were made."""

from __future__ import annotations

import pytest
import samples
from sqlalchemy.exc import StatementError

from harness.domain.findings import Finding
from harness.errors import NotFound
from harness.store.columns import MAX_DETAIL_CHARACTERS
from harness.store.database import WritableDatabase
from harness.store.records_findings import add_findings, findings_of

UNCHANGED = Finding(
    submission_number=1,
    kind="lineage",
    severity="info",
    detail="the weights are the base model's",
    evidence={"tensors": ["a", "b"], "delta": 0.0},
    tool_version="1",
)


def test_findings_come_back_in_their_order(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    other = samples.registered(db, samples.plan(2))
    second = Finding(kind="clock", severity="warning", detail="it went back")
    first = add_findings(db, run.run_id, [UNCHANGED, second], at=samples.START)
    add_findings(db, run.run_id, [UNCHANGED])
    found = findings_of(db, run.run_id)
    assert found[:2] == first
    assert [Finding(**f.model_dump(exclude={"at"})) for f in found] == [UNCHANGED, second, UNCHANGED]
    assert found[0].at == samples.START
    assert findings_of(db, other.run_id) == ()


def test_a_closed_run_takes_findings_and_an_unknown_one_does_not(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    samples.closed(db, run.run_id)
    assert len(add_findings(db, run.run_id, [UNCHANGED])) == 1
    for call in (lambda: add_findings(db, "x", [UNCHANGED]), lambda: findings_of(db, "x")):
        with pytest.raises(NotFound):
            call()


def test_none_is_kept_where_one_cannot_be(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    bad = UNCHANGED.model_copy(update={"evidence": {"share": float("nan")}})
    with pytest.raises(StatementError, match="JSON"):
        add_findings(db, run.run_id, [UNCHANGED, bad])
    assert findings_of(db, run.run_id) == ()


def test_long_details_are_cut(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    add_findings(db, run.run_id, [UNCHANGED.model_copy(update={"detail": "x" * (MAX_DETAIL_CHARACTERS + 1)})])
    assert len(findings_of(db, run.run_id)[0].detail) == MAX_DETAIL_CHARACTERS

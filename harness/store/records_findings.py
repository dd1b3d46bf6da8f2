"""Integrity findings of a run: appended, never changed or removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from harness.domain.base import now_utc
from harness.domain.findings import Finding, StoredFinding
from harness.store.columns import MAX_DETAIL_CHARACTERS
from harness.store.database import Database, WritableDatabase
from harness.store.mapping import finding_record
from harness.store.selection import require_run
from harness.store.tables import FindingRow


def add_findings(
    db: WritableDatabase, run_id: str, findings: Sequence[Finding], at: datetime | None = None
) -> tuple[StoredFinding, ...]:
    """Keeps the findings (also of a closed run), in their order. Raises NotFound."""
    when = at or now_utc()

    def work(session: Session) -> tuple[StoredFinding, ...]:
        require_run(session, run_id)
        rows = [FindingRow(run_id=run_id, at=when, **_values(finding)) for finding in findings]
        session.add_all(rows)
        session.flush()
        return tuple(finding_record(row) for row in rows)

    return db.write(work)


def _values(finding: Finding) -> dict[str, Any]:
    values = {name: getattr(finding, name) for name in Finding.model_fields}
    return {**values, "detail": finding.detail[:MAX_DETAIL_CHARACTERS]}


def findings_of(db: Database, run_id: str) -> tuple[StoredFinding, ...]:
    """Every finding of a run, in the order in which they were made. Raises NotFound."""

    def work(session: Session) -> tuple[StoredFinding, ...]:
        require_run(session, run_id)
        rows = select(FindingRow).where(FindingRow.run_id == run_id).order_by(col(FindingRow.id))
        return tuple(finding_record(row) for row in session.exec(rows))

    return db.read(work)

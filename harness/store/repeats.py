"""Repeats: how far an evaluation that was made anew agrees with the first one under its key, item by item."""

from __future__ import annotations

from sqlmodel import Session

from harness.domain.base import Frozen
from harness.store.database import Database
from harness.store.mapping import evaluation_record
from harness.store.models import ItemScore
from harness.store.records_evaluations import REPEAT_PREFIX, find_in
from harness.store.selection import items_in
from harness.store.tables import EvaluationRow


class Agreement(Frozen):
    """An item is equal where its output, to the letter, and all its scores are."""

    first_evaluation_id: int
    n_items: int
    n_equal: int
    differing_items: tuple[str, ...] = ()


def agreement_of(db: Database, evaluation_id: int) -> Agreement | None:
    """How far a repeat agrees with the first evaluation; None if it is no repeat."""

    def work(session: Session) -> Agreement | None:
        row = session.get(EvaluationRow, evaluation_id)
        if row is None or not row.origin.startswith(REPEAT_PREFIX):
            return None
        first = find_in(session, evaluation_record(row).key)
        if first is None or first.id is None:
            return None
        return _compared(first.id, items_in(session, first.id), items_in(session, evaluation_id))

    return db.read(work)


def _compared(first_id: int, first: tuple[ItemScore, ...], again: tuple[ItemScore, ...]) -> Agreement:
    before, after = {item.item_id: item for item in first}, {item.item_id: item for item in again}
    differing = [item_id for item_id in before.keys() | after.keys() if before.get(item_id) != after.get(item_id)]
    n_items = len(before.keys() | after.keys())
    return Agreement(
        first_evaluation_id=first_id,
        n_items=n_items,
        n_equal=n_items - len(differing),
        differing_items=tuple(sorted(differing)),
    )

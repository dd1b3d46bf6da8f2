"""The hash that says which hidden items decide a score."""

from __future__ import annotations

from harness.domain.base import canonical_hash
from harness.domain.items import Item, items_hash

ONE, TWO = Item(id="1", question="q", answer="a"), Item(id="2", question="q2", answer="a2")


def test_the_order_of_items_does_not_matter() -> None:
    assert items_hash([ONE, TWO]) == items_hash([TWO, ONE]) != items_hash([ONE])


def test_what_an_item_has_beside_its_answer_matters() -> None:
    tested = ONE.model_copy(update={"extra": {"test": "assert candidate(1) == 2"}})
    eased = ONE.model_copy(update={"extra": {"test": "pass"}})
    assert len({items_hash([item]) for item in (ONE, tested, eased)}) == 3


def test_items_without_more_keep_the_hash_that_older_records_name() -> None:
    assert items_hash([TWO, ONE]) == canonical_hash([["1", "q", "a"], ["2", "q2", "a2"]])

"""Runs that reached the open network: labelled in every view, and never in one rank, mean or best with others."""

from __future__ import annotations

from typing import Any

import pytest
import samples

from harness.domain.connections import OPEN_NETWORK
from harness.domain.specs import NetworkPolicy
from harness.store.database import WritableDatabase
from harness.store.query import run_query

BASE = samples.items([1, 0, 0, 0], [1, 1, 0, 0])
GOOD = samples.items([1, 1, 1, 0], [1, 1, 1, 1])
FAIR = samples.items([1, 1, 0, 0], [1, 1, 1, 0])
OPEN: dict[str, Any] = {"network": NetworkPolicy.ALLOWLIST, "allowed_hosts": ("pypi.org",)}


def rows(db: WritableDatabase, query: str) -> list[tuple[Any, ...]]:
    return list(run_query(db, query).rows)


@pytest.fixture
def filled(db: WritableDatabase) -> WritableDatabase:
    """Two closed runs of one agent, +25 and +50, and one with the open network, +50; another agent's, +25."""
    samples.graded(db, samples.plan(1), BASE, FAIR)
    samples.graded(db, samples.plan(2), BASE, GOOD)
    samples.graded(db, samples.plan(3, **OPEN), BASE, GOOD)
    samples.graded(db, samples.plan(4, agent="other"), BASE, FAIR)
    samples.graded(db, samples.plan(5, agent="other", **OPEN), BASE, FAIR)
    return db


@pytest.mark.parametrize("view", ["v_runs", "v_submissions"])
def test_each_row_has_its_label(filled: WritableDatabase, view: str) -> None:
    assert rows(filled, f"SELECT DISTINCT run_id LIKE '%3' OR run_id LIKE '%5', label FROM {view} ORDER BY 1") == [
        (0, None), (1, OPEN_NETWORK)]  # fmt: skip


def test_means_are_never_mixed_and_the_open_ones_come_after_all_others(filled: WritableDatabase) -> None:
    assert rows(
        filled, "SELECT agent, label, n_runs, mean_improvement_pct, best_improvement_pct FROM v_leaderboard"
    ) == [
        ("example", None, 2, 37.5, 50.0),
        ("other", None, 1, 25.0, 25.0),
        ("example", OPEN_NETWORK, 1, 50.0, 50.0),
        ("other", OPEN_NETWORK, 1, 25.0, 25.0),
    ]


def test_there_is_a_best_of_each(filled: WritableDatabase) -> None:
    found = rows(filled, "SELECT run_id, label FROM v_best")
    assert [(run_id[-1], label) for run_id, label in found] == [("2", None), ("3", OPEN_NETWORK)]

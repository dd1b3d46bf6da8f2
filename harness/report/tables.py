"""Rows of the tables that people read, from the views; a row is column name -> value, in column order."""

from __future__ import annotations

from typing import Any

from harness.store.database import Database
from harness.store.query import run_query

Row = dict[str, Any]

_RUNS = """
SELECT run_id, agent, task, base_model, protocol, coalesce(verdict, phase) AS state, baseline_pct, final_pct,
  improvement_pct, improvement_low_pct AS low, improvement_high_pct AS high, submissions, duration_s, label
FROM v_runs WHERE kind = 'agent'"""
# Of a grading without a base, the model's own score is the baseline.
_GRADINGS = """
SELECT v.run_id, v.task, json_extract(r.plan, '$.grading.path') AS model,
  iif(json_extract(r.plan, '$.grading.has_base'), v.base_model, NULL) AS base, v.protocol, v.limit_items,
  coalesce(v.verdict, v.phase) AS state, coalesce(v.final_pct, v.baseline_pct) AS final_pct, v.improvement_pct
FROM v_runs v JOIN run r USING (run_id) WHERE v.kind = 'grade'"""
_LEADERBOARD = """
SELECT benchmark, protocol, base_model, agent, driver_model, timeout_s, device, n_runs, n_graded, n_infra_void,
  n_interrupted, mean_improvement_pct, mean_graded_improvement_pct, best_improvement_pct, is_selected, label
FROM v_leaderboard"""


def run_table(db: Database) -> list[Row]:
    """One row per run of an agent, oldest first: where it is, and its headline in percent and points."""
    return _rows(db, _RUNS)


def grading_table(db: Database) -> list[Row]:
    """One row per checkpoint that was scored outside a run, oldest first."""
    return _rows(db, _GRADINGS)


def leaderboard_table(db: Database) -> list[Row]:
    """One row per what may be compared, best mean improvement first; what reached the open network after the rest."""
    return _rows(db, _LEADERBOARD)


def _rows(db: Database, query: str) -> list[Row]:
    result = run_query(db, query)
    return [{name: _rounded(value) for name, value in zip(result.columns, row, strict=True)} for row in result.rows]


def _rounded(value: Any) -> Any:
    return round(value, 2) if isinstance(value, float) else value

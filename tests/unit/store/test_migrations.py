"""Migrations: atomic, idempotent, and equal to what the row models say."""

from __future__ import annotations

from pathlib import Path

import pytest
import samples
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import OperationalError
from sqlmodel import SQLModel

from harness.domain.items import Part
from harness.domain.runs import RunKind, Verdict
from harness.errors import PrerequisiteError
from harness.store.columns import time_text
from harness.store.database import WritableDatabase, open_readonly, open_writer
from harness.store.migrations import MIGRATIONS, migrate
from harness.store.models import ItemScore
from harness.store.query import run_query
from harness.store.records_evaluations import item_scores
from harness.store.records_findings import findings_of
from harness.store.records_runs import get_run

TABLES = [
    "run",
    "submission",
    "evaluation",
    "item_score",
    "event",
    "llm_call",
    "resource_sample",
    "finding",
    "artifact",
    "baseline",
]
VIEWS = ["v_best", "v_leaderboard", "v_llm_spend", "v_runs", "v_submissions", "v_triage"]


def names(engine: Engine, kind: str) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite_%' ORDER BY name"
    with engine.connect() as connection:
        return [name for (name,) in connection.exec_driver_sql(query, (kind,))]


def shape(engine: Engine, table: str) -> dict[str, object]:
    """Columns with type, NOT NULL and place in the primary key; foreign keys; unique columns; indexes."""
    with engine.connect() as connection:
        infos = connection.exec_driver_sql(f"PRAGMA table_info({table})")
        columns = {name: (kind, is_required, place) for _, name, kind, is_required, _, place in infos}
        keys = {(row[3], row[2], row[4]) for row in connection.exec_driver_sql(f"PRAGMA foreign_key_list({table})")}
        indexes = connection.exec_driver_sql(f"PRAGMA index_list({table})").all()
        indexed = {
            (tuple(c[2] for c in connection.exec_driver_sql(f"PRAGMA index_info({row[1]})")), row[2], row[3])
            for row in indexes
        }
    return {"columns": columns, "foreign_keys": keys, "indexes": indexed}


def test_row_models_equal_the_migrated_schema(db: WritableDatabase, tmp_path: Path) -> None:
    from_models = create_engine(f"sqlite:///{tmp_path / 'models.db'}")
    SQLModel.metadata.create_all(from_models)
    try:
        for table in TABLES:
            assert shape(db._engine, table) == shape(from_models, table), table
    finally:
        from_models.dispose()


def test_every_table_and_view_is_there(db: WritableDatabase) -> None:
    assert names(db._engine, "table") == sorted(TABLES)
    assert set(SQLModel.metadata.tables) >= set(TABLES)
    assert names(db._engine, "view") == VIEWS


@pytest.mark.parametrize("view", VIEWS)
def test_view_can_be_read_when_empty(db: WritableDatabase, view: str) -> None:
    assert run_query(db, f"SELECT * FROM {view}").rows == ()


def test_migrating_twice_changes_nothing(db: WritableDatabase) -> None:
    before = names(db._engine, "table")
    assert migrate(db._engine) == len(MIGRATIONS)
    assert names(db._engine, "table") == before


def test_failed_migration_leaves_no_table_and_no_version(db: WritableDatabase) -> None:
    broken = ("CREATE TABLE half (x)", "INSERT INTO half VALUES (1)", "CREATE TABEL typo (x)")
    with pytest.raises(OperationalError):
        migrate(db._engine, (*MIGRATIONS, broken))
    assert "half" not in names(db._engine, "table")
    assert run_query(db, "PRAGMA user_version").rows == ((len(MIGRATIONS),),)


def test_migrations_after_a_failed_one_can_be_applied(db: WritableDatabase) -> None:
    with pytest.raises(OperationalError):
        migrate(db._engine, (*MIGRATIONS, ("CREATE TABLE half (x)", "nonsense")))
    migrate(db._engine, (*MIGRATIONS, ("CREATE TABLE half (x)",)))
    assert "half" in names(db._engine, "table")


def test_newer_database_is_refused_by_writer_and_reader(db: WritableDatabase, tmp_path: Path) -> None:
    path = tmp_path / "db" / "harness.db"
    migrate(db._engine, (*MIGRATIONS, ("CREATE TABLE of_the_future (x)",)))
    db.close()
    with pytest.raises(PrerequisiteError, match="schema version") as raised:
        open_writer(path)
    assert "Update the harness" in raised.value.fix
    with pytest.raises(PrerequisiteError, match="schema version"):
        open_readonly(path, is_grader_running=False)


def test_reader_of_an_older_database_says_who_migrates(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    engine = create_engine(f"sqlite:///{path}")
    migrate(engine, MIGRATIONS[:1])
    engine.dispose()
    (tmp_path / "empty.db").touch()
    with pytest.raises(PrerequisiteError, match="harness up"):
        open_readonly(path, is_grader_running=False)
    with pytest.raises(PrerequisiteError, match="still empty"):
        open_readonly(tmp_path / "empty.db", is_grader_running=False)


def test_rows_of_the_first_version_stay_readable(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    engine = create_engine(f"sqlite:///{path}")
    migrate(engine, MIGRATIONS[:2])
    plan = samples.plan()
    with engine.begin() as connection:
        for table, values in _first_version_rows(plan).items():
            names = ", ".join(values)
            marks = ", ".join("?" * len(values))
            connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))
    engine.dispose()
    db = open_writer(path)
    try:
        run = get_run(db, plan.run_id)
        assert (run.plan, run.plan.kind, run.verdict) == (plan, RunKind.AGENT, Verdict.GRADED)
        assert run.headline
        assert (run.headline.score.score_pct, run.headline.score.low_pct) == (50.0, None)
        assert run.headline.improvement
        assert (run.headline.improvement.low, run.headline.improvement.method) == (-3.0, None)
        assert item_scores(db, 1) == (ItemScore(item_id="z0", part=Part.FINAL, score=1, output="x", output_tokens=2),)
        assert [(f.detail, f.evidence, f.tool_version) for f in findings_of(db, plan.run_id)] == [("odd", {}, "")]
        rows = run_query(db, "SELECT kind, final_pct, final_low_pct, items_won, findings FROM v_runs").rows
        assert rows == (("agent", 50.0, None, None, 1),)
        assert [row[0] for row in run_query(db, "SELECT n_runs FROM v_leaderboard").rows] == [1]
    finally:
        db.close()


def test_calls_of_an_earlier_version_are_numbered(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    migrate(engine, MIGRATIONS[:3])
    run = "'r1', 'a', 't', 'm', 'h', 'standard', 0, 1, 'none', 'cpu', 'x', 'x', '{}', 'ended', '', '', '', 't'"
    columns = (
        "run_id, agent, task, base_model, base_model_hash, protocol, seed, timeout_s, network, device, task_protocol,"
        " engine_hash, plan, phase, detail, token_sha256, subnet, created_at"
    )
    call = "run_id, at, provider, model, http_status, input_tokens, cached_tokens, output_tokens, cost_usd, seconds"
    with engine.begin() as connection:
        for name in ("r1", "r2"):
            connection.exec_driver_sql(f"INSERT INTO run ({columns}) VALUES ({run.replace('r1', name)})")
        for name in ("r1", "r2", "r1"):
            values = f"'{name}', 't', 'p', 'm', 200, 1, 0, 1, 0.1, 1.0, '{{}}'"
            connection.exec_driver_sql(f"INSERT INTO llm_call ({call}, detail) VALUES ({values})")
    engine.dispose()
    db = open_writer(tmp_path / "old.db")
    try:
        assert run_query(db, "SELECT run_id, number FROM llm_call ORDER BY id").rows == (
            ("r1", 1),
            ("r2", 1),
            ("r1", 2),
        )
        rows = run_query(db, "SELECT run_id, calls, cache_write_tokens, is_price_listed FROM v_llm_spend").rows
        assert rows == (("r1", 2, 0, None), ("r2", 1, 0, None))
    finally:
        db.close()


def _first_version_rows(plan: samples.RunPlan) -> dict[str, dict[str, object]]:
    at = time_text(samples.START)
    hashes = {"task_protocol": plan.task_protocol(), "engine_hash": plan.engine.hash(), "base_model_hash": "c"}
    run = {"run_id": plan.run_id, "agent": "example", "task": "sums", "base_model": "tiny", **hashes}
    run |= {"protocol": "standard", "seed": 0, "timeout_s": 600, "network": "none", "device": "cpu", "created_at": at}
    run |= {"plan": plan.model_dump_json(), "phase": "ended", "verdict": "graded", "detail": "", "token_sha256": ""}
    run |= {"subnet": "", "best_submission": 1, "final_pct": 50.0, "final_stderr_pct": 5.0, "final_items": 1}
    run |= {"improvement_pct": 7.0, "improvement_stderr_pct": 5.1, "improvement_low_pct": -3.0}
    run |= {"improvement_high_pct": 17.0}
    scores = {f"{part}_{name}": 1.0 for part in ("final", "all") for name in ("pct", "stderr_pct", "items")}
    rates = dict.fromkeys(("truncation_rate", "extraction_failure_rate", "mean_output_tokens"), 0.0)
    seconds = dict.fromkeys(("load_seconds", "generate_seconds", "score_seconds"), 0.0)
    evaluation = {**hashes, "tree_hash": "t", "origin": "", **scores, **rates, **seconds, "created_at": at}
    evaluation |= {"id": 1, "engine": plan.engine.model_dump_json(), "engine_info": "{}"}
    item = {"evaluation_id": 1, "item_id": "z0", "part": "final", "score": 1.0, "output": "x", "output_tokens": 2}
    item |= {"is_truncated": 0, "is_extracted": 1}
    finding = {"run_id": plan.run_id, "at": at, "kind": "k", "severity": "info", "detail": "odd"}
    return {"run": run, "evaluation": evaluation, "item_score": item, "finding": finding}

"""Migrations: atomic, idempotent, and equal to what the row models say."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import OperationalError
from sqlmodel import SQLModel

from harness.errors import PrerequisiteError
from harness.store.database import WritableDatabase, open_readonly, open_writer
from harness.store.migrations import MIGRATIONS, migrate
from harness.store.query import run_query

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

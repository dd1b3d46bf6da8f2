"""Opening, transactions, and readers."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
import samples
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from harness.errors import PrerequisiteError
from harness.store import database
from harness.store.database import WritableDatabase, open_readonly, open_writer
from harness.store.query import run_query
from harness.store.records_runs import get_run, list_runs
from harness.store.tables import RunRow


def test_writer_keeps_wal_foreign_keys_and_waits_when_busy(db: WritableDatabase) -> None:
    asked = {name: run_query(db, f"PRAGMA {name}").rows[0][0] for name in ("journal_mode", "foreign_keys")}
    assert asked == {"journal_mode": "wal", "foreign_keys": 1}
    assert run_query(db, "PRAGMA busy_timeout").rows[0][0] == database.BUSY_TIMEOUT_S * 1000


def test_transaction_that_raises_leaves_nothing(db: WritableDatabase) -> None:
    samples.registered(db, samples.plan())

    def work(session: database.Session) -> None:
        row = session.get(RunRow, samples.plan().run_id)
        assert row
        row.detail = "half"
        session.flush()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        db.write(work)
    assert get_run(db, samples.plan().run_id).detail == ""


def test_write_takes_the_lock_before_it_reads(db: WritableDatabase, tmp_path: Path) -> None:
    def work(session: database.Session) -> str:
        session.connection()
        other = sqlite3.connect(tmp_path / "db" / "harness.db", timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            return str(error)
        finally:
            other.close()
        return "free"

    assert db.write(work) == "database is locked"


def test_whole_transaction_is_retried_when_the_database_is_locked(
    db: WritableDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    calls = []

    def work(session: database.Session) -> int:
        calls.append(session)
        if len(calls) < 3:
            raise OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))
        return len(calls)

    assert db.write(work) == 3


def test_other_errors_are_not_retried(db: WritableDatabase) -> None:
    calls = []

    def work(session: database.Session) -> None:
        calls.append(1)
        raise OperationalError("UPDATE", {}, sqlite3.OperationalError("no such table: x"))

    with pytest.raises(OperationalError):
        db.write(work)
    assert len(calls) == 1


def test_writers_in_many_threads_lose_nothing(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())

    def add() -> None:
        for _ in range(5):
            samples.submitted(db, run.run_id)

    threads = [threading.Thread(target=add) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [row[0] for row in run_query(db, "SELECT number FROM submission ORDER BY number").rows]
    assert numbers == list(range(1, 81))


def test_reader_sees_what_a_running_writer_wrote(db: WritableDatabase, tmp_path: Path) -> None:
    samples.registered(db, samples.plan())
    reader = open_readonly(tmp_path / "db" / "harness.db", is_grader_running=True)
    assert len(list_runs(reader)) == 1
    reader.close()


def test_reader_works_when_nothing_runs(db: WritableDatabase, tmp_path: Path) -> None:
    samples.registered(db, samples.plan())
    db.close()
    reader = open_readonly(tmp_path / "db" / "harness.db", is_grader_running=False)
    assert len(list_runs(reader)) == 1
    reader.close()


def test_reader_cannot_write(db: WritableDatabase, tmp_path: Path) -> None:
    reader = open_readonly(tmp_path / "db" / "harness.db", is_grader_running=True)
    with pytest.raises(OperationalError, match=r"readonly|read-only"):
        WritableDatabase(reader._engine).write(lambda session: session.execute(text("DELETE FROM run")))
    reader.close()


def _refusing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As for a user who may not write into the folder: opening fails unless the file is called immutable."""
    real, queries = database._connection, []

    def connection(path: Path, query: str) -> sqlite3.Connection:
        queries.append(query)
        if "immutable" not in query:
            raise sqlite3.OperationalError("unable to open database file")
        return real(path, query)

    monkeypatch.setattr(database, "_connection", connection)
    return queries


def test_reader_of_another_user_falls_back_to_immutable_when_no_grader_runs(
    db: WritableDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples.registered(db, samples.plan())
    db.close()
    queries = _refusing(monkeypatch)
    reader = open_readonly(tmp_path / "db" / "harness.db", is_grader_running=False)
    assert len(list_runs(reader)) == 1
    assert queries[0] == "mode=ro"
    reader.close()


def test_reader_never_takes_a_live_database_for_immutable(
    db: WritableDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = _refusing(monkeypatch)
    with pytest.raises(PrerequisiteError, match="cannot be opened"):
        open_readonly(tmp_path / "db" / "harness.db", is_grader_running=True)
    assert not any("immutable" in query for query in queries)


def test_reader_never_leaves_out_what_a_killed_grader_had_logged(
    db: WritableDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples.registered(db, samples.plan())
    _refusing(monkeypatch)
    with pytest.raises(PrerequisiteError, match="cannot be opened"):
        open_readonly(tmp_path / "db" / "harness.db", is_grader_running=False)


def test_missing_database_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="there is no database") as raised:
        open_readonly(tmp_path / "none.db", is_grader_running=False)
    assert "make demo" in raised.value.fix


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "harness.db"
    path.write_bytes(b"not a database, but long enough to have a header" * 100)
    with pytest.raises(PrerequisiteError, match="cannot be opened"):
        open_writer(path)


def test_path_with_special_characters(tmp_path: Path) -> None:
    path = tmp_path / "a ?b#c%20" / "harness.db"
    open_writer(path).close()
    assert path.exists()


def test_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / /tmp rw shared:1 - nfs4 server:/x rw\n")
    monkeypatch.setattr("harness.store.filesystem.MOUNT_TABLE", table)
    monkeypatch.setattr("harness.store.filesystem.Path.resolve", lambda path: Path("/tmp/home/db"))
    with pytest.raises(PrerequisiteError, match="nfs4") as raised:
        open_writer(tmp_path / "x.db")
    assert "local disk" in raised.value.fix

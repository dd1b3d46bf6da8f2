"""The one SQLite file: one writing process, transactions begun explicitly and retried whole, read-only readers."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.pool import QueuePool
from sqlmodel import Session
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from harness.errors import HarnessError, PrerequisiteError
from harness.store.filesystem import refuse_network_filesystem
from harness.store.migrations import migrate, require_current

BUSY_TIMEOUT_S = 20.0
MAX_ATTEMPTS = 6
# Execution option that tells the `begin` event how a transaction starts.
BEGIN_OPTION = "harness_begin"

T = TypeVar("T")


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, OperationalError) and "database is locked" in str(error)


def _retrying() -> Retrying:
    """Whole transactions again on `database is locked`, which a busy timeout alone does not rule out."""
    return Retrying(
        retry=retry_if_exception(_is_locked),
        wait=wait_random_exponential(multiplier=0.02, max=1.0),
        stop=stop_after_attempt(MAX_ATTEMPTS),
        reraise=True,
    )


class Database:
    """A database to read from; each `read` is one transaction and sees one state."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reader = engine.execution_options(**{BEGIN_OPTION: "BEGIN"})

    def read(self, work: Callable[[Session], T]) -> T:
        """The result of `work` in one read transaction."""
        result: T = _retrying()(self._read_once, work)
        return result

    def _read_once(self, work: Callable[[Session], T]) -> T:
        with Session(self._reader) as session:
            return work(session)

    def close(self) -> None:
        """Closes every connection; with the last one SQLite folds the write-ahead log into the file."""
        self._engine.dispose()


class WritableDatabase(Database):
    """The database in the one process that writes it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._writer = engine.execution_options(**{BEGIN_OPTION: "BEGIN IMMEDIATE"})
        # SQLite's busy handler polls and is not fair; threads of this process queue here instead.
        self._lock = threading.Lock()

    def write(self, work: Callable[[Session], T]) -> T:
        """The result of `work` in one committed transaction; nothing of it stays if it raises.

        `work` may run more than once, so it must do nothing but use its session.
        """
        result: T = _retrying()(self._write_once, work)
        return result

    def _write_once(self, work: Callable[[Session], T]) -> T:
        with self._lock, Session(self._writer) as session, session.begin():
            return work(session)


def _connection(path: Path, query: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.resolve()))}?{query}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None)


def _engine(path: Path, query: str) -> Engine:
    """An engine on `path` whose transactions start as the caller says, not as the driver guesses.

    The driver's own transaction handling leaves tables behind after a failed migration, so it is turned off
    (`isolation_level=None`) and every transaction begins explicitly.
    """

    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA foreign_keys=ON")
        # With WAL a killed process loses nothing; a power cut may lose the last commits, never the file.
        connection.execute("PRAGMA synchronous=NORMAL")

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(BEGIN_OPTION, "BEGIN IMMEDIATE"))

    engine = create_engine(
        "sqlite://", creator=lambda: _connection(path, query), poolclass=QueuePool, pool_size=8, max_overflow=64
    )
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine


def open_writer(path: Path) -> WritableDatabase:
    """The database for the one process that writes, created and migrated where needed.

    Raises:
        PrerequisiteError: a network file system, a database of a newer version, or a file that is no database.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    refuse_network_filesystem(path.parent)
    engine = _engine(path, "mode=rwc")
    try:
        # WAL is a property of the file and stays; it cannot be set inside a transaction.
        with closing(_connection(path, "mode=rwc")) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        migrate(engine)
    except (DatabaseError, sqlite3.DatabaseError) as error:
        engine.dispose()
        raise _unreadable(path, error) from error
    except HarnessError:
        engine.dispose()
        raise
    return WritableDatabase(engine)


def open_readonly(path: Path, *, is_grader_running: bool) -> Database:
    """The database for reports; nothing can be written through it.

    A reader that may not write into the folder cannot make the log's index when no grader has left one open;
    without a grader nothing changes the file, so it is then read as immutable.

    Raises:
        PrerequisiteError: there is no database, it cannot be read by this user, or its schema is another version.
    """
    if not path.exists():
        raise PrerequisiteError(
            f"there is no database at {path}",
            "Start a run first (`make demo` or `harness run`), or name the folder that has it with HARNESS_HOME.",
        )
    try:
        return _checked_reader(path, "mode=ro")
    except DatabaseError as error:
        # An immutable file is read without its log: what a killed grader left there would be missing.
        if is_grader_running or _has_log(path):
            raise _unreadable(path, error) from error
    try:
        return _checked_reader(path, "mode=ro&immutable=1")
    except DatabaseError as error:
        raise _unreadable(path, error) from error


def _has_log(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _checked_reader(path: Path, query: str) -> Database:
    engine = _engine(path, query)
    try:
        with engine.execution_options(**{BEGIN_OPTION: "BEGIN"}).connect() as connection:
            require_current(connection)
    except (DatabaseError, HarnessError):
        engine.dispose()
        raise
    return Database(engine)


def _unreadable(path: Path, error: Exception) -> PrerequisiteError:
    reason = error.orig if isinstance(error, DatabaseError) else error
    return PrerequisiteError(
        f"the database {path} cannot be opened: {reason}",
        "Use the account that started the grader, or check the file: `sqlite3 FILE 'pragma quick_check'`.",
    )

"""One query of a person's own, on a database that it cannot change."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import DatabaseError, ProgrammingError, ResourceClosedError
from sqlmodel import Session

from harness.domain.base import Frozen
from harness.errors import UsageError
from harness.store.database import Database


class QueryResult(Frozen):
    """Column names, and rows in their order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def run_query(db: Database, sql: str) -> QueryResult:
    """What one SELECT returns.

    Raises:
        UsageError: it is no single SQL statement that only reads.
    """

    def work(session: Session) -> QueryResult:
        connection = session.connection()
        # A reader's file is open read-only; this also covers a writer's, and what a statement could attach.
        connection.exec_driver_sql("PRAGMA query_only=ON")
        try:
            result = connection.exec_driver_sql(sql)
            return QueryResult(columns=tuple(result.keys()), rows=tuple(tuple(row) for row in result))
        finally:
            # The connection goes back to the pool, where a writer may get it.
            connection.exec_driver_sql("PRAGMA query_only=OFF")

    try:
        return db.read(work)
    except ResourceClosedError as error:
        raise UsageError("the statement returns no rows", "Only queries that read are possible here.") from error
    except (DatabaseError, ProgrammingError) as error:
        raise UsageError(f"SQL: {error.orig}", "`harness sql` shows the views and some queries.") from error


def list_views(db: Database) -> tuple[tuple[str, str], ...]:
    """Each view for people with its column names, in order of the views' names."""
    views = run_query(db, "SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name").rows
    columns = "SELECT group_concat(name, ', ') FROM pragma_table_info('{}')"
    return tuple((str(name), str(run_query(db, columns.format(name)).rows[0][0])) for (name,) in views)

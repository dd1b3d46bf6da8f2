"""Ordered, append-only migrations, each with its version number in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Engine

from harness.errors import PrerequisiteError
from harness.store.migration_3 import MIGRATION_3
from harness.store.migration_4 import MIGRATION_4
from harness.store.migration_5 import MIGRATION_5
from harness.store.migration_6 import MIGRATION_6
from harness.store.schema import TABLES
from harness.store.views import VIEWS

Migration = tuple[str, ...]

# Append only: a released entry is never edited, moved or removed.
MIGRATIONS: tuple[Migration, ...] = (TABLES, VIEWS, MIGRATION_3, MIGRATION_4, MIGRATION_5, MIGRATION_6)


def _version(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _refuse_newer(version: int, known: int) -> None:
    if version > known:
        raise PrerequisiteError(
            f"the database has schema version {version}, this harness knows up to {known}",
            "Update the harness to the version that wrote it, or point HARNESS_HOME to another folder.",
        )


def migrate(engine: Engine, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Brings the database to the newest schema and returns its version; what fails leaves no trace.

    Raises:
        PrerequisiteError: the database was written by a newer harness.
    """
    with engine.connect() as connection:
        with connection.begin():
            _refuse_newer(_version(connection), len(migrations))
        for number, statements in enumerate(migrations, start=1):
            # The version is read again inside BEGIN IMMEDIATE: of two that start at once, one applies a step.
            with connection.begin():
                if _version(connection) >= number:
                    continue
                for statement in statements:
                    connection.exec_driver_sql(statement)
                connection.exec_driver_sql(f"PRAGMA user_version = {number}")
    return len(migrations)


def require_current(connection: Connection) -> None:
    """Does nothing if a reader of this version can read the database.

    Raises:
        PrerequisiteError: it is empty, older (only the grader migrates), or newer.
    """
    version = _version(connection)
    _refuse_newer(version, len(MIGRATIONS))
    if version == 0:
        raise PrerequisiteError("the database is still empty", "Start a run first: `make demo` or `harness run`.")
    if version < len(MIGRATIONS):
        raise PrerequisiteError(
            f"the database has schema version {version}, this harness reads {len(MIGRATIONS)}",
            "Run `harness up`: the grader brings it up to date when it starts.",
        )

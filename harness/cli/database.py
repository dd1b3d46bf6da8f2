"""The database as the command line sees it: read-only, also when nothing is running."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.cli.selection import LATEST, choose
from harness.home import Home

if TYPE_CHECKING:
    from harness.store.database import Database

CONNECT_TIMEOUT_S = 2.0


@contextmanager
def reading(home: Home) -> Iterator[Database]:
    """The database of `home`, opened read-only while the block runs.

    Raises:
        PrerequisiteError: there is none, or it cannot be read.
    """
    from harness.store.database import open_readonly

    db = open_readonly(home.db, is_grader_running=is_grader_running(home))
    try:
        yield db
    finally:
        db.close()


def is_grader_running(home: Home) -> bool:
    """Whether somebody listens on the admin socket of `home`."""
    from harness.unix_socket import reachable

    try:
        with reachable(home.admin_socket) as address, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(CONNECT_TIMEOUT_S)
            connection.connect(address)
    except OSError:
        return False
    return True


def run_id_of(home: Home, name: str) -> str:
    """The run that `name` means, of those that have rows or a folder in this home; `latest` is never a grading."""
    known, gradings = set(home.run_ids()), set[str]()
    if home.db.exists():
        from harness.store.records_runs import list_runs

        with reading(home) as db:
            runs = list_runs(db)
        known |= {run.run_id for run in runs}
        gradings = {run.run_id for run in runs if run.plan.grading}
    return choose(name, known - gradings if name == LATEST else known)

"""A writer that is killed outright, and a reader of another account: real processes on a real file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import samples

from harness.store.database import open_readonly, open_writer
from harness.store.records_queue import requeue_all_scoring, submissions_of
from harness.store.records_runs import list_runs
from harness.store.records_submissions import mark_scoring

TESTS = Path(samples.__file__).parent
KILLED_IN_A_TRANSACTION = """
import os, signal, sys
from pathlib import Path
import samples
from harness.store.database import open_writer
from harness.store.tables import RunRow

db = open_writer(Path(sys.argv[1]))
samples.registered(db, samples.plan(1))

def work(session):
    session.get(RunRow, samples.plan(1).run_id).detail = "half"
    session.flush()
    os.kill(os.getpid(), signal.SIGKILL)

db.write(work)
"""
READ_AS_NOBODY = """
import os, sys
from pathlib import Path
from harness.store.database import open_readonly
from harness.store.records_runs import list_runs

os.setgid(65534)
os.setuid(65534)
assert len(list_runs(open_readonly(Path(sys.argv[1]), is_grader_running=sys.argv[2] == "yes"))) == 1
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_killed_writer_keeps_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "harness.db"
    assert python(KILLED_IN_A_TRANSACTION, str(path)).returncode == -signal.SIGKILL
    reader = open_readonly(path, is_grader_running=False)
    assert [run.detail for run in list_runs(reader)] == [""]
    reader.close()
    db = open_writer(path)
    samples.registered(db, samples.plan(2))
    assert len(list_runs(db)) == 2
    db.close()


def test_queue_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "harness.db"
    db = open_writer(path)
    run = samples.registered(db, samples.plan())
    mark_scoring(db, samples.queued(db, run.run_id, "a").id)
    samples.queued(db, run.run_id, "b")
    db.close()
    db = open_writer(path)
    assert requeue_all_scoring(db) == 1
    assert [one.state.value for one in submissions_of(db, run.run_id)] == ["queued", "queued"]
    db.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another account")
@pytest.mark.parametrize("is_running", [True, False])
def test_another_account_can_read(tmp_path: Path, is_running: bool) -> None:
    # Reachable for the other account, whatever the mode of pytest's own folders.
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    path = tmp_path / "db" / "harness.db"
    db = open_writer(path)
    samples.registered(db, samples.plan())
    if not is_running:
        db.close()
    done = python(READ_AS_NOBODY, str(path), "yes" if is_running else "no")
    db.close()
    assert done.returncode == 0, done.stderr

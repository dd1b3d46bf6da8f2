"""How a grading is shown, and which run `latest` means beside one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from samples import items, plan, registered

from harness.cli.catalog import Kind, list_
from harness.cli.database import run_id_of
from harness.cli.grade import _named, show_grading
from harness.cli.show import show
from harness.domain.findings import Finding
from harness.domain.specs import Grading, ModelRef, RunPlan
from harness.errors import UsageError
from harness.home import Home
from harness.report.grading import grading_report
from harness.store.database import open_writer
from harness.store.records_findings import add_findings
from tests import samples

ITEMS = items([1, 0, 0, 0], [1, 1, 0, 0])


RUN_ID = "20260103T000000_grade_0009"
# Not the model of the recorded runs, whose baseline would be this one's too.
MODEL = ModelRef(repo_id="other", revision="1", path=Path("models/other"), tree_hash="e" * 64, size_bytes=10)


def grade_plan(path: str, *, has_base: bool) -> RunPlan:
    return plan(run_id=RUN_ID, agent="none", model=MODEL, grading=Grading(path=path, has_base=has_base))


@pytest.fixture
def graded_checkpoint(recorded: Home) -> str:
    """A grading against a base in the home of the recorded runs, later than they."""
    db = open_writer(recorded.db)
    try:
        base = items([0, 0, 0, 0], [0, 0, 0, 0])
        run = samples.graded(db, grade_plan("/models/[bold]mine", has_base=True), base, ITEMS)
        add_findings(db, run.run_id, [Finding(kind="lineage", severity="info", detail="nearest is the base")])
    finally:
        db.close()
    return run.run_id


def test_latest_is_never_a_grading(recorded: Home, graded_checkpoint: str) -> None:
    assert run_id_of(recorded, "latest") < graded_checkpoint
    assert run_id_of(recorded, graded_checkpoint) == graded_checkpoint


def test_show_tells_a_gradings_score_interval_improvement_and_findings(graded_checkpoint: str, capsys) -> None:
    show(graded_checkpoint, as_json=False)
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "/models/[bold]mine" in lines["model"]
    assert "50.00 ± " in lines["score, final items"]
    assert "% of 4, 95 % " in lines["score, final items"]
    assert "+50.00 points (95 % " in lines["improvement"]
    assert "info: lineage: nearest is the base" in lines["finding 1"]
    assert lines["output length"].endswith("4.0 tokens")


def test_one_that_goes_on_has_no_score_yet(recorded: Home, capsys) -> None:
    db = open_writer(recorded.db)
    try:
        run = registered(db, grade_plan("/models/mine", has_base=False))
        show_grading(grading_report(db, run.run_id))
    finally:
        db.close()
    out = capsys.readouterr().out
    assert "planned" in out
    assert "score" not in out


def test_a_refused_checkpoint_is_called_that(recorded: Home, graded_checkpoint: str, capsys) -> None:
    with closing(sqlite3.connect(recorded.db)) as connection, connection:
        connection.execute("UPDATE run SET verdict = 'no_submission' WHERE run_id = ?", (graded_checkpoint,))
    for shown in (lambda: show(graded_checkpoint, as_json=False), lambda: list_(Kind.GRADINGS, as_json=False)):
        shown()
        out = capsys.readouterr().out
        assert out.count("refused") == 1
        assert "no_submission" not in out


def test_with_a_base_the_checkpoint_must_be_a_folder(tmp_path) -> None:
    assert _named(str(tmp_path), has_base=True) == str(tmp_path.resolve())
    assert _named("org/model", has_base=False) == "org/model"
    with pytest.raises(UsageError, match="no folder"):
        _named("org/model", has_base=True)

"""Records leave as files and come back into another database, through the grader alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from samples import plan, registered
from served import served

from harness.cli.edge import guarded
from harness.grader.admin_app import create_admin_app
from harness.grader.service import open_grader
from harness.home import Home
from harness.store.database import open_writer

PUBLISHED = (
    "run_id,timestamp,task,agent,base_model,baseline,best_score,improvement,submissions,duration_s,success,workspace"
)


@pytest.fixture
def exported(recorded: Home, tmp_path: Path) -> Path:
    out = tmp_path / "out"
    assert guarded(["export", "--all", "--out", str(out)]) == 0
    return out


@pytest.fixture
def other_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "other")
    home.create()
    monkeypatch.setenv("HARNESS_HOME", str(home.path))
    return home


def import_into(home: Home, *folders: Path) -> int:
    db = open_writer(home.db)
    grader = open_grader(home, db)
    try:
        with served(create_admin_app(grader), home.admin_socket):
            return guarded(["import", *map(str, folders)])
    finally:
        grader.stop()
        db.close()


def test_export_writes_record_scores_and_results(recorded: Home, graded, later, tmp_path, capsys):
    out = tmp_path / "out"
    assert guarded(["export", "--all", "--out", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert set(printed) == {str(path) for path in out.rglob("*") if path.is_file()}
    assert {path.name for path in (out / graded).iterdir()} == {"record.json", "scores.json"}
    lines = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    assert ",".join(lines[0]).startswith(PUBLISHED)
    assert {line["run_id"]: line["success"] for line in lines} == {graded: "True", later: "False"}
    scores = json.loads((out / graded / "scores.json").read_text())
    assert scores["best"] == {"submission_id": 1, "score": 85.0}


def test_a_run_that_still_goes_on_is_left_out(recorded: Home, graded, later, tmp_path, capsys):
    db = open_writer(recorded.db)
    running = registered(db, plan(9)).run_id
    db.close()
    out = tmp_path / "out"
    assert guarded(["export", "--all", "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == sorted([graded, later, "results.csv"])
    assert f"left out: {running}" in capsys.readouterr().err
    assert guarded(["export", running, "--out", str(out)]) == 2


def test_one_run_is_exported_alone(recorded: Home, graded, tmp_path, capsys):
    out = tmp_path / "out"
    assert guarded(["export", graded, "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == [graded, "results.csv"]


@pytest.mark.parametrize("arguments", [[], ["latest", "--all"]])
def test_export_needs_one_run_or_all(recorded: Home, capsys, arguments):
    assert guarded(["export", *arguments]) == 2


def test_an_exported_run_comes_back_in_another_home(exported, other_home, graded, later, capsys):
    before = capsys.readouterr()
    assert import_into(other_home, exported) == 0, before
    capsys.readouterr()
    assert guarded(["show", graded, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["verdict"], facts["improvement_pct"]) == ("graded", pytest.approx(60))
    assert guarded(["sql", "select run_id from run order by run_id", "--csv"]) == 0
    assert capsys.readouterr().out.split() == ["run_id", graded, later]


def test_importing_again_changes_nothing(exported, other_home, graded):
    assert import_into(other_home, exported / graded) == 0
    assert import_into(other_home, exported / graded / "record.json") == 0


def test_a_record_with_another_score_is_refused(exported, other_home, graded, capsys):
    record = exported / graded / "record.json"
    content = json.loads(record.read_text())
    content["run"]["headline"]["score"]["score_pct"] = 99.0
    record.write_text(json.dumps(content))
    assert import_into(other_home, exported / graded) == 2
    assert "does not follow from its item scores" in capsys.readouterr().err


def test_without_a_grader_it_says_how_to_start_one(exported, other_home, capsys):
    assert guarded(["import", str(exported)]) == 3
    assert "harness up" in capsys.readouterr().err


def test_a_folder_without_records_is_refused(other_home, tmp_path, capsys):
    (tmp_path / "nothing").mkdir()
    assert guarded(["import", str(tmp_path / "nothing")]) == 2
    assert "record.json" in capsys.readouterr().err

"""A run's record as files in its folder: enough to bring its rows back on any machine."""

from __future__ import annotations

from pathlib import Path

from harness.home import Home
from harness.report.published import run_scores
from harness.store.database import Database, open_readonly
from harness.store.export import export_run, write_record

SCORES = "scores.json"


def write_files(db: Database, run_id: str, folder: Path) -> list[Path]:
    """Writes `record.json` and `scores.json` of a run into `folder`; returns their paths."""
    record = write_record(export_run(db, run_id), folder)
    scores = folder / SCORES
    scores.write_text(run_scores(db, run_id).model_dump_json(indent=2) + "\n", encoding="utf-8")
    return [record, scores]


def keep_record(home: Home, run_id: str) -> None:
    """Writes them into the run's own folder; the grader runs, for it has just closed the run."""
    db = open_readonly(home.db, is_grader_running=True)
    try:
        write_files(db, run_id, home.run(run_id).path)
    finally:
        db.close()

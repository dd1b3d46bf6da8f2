"""`harness export` and `harness import`: records as files, and back into any database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render
from harness.errors import PrerequisiteError, UsageError

if TYPE_CHECKING:
    from harness.home import Home
    from harness.store.database import Database

RECORD, RESULTS = "record.json", "results.csv"


def export(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run id, its beginning, or `latest`.")] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Every run of the database.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Where to write.")] = Path("export"),
) -> None:
    """Write runs as files: record.json, scores.json, results.csv."""
    from harness.cli.database import reading, run_id_of
    from harness.settings import load_settings
    from harness.store.records_runs import list_runs

    if (run is None) is not is_all:
        raise UsageError("name one run, or give --all", "Example: `harness export latest`.")
    home = load_settings().resolved_home()
    with reading(home) as db:
        chosen = {run_id_of(home, run)} if run is not None else None
        runs = [one for one in list_runs(db) if chosen is None or one.run_id in chosen]
        # A run that still goes on has no result yet, and no other database would take it.
        for one in runs:
            if not one.is_closed:
                render.say(f"left out: {one.run_id} has not ended")
        run_ids = tuple(one.run_id for one in runs if one.is_closed)
        if not run_ids:
            raise UsageError("no finished run to export", "See `harness list`; a run that was stopped can be resumed.")
        for path in write(db, run_ids, out):
            print(path)


def write(db: Database, run_ids: tuple[str, ...], out: Path) -> list[Path]:
    """Writes the files of these runs below `out` and returns their paths."""
    from harness.report.published import results_csv
    from harness.runner.record import write_files

    written = [path for run_id in run_ids for path in write_files(db, run_id, out / run_id)]
    results = out / RESULTS
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(results_csv(db, run_ids), encoding="utf-8")
    return [*written, results]


def import_(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER", help="A run's folder, or one that holds such.")],
) -> None:
    """Take in exported runs; the same one again changes nothing."""
    from harness.runner.grader_client import GraderClient
    from harness.settings import load_settings
    from harness.store.importing import parse_record

    home = load_settings().resolved_home()
    records = [parse_record(path.read_bytes()) for folder in folders for path in records_in(folder)]
    require_grader(home)
    grader = GraderClient(home)
    for record in records:
        grader.import_run(record)
        render.say(f"{record.run_id} is in {home.db_link}")


def records_in(folder: Path) -> list[Path]:
    """The record of a run's folder, or those of all run folders in it.

    Raises:
        UsageError: there is none.
    """
    found = [folder] if folder.is_file() else [folder / RECORD] if (folder / RECORD).is_file() else []
    found = found or sorted(folder.glob(f"*/{RECORD}"))
    if not found:
        raise UsageError(f"{folder} holds no {RECORD}", "Name a folder that `harness export` has written.")
    return found


def require_grader(home: Home) -> None:
    """Does nothing if the grader answers; it alone writes the database.

    Raises:
        PrerequisiteError: it does not.
    """
    from harness.cli.database import is_grader_running

    if not is_grader_running(home):
        raise PrerequisiteError("the grader, which alone writes the record, is not running", "Start it: `harness up`.")


def register(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.command("export", epilog="Examples: harness export latest; harness export --all --out results")(export)
    app.command("import", epilog="Example: harness import results/20260101T120000_example_ab12")(import_)

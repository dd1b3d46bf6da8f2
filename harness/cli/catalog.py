"""`harness list`: runs, and what can be run."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import render
from harness.cli.benchmarks import print_benchmarks
from harness.cli.grade import STATES

if TYPE_CHECKING:
    from harness.settings import Settings

Row = dict[str, Any]
# What of a run fits on a line; `--json` has the rest.
RUN_COLUMNS = ("run_id", "agent", "task", "state", "final_pct", "improvement_pct")
# How a run is marked that others are not ranked with.
LABEL = "label"
UNTOLD = (None, "", "standard")


class Kind(StrEnum):
    """What can be listed."""

    RUNS = "runs"
    GRADINGS = "gradings"
    BENCHMARKS = "benchmarks"
    AGENTS = "agents"
    MODELS = "models"


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """List runs, gradings, benchmarks, agents or base models."""
    from harness.settings import load_settings

    settings = load_settings()
    rows = _LISTS[kind](settings)
    if kind is Kind.BENCHMARKS:
        _tell_broken(rows)
        _tell_no_folder(settings)
    if as_json:
        render.print_json(rows)
    elif rows and kind is Kind.BENCHMARKS:
        print_benchmarks(rows)
    elif rows:
        if kind is Kind.GRADINGS:
            rows = [row | {"state": STATES.get(row["state"], row["state"])} for row in rows]
        columns = [
            name for name in rows[0] if name in RUN_COLUMNS or (_may_be_told(kind, name) and _is_told(name, rows))
        ]
        render.print_table(columns, [[row[name] for name in columns] for row in rows])
    else:
        render.say(f"no {kind} here (`harness config` shows the folders in HARNESS_ROOT and HARNESS_HOME)")


def _may_be_told(kind: Kind, name: str) -> bool:
    """Of a run only what must not be overlooked."""
    return kind is not Kind.RUNS or name == LABEL


def _is_told(name: str, rows: list[Row]) -> bool:
    """Whether any row has something in this column that does not go without saying; `--json` has all."""
    return any(row[name] not in UNTOLD for row in rows)


def _runs(settings: Settings) -> list[Row]:
    """Newest first."""
    from harness.cli.database import reading
    from harness.report.tables import run_table

    with reading(settings.resolved_home()) as db:
        return run_table(db)[::-1]


def _gradings(settings: Settings) -> list[Row]:
    """Newest first."""
    from harness.cli.database import reading
    from harness.report.tables import grading_table

    with reading(settings.resolved_home()) as db:
        return grading_table(db)[::-1]


def _benchmarks(settings: Settings) -> list[Row]:
    from harness.cli.benchmarks import benchmark_rows

    return benchmark_rows(settings)


def _tell_broken(rows: list[Row]) -> None:
    """Folders that cannot be used, on stderr too, where nobody overlooks them; the list itself stands."""
    for row in rows:
        if row["error"] is not None:
            render.say(f"{row['id']} cannot be used: {row['error']}")


def _tell_no_folder(settings: Settings) -> None:
    """A SMITH_BENCH_DIR that somebody has set, and that is not there."""
    if "smith_bench_dir" in settings.model_fields_set and not settings.smith_folder().is_dir():
        render.say(f"SMITH_BENCH_DIR {settings.smith_bench_dir} is no folder: none of its benchmarks is listed")


def _agents(settings: Settings) -> list[Row]:
    from harness.catalog import list_agents

    return [
        {"id": found.id, "llm": ", ".join(found.config.llm) or "none", "description": found.config.description}
        for found in list_agents(settings)
    ]


def _models(settings: Settings) -> list[Row]:
    """Base models that need no download: shipped with a benchmark, in the local folder, or already in the store."""
    places = {"store": settings.resolved_home().models}
    if settings.autorl_file_path is not None:
        places["AUTORL_FILE_PATH"] = settings.autorl_file_path / "models"
    for folder in sorted((settings.root / "benchmarks").glob("*/models")):
        places[f"benchmark {folder.parent.name}"] = folder
    return [
        {"model": config.parent.name, "where": where, "folder": str(config.parent)}
        for where, folder in places.items()
        for config in sorted(folder.glob("*/config.json"))
    ]


_LISTS: dict[Kind, Callable[[Settings], list[Row]]] = {
    Kind.RUNS: _runs,
    Kind.GRADINGS: _gradings,
    Kind.BENCHMARKS: _benchmarks,
    Kind.AGENTS: _agents,
    Kind.MODELS: _models,
}


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("list", epilog="Examples: harness list; harness list benchmarks --json")(list_)

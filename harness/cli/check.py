"""`harness check benchmark`: the contract suite on one folder, a verdict per check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render

if TYPE_CHECKING:
    from harness.authoring.docker_workshop import DockerWorkshop
    from harness.authoring.suite import Workshop
    from harness.authoring.verdicts import CheckResult, SuiteReport
    from harness.settings import Settings

EXIT_FAILED = 1
MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "-"}


class Kind(StrEnum):
    """What can be checked."""

    BENCHMARK = "benchmark"


def check(
    kind: Annotated[Kind, typer.Argument(help="What to check.")],
    name: Annotated[str, typer.Argument(metavar="NAME|PATH", help="A benchmark's id, or its folder.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the benchmark's files, instead of a download.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Try what a benchmark promises, in a run's containers."""
    from harness.settings import load_settings

    settings = load_settings()
    folder = _folder(settings, name)
    with workshop(settings) as place:
        report = checked(settings, folder, data_dir.resolve() if data_dir else None, place)
    if as_json:
        render.print_json({**report.model_dump(mode="json"), "has_passed": report.has_passed})
    else:
        render.print_facts({"benchmark": report.benchmark, "checks": len(report.checks), "failed": len(report.failed)})
    if not report.has_passed:
        raise typer.Exit(EXIT_FAILED)


def checked(settings: Settings, folder: Path, data_dir: Path | None, place: Workshop) -> SuiteReport:
    """What the suite says of a folder, told as it goes; one whose config cannot be read has a report, too."""
    from harness.authoring.suite import check_folder, unreadable
    from harness.catalog import benchmark_at
    from harness.errors import UsageError

    try:
        benchmark = benchmark_at(settings, folder)
    except UsageError as error:
        report = unreadable(folder, error)
        tell(report.checks[0])
        return report
    return check_folder(benchmark, data_dir, place, tell)


def tell(result: CheckResult) -> None:
    """One line on stderr when a check has ended, and what to do if it failed."""
    render.say(render.without_escapes(f"{MARKS[result.outcome]:<7} {result.name:<12} {result.what}"))
    if result.fix:
        render.say(render.without_escapes(f"{'':<20} fix: {result.fix}"))


@contextmanager
def workshop(settings: Settings) -> Iterator[DockerWorkshop]:
    """This machine's Docker, builds of images shown on stderr."""
    from harness.authoring.docker_workshop import DockerWorkshop
    from harness.cli.image_progress import showing_builds

    with showing_builds() as progress, DockerWorkshop.open(settings, progress) as place:
        yield place


def _folder(settings: Settings, name: str) -> Path:
    """A path where it looks like one or is a folder, else the folder of a benchmark's id."""
    from harness.catalog import benchmark_folder

    path = Path(name).expanduser()
    is_path = "/" in name or (path / "config.yaml").is_file()
    return path.resolve() if is_path else benchmark_folder(settings, name)


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(
        "check",
        epilog="Examples: harness check benchmark arithmetic; harness check benchmark ./mytask --data-dir ./files",
    )(check)

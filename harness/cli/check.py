"""`harness check`: the contract suite on a benchmark's or an agent's folder, a verdict per check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render

if TYPE_CHECKING:
    from harness.authoring.docker_workshop import DockerWorkshop
    from harness.authoring.suite import Workshop
    from harness.authoring.verdicts import CheckResult, SuiteReport
    from harness.domain.specs import Agent
    from harness.settings import Settings

EXIT_FAILED = 1
MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "-"}


class Kind(StrEnum):
    """What can be checked."""

    BENCHMARK = "benchmark"
    AGENT = "agent"


def check(
    kind: Annotated[Kind, typer.Argument(help="What to check.")],
    name: Annotated[str, typer.Argument(metavar="NAME|PATH", help="A benchmark's or an agent's id, or its folder.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the benchmark's files, instead of a download.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Try what a benchmark or an agent promises."""
    from harness.errors import UsageError
    from harness.settings import load_settings

    settings = load_settings()
    if kind is Kind.AGENT and data_dir is not None:
        raise UsageError("--data-dir is of benchmarks: an agent has no data")
    report = _agent(settings, name) if kind is Kind.AGENT else _benchmark(settings, name, data_dir)
    if as_json:
        render.print_json({**report.model_dump(mode="json"), "has_passed": report.has_passed})
    else:
        render.print_facts({report.kind: report.name, "checks": len(report.checks), "failed": len(report.failed)})
    if not report.has_passed:
        raise typer.Exit(EXIT_FAILED)


def _benchmark(settings: Settings, name: str, data_dir: Path | None) -> SuiteReport:
    from harness.catalog import benchmark_folder

    folder = _folder(name, lambda: benchmark_folder(settings, name))
    with workshop(settings) as place:
        return checked(settings, folder, data_dir.resolve() if data_dir else None, place)


def _agent(settings: Settings, name: str) -> SuiteReport:
    """What the suite says of an agent; without Docker, of what can be seen without."""
    from harness.authoring.agent_suite import check_agent
    from harness.authoring.suite import unreadable
    from harness.catalog import agent_at, agent_folder
    from harness.errors import PrerequisiteError, UsageError
    from harness.sandbox.engine import connect

    folder = _folder(name, lambda: agent_folder(settings, name))
    try:
        agent = agent_at(folder)
    except UsageError as error:
        report = unreadable(folder, error, "agent")
        tell(report.checks[0])
        return report
    try:
        connect().close()
    except PrerequisiteError as error:
        return check_agent(agent, settings.root, f"not tried: {error.what}", tell)
    with _agent_place(settings) as in_docker:
        return check_agent(agent, settings.root, in_docker, tell)


@contextmanager
def _agent_place(settings: Settings) -> Iterator[dict[str, Callable[[Agent], str]]]:
    """The checks of the suite that need Docker, on this machine's."""
    from harness.authoring.agent_image import image, start
    from harness.authoring.docker_workshop import AGENT_ZONES, DockerWorkshop
    from harness.cli.image_progress import showing_builds

    with showing_builds() as progress, DockerWorkshop.open(settings, progress, AGENT_ZONES) as place:
        yield {"image": partial(image, place), "start": partial(start, place)}


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
    render.say(f"{MARKS[result.outcome]:<7} {result.name:<12} {result.what}")
    if result.fix:
        render.say(f"{'':<20} fix: {result.fix}")


@contextmanager
def workshop(settings: Settings) -> Iterator[DockerWorkshop]:
    """This machine's Docker, builds of images shown on stderr."""
    from harness.authoring.docker_workshop import DockerWorkshop
    from harness.cli.image_progress import showing_builds

    with showing_builds() as progress, DockerWorkshop.open(settings, progress) as place:
        yield place


def _folder(name: str, known: Callable[[], Path]) -> Path:
    """A path where it looks like one or is a folder, else the folder that has this id."""
    path = Path(name).expanduser()
    is_path = "/" in name or (path / "config.yaml").is_file()
    return path.resolve() if is_path else known()


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(
        "check",
        epilog="Examples: harness check benchmark arithmetic; harness check benchmark ./mytask --data-dir ./files; "
        "harness check agent codex",
    )(check)

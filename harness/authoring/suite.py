"""The contract suite of benchmarks: what every benchmark folder promises, tried on one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

from harness.authoring import data_checks, folder_checks, scoring_checks
from harness.authoring.data_checks import Prepared
from harness.authoring.scoring_checks import Subject
from harness.authoring.scratch import scratch_folder
from harness.authoring.verdicts import CheckResult, Kind, Outcome, Skipped, SuiteReport
from harness.domain.specs import Benchmark
from harness.errors import EvaluationFailed, PrerequisiteError, UsageError
from harness.runner.data_sources import Fetcher
from harness.scorer.client import ScorerClient

FOLDER_CHECKS: dict[str, Callable[[Benchmark], str | Skipped]] = {
    "licence": folder_checks.licence,
    "prompt": folder_checks.prompt,
    "description": folder_checks.description,
    "code": folder_checks.code,
    "exposure": folder_checks.exposure,
    "mode": folder_checks.mode,
}
DATA_CHECKS: dict[str, Callable[[Benchmark, Prepared], str | Skipped]] = {
    "division": data_checks.division,
    "examples": data_checks.examples,
    "cluster": data_checks.cluster,
}
SCORING_CHECKS: dict[str, Callable[[Subject], str | Skipped]] = {
    "perfect": scoring_checks.perfect,
    "floor": scoring_checks.floor,
    "extract": scoring_checks.extraction,
    "repeat": scoring_checks.repetition,
    "hostile": scoring_checks.hostility,
}
# What a folder is to blame for; any other error is the machine's.
BLAMED = (UsageError, PrerequisiteError, EvaluationFailed)
Tell = Callable[[CheckResult], None]


class Workshop(Protocol):
    """Where a folder's code runs: never in this process."""

    @property
    def scratch(self) -> Path:
        """A folder for what lasts no longer than the suite."""

    def why_not(self, benchmark: Benchmark) -> str:
        """Why answers to this benchmark cannot be tried here; empty if they can."""

    def fetch(self, benchmark: Benchmark) -> Fetcher:
        """What runs the folder's data script."""

    def scorer(self, benchmark: Benchmark) -> AbstractContextManager[ScorerClient]:
        """The scorer of the folder, up while the block runs."""


def unreadable(folder: Path, error: UsageError, kind: Kind = "benchmark") -> SuiteReport:
    """The report on a folder whose config cannot be read: nothing else can be tried."""
    failed = CheckResult(name="config", outcome=Outcome.FAILED, what=error.what, fix=error.fix)
    return SuiteReport(kind=kind, name=folder.name, path=str(folder), checks=(failed,))


def check_folder(benchmark: Benchmark, data_dir: Path | None, workshop: Workshop, tell: Tell) -> SuiteReport:
    """Tries the folder; `tell` gets each result when it is there.

    Raises:
        InfrastructureError: Docker, or the scorer, broke for reasons of its own.
    """
    results = told(_results(benchmark, data_dir, workshop), tell)
    return SuiteReport(name=benchmark.id, path=str(benchmark.path), checks=results)


def told(results: Iterable[CheckResult], tell: Tell) -> tuple[CheckResult, ...]:
    """All results; `tell` has got each when it was there."""
    found: list[CheckResult] = []
    for result in results:
        found.append(result)
        tell(result)
    return tuple(found)


def _results(benchmark: Benchmark, data_dir: Path | None, workshop: Workshop) -> Iterator[CheckResult]:
    yield CheckResult(name="config", outcome=Outcome.PASSED, what=f"version {benchmark.config.version}")
    for name, look in FOLDER_CHECKS.items():
        yield tried(name, partial(look, benchmark))
    with scratch_folder(workshop.scratch) as scratch:
        fetch, stores = workshop.fetch(benchmark), dict[str, Prepared]()

        def prepare(name: str) -> str:
            stores[name] = data_checks.prepare(benchmark, data_dir, scratch / name, fetch)
            return f"{stores[name].ref.train_items} train and {stores[name].ref.eval_items} hidden items"

        def again() -> str:
            prepare("second")
            return data_checks.again(stores["first"], stores["second"])

        yield tried("data", partial(prepare, "first"))
        if "first" not in stores:
            yield from not_tried((*DATA_CHECKS, "again", *SCORING_CHECKS), "there is no data")
            return
        for name, weigh in DATA_CHECKS.items():
            yield tried(name, partial(weigh, benchmark, stores["first"]))
        yield tried("again", again)
        yield from _scored(benchmark, stores["first"], workshop)


def _scored(benchmark: Benchmark, data: Prepared, workshop: Workshop) -> Iterator[CheckResult]:
    unknown = folder_checks.mode(benchmark)
    why_not = unknown.reason if isinstance(unknown, Skipped) else workshop.why_not(benchmark)
    if not (benchmark.path / "eval.py").is_file():
        why_not = why_not or "there is no eval.py"
    if why_not:
        yield from not_tried(tuple(SCORING_CHECKS), why_not)
        return
    with workshop.scorer(benchmark) as scorer:
        subject = Subject(benchmark, data.hidden, scorer)
        for name, judge in SCORING_CHECKS.items():
            yield tried(name, partial(judge, subject))


def tried(name: str, check: Callable[[], str | Skipped]) -> CheckResult:
    """How one check ended; what the folder is not to blame for is raised."""
    try:
        said = check()
    except BLAMED as error:
        return CheckResult(name=name, outcome=Outcome.FAILED, what=error.what, fix=error.fix)
    if isinstance(said, Skipped):
        return CheckResult(name=name, outcome=Outcome.SKIPPED, what=said.reason)
    return CheckResult(name=name, outcome=Outcome.PASSED, what=said)


def not_tried(names: Iterable[str], why: str) -> Iterator[CheckResult]:
    """Checks that were left out, with the reason."""
    for name in names:
        yield CheckResult(name=name, outcome=Outcome.SKIPPED, what=why)

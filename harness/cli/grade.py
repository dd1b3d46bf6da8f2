"""`harness grade`: scores a local checkpoint outside a run, by the same grader and with the same record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render
from harness.cli.run import EXIT_NOT_GRADED, Json, launching

if TYPE_CHECKING:
    from harness.domain.scoring import Improvement, Score
    from harness.report.grading import GradingReport
    from harness.runner.request import RunRequest

# Verdicts speak of agents; of a checkpoint they mean this.
STATES = {"no_submission": "refused", "agent_failed": "failed"}


def grade(
    task: Annotated[str, typer.Option(help="Folder under benchmarks/, or smith-<name> of SMITH_BENCH_DIR.")],
    model: Annotated[
        str, typer.Option(help="The checkpoint: a Hugging Face folder; without --base also a model's name.")
    ],
    base: Annotated[
        str | None,
        typer.Option(help="Its base model, as --model of `harness run`: admission and improvement as of a submission."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the benchmark's files, instead of the hub.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="standard or paper.")] = "standard",
    eval_mode: Annotated[
        str | None, typer.Option(help="per_sample, code or opencompass; default: the benchmark's own.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Score on so many hidden items only.")] = None,
    gpus: Annotated[str, typer.Option(help="GPU UUIDs, comma-separated (HARNESS_DEVICE=gpu).")] = "",
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Score it anew, and tell whether the answers are the same.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score any local checkpoint on a benchmark, outside a run."""
    from harness.cli.choices import eval_mode_of, protocol_of
    from harness.domain.specs import Grading
    from harness.runner.request import GRADING_LIMIT_S, RunRequest

    request = RunRequest(
        task=task,
        model=base or model,
        data_dir=data_dir.resolve() if data_dir else None,
        eval_mode=eval_mode_of(eval_mode),
        timeout_s=GRADING_LIMIT_S,
        protocol=protocol_of(protocol),
        limit=limit,
        gpus=tuple(gpu for gpu in gpus.split(",") if gpu),
        grading=Grading(path=_named(model, has_base=base is not None), has_base=base is not None, is_anew=no_cache),
    )
    report = _graded(request)
    if as_json:
        render.print_json(report)
    else:
        show_grading(report)
    if report.score is None:
        raise typer.Exit(EXIT_NOT_GRADED)


def _graded(request: RunRequest) -> GradingReport:
    from harness.cli.database import reading
    from harness.report.grading import grading_report

    with launching() as (launcher, home):
        status = launcher.grade(launcher.draft(request))
        with reading(home) as db:
            return grading_report(db, status.run_id)


def _named(model: str, *, has_base: bool) -> str:
    """The checkpoint as the record names it: its folder, whole, where it is one."""
    from harness.errors import UsageError

    folder = Path(model).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if has_base:
        raise UsageError(f"--model {model} is no folder", "With --base, name the checkpoint's own folder.")
    return model


def show_grading(report: GradingReport) -> None:
    """The result, on stdout."""
    measured = report.measured
    decides = "all" if report.protocol == "paper" else "final"
    facts: dict[str, object] = {
        "task": f"{report.task} ({report.protocol}{f', --limit {report.limit}' if report.limit else ''})",
        "model": report.model,
        "base": report.base_model,
        "state": None if report.state == "graded" else STATES.get(report.state, report.state),
        "why": None if report.score else report.detail,
        f"score, {decides} items": _score(report.score),
        "feedback items": _score(report.feedback),
        "all items": _score(report.overall) if decides != "all" else None,
        "base's score": _score(report.baseline),
        "improvement": _improvement(report.improvement),
        "note": report.note,
    }
    if measured:
        seconds = (measured.load_seconds, measured.generate_seconds, measured.score_seconds)
        facts |= {
            "truncated outputs": f"{100 * measured.truncation_rate:.1f} %",
            "no answer found": f"{100 * measured.extraction_failure_rate:.1f} %",
            "output length": f"{measured.mean_output_tokens:.1f} tokens",
            "load, generate, score": " + ".join(f"{value:.1f}" for value in seconds) + " s",
            "engine": _engine(report),
            "scored": "before: a stored result (--no-cache scores anew)" if measured.is_stored else "now",
        }
    if report.agreement:
        agreement = report.agreement
        facts["repeat"] = f"{agreement.n_equal:,} of {agreement.n_items:,} items equal to the first scoring"
        facts["differing"] = ", ".join(agreement.differing_items[:5])
    for number, finding in enumerate(report.findings, start=1):
        facts[f"finding {number}"] = f"{finding.severity}: {finding.kind}: {finding.detail}"
    render.print_facts(facts | {"record": f"harness show {report.run_id}"})


def _score(score: Score | None) -> str:
    if score is None:
        return ""
    interval = "" if score.low_pct is None else f", 95 % {score.low_pct:.2f} to {score.high_pct:.2f}"
    return f"{score.score_pct:.2f} ± {score.stderr_pct:.2f} % of {score.n_items:,}{interval}"


def _improvement(gain: Improvement | None) -> str:
    if gain is None:
        return ""
    probable = "" if gain.probability is None else f", P(> 0) = {gain.probability:.3f}"
    return f"{gain.points:+.2f} points (95 % {gain.low:+.2f} to {gain.high:+.2f}{probable})"


def _engine(report: GradingReport) -> str:
    assert report.measured is not None
    spec = report.measured.engine
    versions = report.measured.engine_info.get("versions", {})
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    parts = (spec.get("engine"), spec.get("dtype"), spec.get("device"), told)
    return ", ".join(str(part) for part in parts if part)


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(
        "grade",
        epilog="Examples: harness grade --task arithmetic --model ./mine; "
        "harness grade --task gsm8k --data-dir ./gsm8k --model ./v3 --base ./SmolLM2 --limit 100 --no-cache",
    )(grade)

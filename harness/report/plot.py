"""A run as a picture: the baseline with its interval, and the score of each submission at the time of its hand-in."""

from __future__ import annotations

from pathlib import Path

from harness.domain.base import Frozen
from harness.domain.scoring import Score
from harness.domain.specs import Protocol
from harness.errors import PrerequisiteError, UsageError
from harness.store.database import Database
from harness.store.records_evaluations import get_baseline
from harness.store.records_queue import submissions_of
from harness.store.records_runs import get_run

FORMATS = (".svg", ".png", ".pdf")
SIZE_INCHES = (7.2, 3.6)
BLUE, GREY = "#1f5fa8", "#808080"


class Point(Frozen):
    """One scored submission: minutes of agent time, and its headline score."""

    number: int
    minutes: float
    score: Score
    is_best: bool


class RunPicture(Frozen):
    """What is drawn of one run; `items` says which hidden items the scores are of."""

    title: str
    items: str
    baseline: Score | None
    points: tuple[Point, ...]
    improvement: str = ""


def picture_of(db: Database, run_id: str) -> RunPicture:
    """The run as it is in the record.

    Raises:
        NotFound: there is no such run.
        UsageError: nothing of it has a score.
    """
    run, baseline = get_run(db, run_id), get_baseline(db, run_id)
    protocol, best = run.plan.protocol, run.headline
    scored = [(one, one.scores.headline(protocol)) for one in submissions_of(db, run_id) if one.scores]
    if baseline is None or baseline.scores is None or not scored or run.started_at is None:
        raise UsageError(f"run {run_id} has no scored submission to draw", f"See `harness show {run_id}`.")
    gain = best.improvement if best else None
    return RunPicture(
        title=f"{run.plan.agent.id} on {run.plan.benchmark.id}, {run.plan.model.repo_id}",
        items="all hidden items" if protocol is Protocol.PAPER else "final items",
        baseline=baseline.scores.headline(protocol),
        points=tuple(
            Point(
                number=one.number,
                minutes=(one.submitted_at - run.started_at).total_seconds() / 60,
                score=score,
                is_best=best is not None and best.submission_number == one.number,
            )
            for one, score in scored
        ),
        improvement=f"{gain.points:+.1f} points (95 % interval {gain.low:+.1f} to {gain.high:+.1f})" if gain else "",
    )


def draw(picture: RunPicture, out: Path) -> None:
    """Draws `picture` into a file; its ending says the format.

    Raises:
        UsageError: a format that is not known.
        PrerequisiteError: Matplotlib is not installed.
    """
    if out.suffix not in FORMATS:
        raise UsageError(f"no picture format {out.suffix or '(none)'}", f"End the name in {', '.join(FORMATS)}.")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PrerequisiteError("Matplotlib is not installed", "pip install 'posttrain-harness[plot]'") from error
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    if picture.baseline is not None:
        axes.axhline(picture.baseline.score_pct, color=GREY, linestyle="--", label="baseline")
        axes.axhspan(*_interval(picture.baseline), color=GREY, alpha=0.2, linewidth=0)
    for point in picture.points:
        low, high = _interval(point.score)
        axes.errorbar(
            point.minutes,
            point.score.score_pct,
            yerr=[[point.score.score_pct - low], [high - point.score.score_pct]],
            fmt="o" if point.is_best else "s",
            markersize=8 if point.is_best else 6,
            color=BLUE,
            capsize=4,
            label="best on the feedback items" if point.is_best else None,
        )
        axes.annotate(str(point.number), (point.minutes, point.score.score_pct), (8, 4), textcoords="offset points")
    axes.set(xlabel="minutes of agent time", ylabel=f"score, % of {picture.items}", title=picture.title, ylim=(0, None))
    axes.set_xlim(0, 1.15 * max(point.minutes for point in picture.points) or 1)
    axes.legend(loc="lower right", title=picture.improvement or None)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def _interval(score: Score) -> tuple[float, float]:
    """Its 95 % interval; the score itself in records of versions that told none."""
    low, high = score.low_pct, score.high_pct
    return (score.score_pct if low is None else low, score.score_pct if high is None else high)

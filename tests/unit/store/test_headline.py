"""Which submission a run is reported with, and by how much it is better."""

from __future__ import annotations

import pytest
import samples

from harness.domain.specs import Protocol
from harness.store.database import WritableDatabase
from harness.store.headline import score_parts

BASE = samples.items([0, 0, 0, 0], [1, 0, 0, 0])


def test_standard_ranks_on_feedback_and_reports_the_final_items(db: WritableDatabase) -> None:
    lucky = samples.items([0, 0, 1, 1], [1, 1, 1, 1])
    best = samples.items([1, 1, 1, 0], [1, 1, 0, 0])
    run = samples.graded(db, samples.plan(), BASE, lucky, best)
    assert run.headline
    assert run.headline.submission_number == 2
    assert (run.headline.score.score_pct, run.headline.score.n_items) == (50, 4)
    assert run.headline.baseline
    assert run.headline.baseline.score_pct == 25


def test_paper_ranks_on_and_reports_all_items(db: WritableDatabase) -> None:
    first = samples.items([0, 0, 1, 1], [1, 1, 1, 1])
    second = samples.items([1, 1, 1, 0], [1, 1, 0, 0])
    run = samples.graded(db, samples.plan(protocol=Protocol.PAPER), BASE, first, second)
    assert run.headline
    assert (run.headline.submission_number, run.headline.score.score_pct) == (1, 75)
    assert run.headline.improvement
    assert run.headline.improvement.points == 62.5


def test_of_equal_submissions_the_earlier_one_counts(db: WritableDatabase) -> None:
    one = samples.items([1, 0, 1, 0], [0, 0, 0, 0])
    other = samples.items([0, 1, 0, 1], [1, 1, 1, 1])
    run = samples.graded(db, samples.plan(), BASE, one, other)
    assert run.headline
    assert run.headline.submission_number == 1


def test_improvement_is_paired_over_the_final_items(db: WritableDatabase) -> None:
    run = samples.graded(db, samples.plan(), BASE, samples.items([1, 1, 1, 1], [1, 1, 1, 0]))
    assert run.headline
    gain = run.headline.improvement
    assert gain
    # Differences 0, 1, 1, 0: mean 0.5, standard deviation sqrt(1/3), over sqrt(4).
    stderr = 100 * (1 / 3) ** 0.5 / 2
    assert (gain.points, gain.n_items) == (50, 4)
    assert gain.stderr_pct == pytest.approx(stderr)
    assert (gain.low, gain.high) == (pytest.approx(50 - 1.959964 * stderr), pytest.approx(50 + 1.959964 * stderr))


def test_improvement_below_zero_is_kept(db: WritableDatabase) -> None:
    run = samples.graded(db, samples.plan(), BASE, samples.items([1, 1, 1, 1], [0, 0, 0, 0]))
    assert run.headline
    assert run.headline.improvement
    assert run.headline.improvement.points == -25


def test_without_a_baseline_there_is_a_score_and_no_improvement(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    samples.scored(db, run, "x", BASE)
    headline = samples.closed(db, run.run_id).headline
    assert headline
    assert (headline.score.score_pct, headline.baseline, headline.improvement) == (25, None, None)


def test_single_item_is_final_and_ranks_by_itself(db: WritableDatabase) -> None:
    run = samples.graded(db, samples.plan(), samples.items([], [0]), samples.items([], [1]))
    assert run.headline
    assert (run.headline.score.score_pct, run.headline.score.stderr_pct) == (100, 0)


def test_what_is_shown_under_standard_never_holds_final_items() -> None:
    scores = score_parts(samples.items([1, 1], [0, 0]))
    shown = scores.shown(Protocol.STANDARD)
    assert shown
    assert (shown.score_pct, shown.n_items) == (100, 2)
    assert score_parts(samples.items([], [1])).shown(Protocol.STANDARD) is None
    paper = scores.shown(Protocol.PAPER)
    assert paper
    assert paper.score_pct == 50


@pytest.mark.parametrize(
    "items",
    [
        (),
        samples.items([1], []),
        samples.items([1], [1.5]),
        samples.items([1], [1]) * 2,
        samples.items([1], [float("nan")]),
    ],
)
def test_impossible_items_give_no_score(items: tuple[samples.ItemScore, ...]) -> None:
    with pytest.raises(ValueError):
        score_parts(items)

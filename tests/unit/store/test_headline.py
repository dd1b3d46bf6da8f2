"""Which submission a run is reported with, and by how much it is better."""

from __future__ import annotations

import pytest
import samples

from harness.domain.specs import Protocol
from harness.statistics.intervals import CLUSTERED, STUDENT, WILSON
from harness.statistics.paired import PERCENTILE
from harness.store.database import WritableDatabase
from harness.store.headline import metrics_of, score_parts
from harness.store.records_runs import get_run

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
    assert (gain.points, gain.n_items) == (50, 4)
    assert gain.stderr_pct == pytest.approx(100 * (1 / 3) ** 0.5 / 2)
    # Of four draws of 0, 1, 1, 0 one in sixteen has only zeros, or only ones; half of the zeros are ties.
    assert (gain.low, gain.high) == (0, 100)
    assert gain.probability == pytest.approx(1 - 1 / 32, abs=0.01)
    assert (gain.n_won, gain.n_lost, gain.n_tied, gain.p_value) == (2, 0, 2, 0.5)
    assert gain.method == PERCENTILE


def test_everything_about_the_headline_is_kept(db: WritableDatabase) -> None:
    run = samples.graded(db, samples.plan(), BASE, samples.items([1, 1, 1, 1], [1, 1, 1, 0]))
    assert run.headline
    assert get_run(db, run.run_id).headline == run.headline
    assert run.headline.score.method == WILSON
    assert run.headline.score.low_pct is not None
    assert run.headline.score.low_pct < 75
    assert run.headline.baseline
    assert run.headline.baseline.high_pct is not None
    assert run.headline.baseline.high_pct > 25


def test_feedback_items_play_no_part_in_the_improvement(db: WritableDatabase) -> None:
    final = [1, 1, 1, 0]
    one = samples.graded(db, samples.plan(1), BASE, samples.items([1, 1, 1, 1], final))
    other = samples.graded(db, samples.plan(2), BASE, samples.items([0, 1, 0, 1], final))
    assert one.headline
    assert other.headline
    assert one.headline.improvement == other.headline.improvement
    paper = samples.graded(db, samples.plan(3, protocol=Protocol.PAPER), BASE, samples.items([1, 1, 1, 1], final))
    assert paper.headline
    assert paper.headline.improvement
    assert paper.headline.improvement.n_items == 8


def test_items_of_one_source_count_together(db: WritableDatabase) -> None:
    def of_sources(items: tuple[samples.ItemScore, ...]) -> tuple[samples.ItemScore, ...]:
        return tuple(item.model_copy(update={"cluster": item.item_id[0] + str(k // 2)}) for k, item in enumerate(items))

    after = samples.items([1, 1, 1, 1], [1, 1, 0, 0])
    plain = samples.graded(db, samples.plan(1), BASE, after)
    clustered = samples.graded(db, samples.plan(2, limit=8), of_sources(BASE), of_sources(after))
    assert plain.headline
    assert clustered.headline
    assert plain.headline.score.stderr_pct < clustered.headline.score.stderr_pct
    assert clustered.headline.score.method == STUDENT + CLUSTERED
    assert clustered.headline.improvement
    assert clustered.headline.improvement.method == PERCENTILE + CLUSTERED
    assert clustered.headline.improvement.p_value is None


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


def test_rates_are_told_per_part() -> None:
    items = tuple(
        item.model_copy(update={"is_truncated": item.item_id == "f0", "output_tokens": 10 * k})
        for k, item in enumerate(samples.items([1, 1], [0, 0]))
    )
    found = metrics_of(items)
    assert {part: some["truncation_rate"] for part, some in found.items()} == {"feedback": 0.5, "final": 0, "all": 0.25}
    assert {part: some["mean_output_tokens"] for part, some in found.items()} == {"feedback": 5, "final": 25, "all": 15}
    assert set(found["all"]) == {"truncation_rate", "extraction_failure_rate", "mean_output_tokens"}
    assert "feedback" not in metrics_of(items[2:])


def test_pass_at_k_is_told_for_as_many_samples_as_were_drawn() -> None:
    # Of five answers 5 and 2 are right: pass@1 is their share, pass@5 is certain.
    drawn = [(1.0,) * 5, (1.0, 0.0, 1.0, 0.0, 0.0)]
    items = tuple(
        item.model_copy(update={"sample_scores": scores, "score": sum(scores) / 5})
        for item, scores in zip(samples.items([], [1, 0.4]), drawn, strict=True)
    )
    final = metrics_of(items)["final"]
    assert {name: value for name, value in final.items() if name.startswith("pass")} == {
        "pass@1": pytest.approx(0.7),
        "pass@5": 1.0,
    }

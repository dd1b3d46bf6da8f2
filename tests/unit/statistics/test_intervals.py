"""A score's error and interval against published values, closed forms and another implementation."""

from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.proportion import proportion_confint

from harness.statistics.intervals import BOUND, CLUSTERED, STUDENT, WILSON, score_of


def right(k: int, n: int) -> list[float]:
    return [1.0] * k + [0.0] * (n - k)


# Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I,
# method 3 (Wilson's score interval without continuity correction).
@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0000, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_right_or_wrong_items_have_the_interval_of_newcombes_table(k: int, n: int, low: float, high: float) -> None:
    score = score_of(right(k, n))
    assert score.low_pct is not None
    assert score.high_pct is not None
    assert (round(score.low_pct / 100, 4), round(score.high_pct / 100, 4)) == (low, high)
    assert (score.method, score.n_items, score.score_pct) == (WILSON, n, pytest.approx(100 * k / n))


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 660), (660, 660), (3, 7), (301, 660), (659, 660)])
def test_it_is_what_statsmodels_says(k: int, n: int) -> None:
    score = score_of(right(k, n))
    assert (score.low_pct, score.high_pct) == pytest.approx(
        [100 * x for x in proportion_confint(k, n, method="wilson")]
    )


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("clusters", [None, ["a", "a", "b", "b", "c"]])
def test_equal_scores_are_not_certain(value: float, clusters: list[str] | None) -> None:
    score = score_of([value] * 5, clusters)
    assert score.low_pct is not None
    assert score.high_pct is not None
    assert score.high_pct - score.low_pct > 20
    assert score.low_pct <= 100 * value <= score.high_pct
    assert score.stderr_pct == 0


def test_all_right_in_few_sources_says_less_than_in_many() -> None:
    many = score_of([1.0] * 40)
    few = score_of([1.0] * 40, [f"source {k % 4}" for k in range(40)])
    assert (many.method, few.method) == (WILSON, WILSON + CLUSTERED)
    assert few.low_pct == pytest.approx(100 * proportion_confint(4, 4, method="wilson")[0])
    assert few.low_pct is not None
    assert many.low_pct is not None
    assert few.low_pct < many.low_pct


# Clopper and Pearson (1934) for 0 of n at 95 %: 1 - 0.025^(1/n); 0.3085 for n = 10 in their chart.
def test_equal_partial_scores_say_how_many_may_be_otherwise_unseen() -> None:
    score = score_of([0.25] * 10)
    unseen = proportion_confint(0, 10, method="beta")[1]
    assert unseen == pytest.approx(0.3085, abs=5e-5)
    assert (score.low_pct, score.high_pct) == pytest.approx((25 * (1 - unseen), 25 + 75 * unseen))
    assert score.method == BOUND


# Student, "The probable error of a mean", Biometrika 6 (1908), p. 20: additional hours of sleep by laevo hyoscyamine
# against dextro in ten patients, mean 1.58; with the usual n - 1 its standard error is 0.389 and the 95 % interval
# 0.70 to 2.46 (as in R's `t.test(extra ~ group, data = sleep, paired = TRUE)`). Mapped into [0, 1] by a tenth.
def test_partial_scores_have_students_interval() -> None:
    hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    score = score_of([hour / 10 for hour in hours])
    assert score.method == STUDENT
    assert score.score_pct / 10 == pytest.approx(1.58)
    assert score.stderr_pct / 10 == pytest.approx(0.389, abs=5e-4)
    assert score.low_pct is not None
    assert score.high_pct is not None
    assert (score.low_pct / 10, score.high_pct / 10) == pytest.approx((0.70, 2.46), abs=5e-3)


def test_plain_standard_error_is_the_closed_form() -> None:
    scores = [0.0, 1.0, 1.0, 0.3, 0.7]
    assert score_of(scores).stderr_pct == pytest.approx(100 * stdev(scores) / math.sqrt(5))
    # Of right-or-wrong items: sqrt(p (1 - p) / (n - 1)).
    assert score_of(right(30, 120)).stderr_pct == pytest.approx(100 * math.sqrt(0.25 * 0.75 / 119))


def test_clustered_standard_error_is_the_closed_form() -> None:
    # Mean 0.5; the sums of deviations are 1, -1 and 0: sqrt(3/2 * 2) / 6.
    score = score_of([1, 1, 0, 0, 1, 0], ["a", "a", "b", "b", "c", "c"])
    assert score.stderr_pct == pytest.approx(100 * math.sqrt(3) / 6)
    assert score.method == STUDENT + CLUSTERED


def test_clustered_standard_error_is_that_of_statsmodels() -> None:
    generator = random.Random(5)
    clusters = [f"c{generator.randrange(12)}" for _ in range(200)]
    level = {name: generator.random() for name in set(clusters)}
    scores = [float(generator.random() < level[name]) for name in clusters]
    groups = np.unique(clusters, return_inverse=True)[1]
    fitted = OLS(scores, np.ones(200)).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    score = score_of(scores, clusters)
    assert score.stderr_pct / 100 == pytest.approx(float(fitted.bse[0]))
    assert (score.low_pct, score.high_pct) == pytest.approx([100 * x for x in fitted.conf_int()[0]])
    # Sources of their own levels: what independent items would claim is too little.
    assert score.stderr_pct > 1.5 * score_of(scores).stderr_pct


def test_one_source_for_all_tells_nothing_about_sources() -> None:
    assert score_of(right(3, 8), ["only"] * 8) == score_of(right(3, 8))


def test_sources_of_equal_mean_are_not_certain() -> None:
    score = score_of([0, 1, 0, 1, 1, 0], ["a", "a", "b", "b", "c", "c"])
    assert (score.score_pct, score.stderr_pct, score.method) == (50, 0, BOUND + CLUSTERED)
    assert score.low_pct is not None
    assert score.low_pct < 25


def test_items_without_a_source_are_their_own() -> None:
    clustered = score_of([1, 0, 1, 1], ["a", "a", "", ""])
    assert clustered == score_of([1, 0, 1, 1], ["a", "a", "b", "c"])


@pytest.mark.parametrize("scores", [[], [1.5], [-0.1], [float("nan")], [0.5, float("inf")]])
def test_what_is_no_score_is_refused(scores: list[float]) -> None:
    with pytest.raises(ValueError):
        score_of(scores)


def test_mean_is_over_items_not_over_sources() -> None:
    assert score_of([1, 1, 1, 0], ["a", "a", "a", "b"]).score_pct == 100 * fmean([1, 1, 1, 0])

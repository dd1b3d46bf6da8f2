"""The paired improvement against published examples, closed forms and SciPy's own bootstrap."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from harness.domain.scoring import Improvement
from harness.statistics.bootstrap import bootstrap, resampled_means
from harness.statistics.clusters import sources_of
from harness.statistics.intervals import BOUND, CLUSTERED
from harness.statistics.paired import PERCENTILE, improvement_of, mcnemar_p_value


def gain(after: Sequence[float], before: Sequence[float], clusters: Sequence[str] | None = None) -> Improvement:
    names = [f"i{k:05d}" for k in range(len(after))]
    named = dict(zip(names, clusters, strict=True)) if clusters else None
    return improvement_of(dict(zip(names, after, strict=True)), dict(zip(names, before, strict=True)), named)


def table(both: int, lost: int, won: int, neither: int) -> tuple[list[float], list[float]]:
    """Scores after and before of right-or-wrong items, by how many fall in each cell."""
    after = [1.0] * both + [0.0] * lost + [1.0] * won + [0.0] * neither
    return after, [1.0] * both + [1.0] * lost + [0.0] * won + [0.0] * neither


# Agresti, Categorical Data Analysis (2nd edition, 2002), section 10.1: 1,600 people asked twice about the prime
# minister; 794 approve both times, 150 only the first, 86 only the second, 570 never. p.2 - p1. = -0.04 with standard
# error 0.0095, interval (-0.06, -0.02), McNemar's statistic z^2 = 17.36.
def test_agrestis_approval_ratings() -> None:
    found = gain(*table(794, 150, 86, 570))
    assert (found.n_won, found.n_lost, found.n_tied, found.n_items) == (86, 150, 1364, 1600)
    assert found.points == pytest.approx(-4.0)
    assert found.stderr_pct / 100 == pytest.approx(0.0095, abs=6e-5)
    assert (round(found.low / 100, 2), round(found.high / 100, 2)) == (-0.06, -0.02)
    assert found.probability == 0
    assert found.p_value is not None
    # The exact test says nearly what the published statistic does: 3.1e-5.
    assert stats.chi2.sf(17.36, 1) == pytest.approx(3.1e-5, rel=0.02)
    assert found.p_value == pytest.approx(stats.chi2.sf(17.36, 1), rel=0.25)
    assert found.p_value == pytest.approx(mcnemar([[794, 150], [86, 570]], exact=True).pvalue)


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (6, 0), (5, 5), (12, 3), (400, 371)])
def test_p_value_is_that_of_statsmodels(won: int, lost: int) -> None:
    # A table whose items all agree has nothing to test.
    expected = mcnemar([[9, lost], [won, 9]], exact=True).pvalue if won + lost else 1.0
    assert mcnemar_p_value(won, lost) == pytest.approx(expected)


def test_p_value_of_few_items_is_the_closed_form() -> None:
    # Six won and none lost: 2 / 2^6.
    assert mcnemar_p_value(6, 0) == mcnemar_p_value(0, 6) == pytest.approx(2 / 2**6)


# Efron and Tibshirani, An Introduction to the Bootstrap (1993): the mouse data of table 2.1, and the standard errors
# of the mean for B -> infinity in table 2.2: 23.36 of the treated, 13.33 of the others.
@pytest.mark.parametrize(
    ("days", "error"),
    [([94, 197, 16, 38, 99, 141, 23], 23.36), ([52, 104, 146, 10, 51, 30, 40, 27, 46], 13.33)],
)
def test_bootstrap_of_the_mouse_data_has_the_published_spread(days: list[float], error: float) -> None:
    means = resampled_means([(day, 1, 1) for day in sorted(days)], seed=1, resamples=200_000)
    assert float(np.mean(means)) == pytest.approx(np.mean(days), rel=0.005)
    assert float(np.std(means)) == pytest.approx(error, rel=0.005)


def _scipy_percentiles(differences: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    sources = sources_of(differences, clusters)
    data = (np.array([s.total for s in sources]), np.array([float(s.size) for s in sources]))
    found = stats.bootstrap(
        data,
        lambda total, size, axis=-1: total.sum(axis=axis) / size.sum(axis=axis),
        **{"paired": True, "n_resamples": 20_000, "method": "percentile", "batch": 500},
        rng=np.random.default_rng(3),
    )
    return found.confidence_interval.low, found.confidence_interval.high


@pytest.mark.parametrize("is_clustered", [False, True])
@pytest.mark.parametrize("is_partial", [False, True])
def test_interval_is_that_of_scipys_bootstrap(is_clustered: bool, is_partial: bool) -> None:
    generator = random.Random(7)
    draw = generator.random if is_partial else (lambda: float(generator.random() < 0.4))
    before, after = [draw() for _ in range(150)], [draw() for _ in range(150)]
    clusters = [f"c{k % 30}" for k in range(150)] if is_clustered else [""] * 150
    found = gain(after, before, clusters)
    low, high = _scipy_percentiles([a - b for a, b in zip(after, before, strict=True)], clusters)
    width = high - low
    assert found.low / 100 == pytest.approx(low, abs=width / 15)
    assert found.high / 100 == pytest.approx(high, abs=width / 15)
    assert found.method == PERCENTILE + (CLUSTERED if is_clustered else "")


def test_drawing_counts_and_drawing_one_by_one_have_one_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(0.0, 1, 70), (1.0, 1, 20), (-1.0, 1, 10)]
    at_once = resampled_means(rows, seed=1)
    monkeypatch.setattr("harness.statistics.bootstrap.MAX_KINDS", 0)
    one_by_one = resampled_means(rows, seed=2)
    assert stats.ks_2samp(at_once, one_by_one).pvalue > 0.001
    assert len(one_by_one) == len(at_once)


# With 100 won of 1,000 and none lost, the resampled mean is binomial: its quantiles and its share above 0 are known.
def test_interval_is_the_quantiles_of_a_known_distribution() -> None:
    found = gain(*table(0, 0, 100, 900))
    low, high = stats.binom.ppf([0.025, 0.975], 1000, 0.1) / 10
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.2)
    assert found.probability == 1
    one = gain(*table(0, 0, 1, 19))
    # No item that was won is drawn with probability (19/20)^20, and such a mean is a tie.
    assert one.probability == pytest.approx(1 - 0.95**20 / 2, abs=0.02)


def test_equal_data_gives_equal_intervals_whatever_its_order_and_names() -> None:
    after, before = table(30, 10, 25, 35)
    order = list(range(100))
    random.Random(2).shuffle(order)
    shuffled = improvement_of({f"x{k}": after[k] for k in order}, {f"x{k}": before[k] for k in order})
    assert shuffled == gain(after, before)
    assert shuffled.seed is not None


def test_what_one_gains_the_other_loses() -> None:
    after, before = table(30, 10, 25, 35)
    there, back = gain(after, before), gain(before, after)
    assert (back.low, back.high, back.points) == pytest.approx((-there.high, -there.low, -there.points))
    assert (back.probability, back.p_value) == pytest.approx((1 - (there.probability or 0), there.p_value))
    assert (back.n_won, back.n_lost, back.seed) == (there.n_lost, there.n_won, there.seed)


@pytest.mark.parametrize(
    ("difference", "probability"), [(0.0, 0.5), (1.0, 1 - 0.5**9), (-1.0, 0.5**9), (0.25, 1 - 0.5**9)]
)
def test_equal_differences_are_not_certain(difference: float, probability: float) -> None:
    after = [max(0.0, difference)] * 8
    found = gain(after, [max(0.0, -difference)] * 8)
    unseen = 1 - 0.025 ** (1 / 8)
    assert (found.points, found.stderr_pct, found.seed, found.method) == (100 * difference, 0, None, BOUND)
    assert found.low == pytest.approx(100 * (difference - unseen * (1 + difference)))
    assert found.high == pytest.approx(100 * (difference + unseen * (1 - difference)))
    assert found.probability == pytest.approx(probability)


def test_sources_of_equal_mean_are_not_certain_either() -> None:
    found = gain([0.0, 0.0, 1.0], [0.0, 1.0, 0.0], ["", "a", "a"])
    assert (found.points, found.n_won, found.n_lost, found.method) == (0, 1, 1, BOUND + CLUSTERED)
    assert found.low < 0 < found.high


def test_differences_equal_but_for_rounding_are_equal() -> None:
    assert gain([0.3, 0.5, 1.0], [0.1, 0.3, 0.8]).method == BOUND


def test_partial_scores_and_shared_sources_have_no_mcnemar_test() -> None:
    assert gain([0.5, 1.0], [0.0, 0.0]).p_value is None
    assert gain([1.0, 1.0, 0.0], [0.0, 0.0, 0.0], ["a", "a", "b"]).p_value is None
    assert gain([1.0, 1.0], [0.0, 0.0]).p_value == 0.5


def test_shared_sources_widen_the_interval() -> None:
    after, before = table(0, 0, 50, 150)
    clusters = [f"c{k // 25}" for k in range(200)]
    plain, clustered = gain(after, before), gain(after, before, clusters)
    assert clustered.points == plain.points
    assert clustered.high - clustered.low > 2 * (plain.high - plain.low)


@pytest.mark.parametrize(("mine", "base"), [({}, {}), ({"a": 1}, {"b": 1}), ({"a": 1}, {"a": 1, "b": 0})])
def test_other_items_are_refused(mine: dict[str, float], base: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="same items"):
        improvement_of(mine, base)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    hits = 0
    for _ in range(300):
        differences = generator.choice([-1.0, 0.0, 1.0], p=[0.1, 0.65, 0.25], size=120)
        drawn = bootstrap(sources_of(list(differences), [""] * 120))
        hits += drawn.low <= 0.15 <= drawn.high
    # 95 % of 300 give 285; three standard deviations below it.
    assert hits >= 285 - 3 * math.sqrt(300 * 0.95 * 0.05)


@pytest.mark.parametrize("is_partial", [False, True])
def test_the_test_set_of_gsm8k_takes_well_under_a_second(is_partial: bool) -> None:
    generator = np.random.default_rng(1)
    draw = generator.random if is_partial else (lambda n: generator.integers(0, 2, n).astype(float))
    after, before = list(draw(1319)), list(draw(1319))
    started = time.process_time()
    gain(after, before)
    assert time.process_time() - started < 1.0

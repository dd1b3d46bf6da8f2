"""How much better one evaluation is than another on the same items, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping

from harness.domain.base import Frozen
from harness.domain.scoring import Improvement
from harness.statistics.bootstrap import RESAMPLES, bootstrap
from harness.statistics.clusters import DECIMALS, Source, are_equal, mean_of, sources_of, standard_error
from harness.statistics.intervals import BOUND, CLUSTERED, unseen_share

PERCENTILE = f"paired percentile bootstrap, {RESAMPLES} resamples"


def improvement_of(
    scores: Mapping[str, float], baseline: Mapping[str, float], clusters: Mapping[str, str] | None = None
) -> Improvement:
    """The paired difference over the items both share (item id -> score in [0, 1]), in points.

    Mean, cluster-robust standard error, 95 % percentile bootstrap interval, probability of being above 0 (share of
    resampled means above 0 and half of those at 0), items won, lost and tied; for right-or-wrong items of their own
    sources also McNemar's (1947) exact two-sided p-value.

    Where all sources have the same mean difference a bootstrap would claim certainty. The interval then says how far
    sources could move the mean that none of these happened to be; the probability is the posterior one, under a uniform
    prior, of more sources winning than not.

    Raises:
        ValueError: the two do not cover the same items.
    """
    if scores.keys() != baseline.keys() or not scores:
        raise ValueError("a paired improvement needs the same items on both sides")
    ids = sorted(scores)
    differences = [round(scores[i] - baseline[i], DECIMALS) for i in ids]
    named = [(clusters or {}).get(i, "") for i in ids]
    sources = sources_of(differences, named)
    is_clustered = len(sources) < len(ids)
    n_won, n_lost = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    is_right_or_wrong = all(score in (0, 1) for score in (*scores.values(), *baseline.values()))
    found = _interval(sources)
    return Improvement(
        points=100 * mean_of(sources),
        stderr_pct=100 * standard_error(sources),
        low=100 * found.low,
        high=100 * found.high,
        n_items=len(ids),
        method=found.method + (CLUSTERED if is_clustered else ""),
        seed=found.seed,
        probability=found.probability,
        p_value=mcnemar_p_value(n_won, n_lost) if is_right_or_wrong and not is_clustered else None,
        n_won=n_won,
        n_lost=n_lost,
        n_tied=len(ids) - n_won - n_lost,
    )


class _Interval(Frozen):
    low: float
    high: float
    probability: float
    method: str
    seed: int | None = None


def _interval(sources: tuple[Source, ...]) -> _Interval:
    if not are_equal(sources):
        drawn = bootstrap(sources)
        return _Interval(
            low=drawn.low, high=drawn.high, probability=drawn.share_above_0, method=PERCENTILE, seed=drawn.seed
        )
    mean, unseen = round(mean_of(sources), DECIMALS), unseen_share(len(sources))
    # P(share of winning sources > 1/2 | all won) under a uniform prior: Beta(G + 1, 1).
    sure = 1 - 0.5 ** (len(sources) + 1)
    return _Interval(
        low=mean - unseen * (1 + mean),
        high=mean + unseen * (1 - mean),
        probability=0.5 if mean == 0 else sure if mean > 0 else 1 - sure,
        method=BOUND,
    )


def mcnemar_p_value(n_won: int, n_lost: int) -> float:
    """Exact two-sided p-value of McNemar's test (1947): of the items that differ, as many are won as lost."""
    from scipy import stats

    return float(stats.binomtest(n_won, n_won + n_lost).pvalue) if n_won + n_lost else 1.0

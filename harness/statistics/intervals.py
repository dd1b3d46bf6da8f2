"""A score with its standard error and its 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.domain.scoring import Score
from harness.statistics.clusters import Source, are_equal, mean_of, sources_of, standard_error

LEVEL = 0.95
WILSON, STUDENT, BOUND = "Wilson", "Student's t", "exact bound (all equal)"
CLUSTERED = ", clustered"


def score_of(scores: Sequence[float], clusters: Sequence[str] | None = None) -> Score:
    """Mean of item scores in [0, 1] in percent, with standard error and 95 % interval.

    The interval is Wilson's (1927) for right-or-wrong items of their own sources, else Student's t with as many degrees
    of freedom as there are sources less one. Where all sources have the same mean Student's would have no width:
    it is then Wilson's over the sources (all right, all wrong), or says how many could be otherwise unseen.

    Raises:
        ValueError: no items, or a score that is not finite or outside [0, 1].
    """
    if not scores:
        raise ValueError("no item scores to aggregate")
    if not all(math.isfinite(s) and 0 <= s <= 1 for s in scores):
        raise ValueError("item scores must be finite and within [0, 1]")
    sources = sources_of(scores, clusters or [""] * len(scores))
    mean, error = mean_of(sources), standard_error(sources)
    low, high, method = _interval(scores, sources, mean, error)
    return Score(
        score_pct=100 * mean,
        stderr_pct=100 * error,
        n_items=len(scores),
        low_pct=100 * max(0.0, min(low, mean)),
        high_pct=100 * min(1.0, max(high, mean)),
        method=method,
    )


def _interval(
    scores: Sequence[float], sources: Sequence[Source], mean: float, error: float
) -> tuple[float, float, str]:
    is_right_or_wrong = all(score in (0, 1) for score in scores)
    is_clustered = len(sources) < len(scores)
    suffix = CLUSTERED if is_clustered else ""
    if is_right_or_wrong and (not is_clustered or mean in (0, 1)):
        return *_wilson(round(mean * len(sources)), len(sources)), WILSON + suffix
    if are_equal(sources):
        unseen = unseen_share(len(sources))
        return mean * (1 - unseen), mean + unseen * (1 - mean), BOUND + suffix
    from scipy import stats

    half = float(stats.t.ppf((1 + LEVEL) / 2, len(sources) - 1)) * error
    return mean - half, mean + half, STUDENT + suffix


def _wilson(successes: int, n: int) -> tuple[float, float]:
    from scipy import stats

    found = stats.binomtest(successes, n).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


def unseen_share(n: int) -> float:
    """Up to which share something may be true of sources and yet of none of `n` (Clopper and Pearson, 1934)."""
    return float(1.0 - ((1 - LEVEL) / 2) ** (1 / n))

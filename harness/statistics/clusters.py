"""Sums of values per source: items of one source (a document, a template) do not vary independently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Differences of scores are compared to each other; 0.3 - 0.1 and 0.2 are to be equal.
DECIMALS = 12


@dataclass(frozen=True)
class Source:
    """What came from one source: the sum of its values and how many there are."""

    total: float
    size: int


def sources_of(values: Sequence[float], clusters: Sequence[str]) -> tuple[Source, ...]:
    """One source per cluster, one per item where the cluster is blank; sorted, so that the items' order is forgotten.

    Where every item came from one and the same source nothing is known between sources: the items count as their own.
    """
    members: dict[str, list[float]] = {}
    alone: list[float] = []
    for value, cluster in zip(values, clusters, strict=True):
        (members.setdefault(cluster, []) if cluster else alone).append(value)
    if len(members) == 1 and not alone:
        alone, members = list(values), {}
    together = [Source(round(math.fsum(some), DECIMALS), len(some)) for some in members.values()]
    found = [*together, *(Source(round(value, DECIMALS), 1) for value in alone)]
    return tuple(sorted(found, key=lambda source: (source.total, source.size)))


def mean_of(sources: Sequence[Source]) -> float:
    """The mean over all values."""
    return math.fsum(s.total for s in sources) / sum(s.size for s in sources)


def are_equal(sources: Sequence[Source]) -> bool:
    """Whether every source has the same mean, so that nothing is seen to vary between them."""
    means = [s.total / s.size for s in sources]
    return max(means) - min(means) < 1e-9


def standard_error(sources: Sequence[Source]) -> float:
    """Cluster-robust standard error of the mean; 0 for a single source.

    With G sources and n values: sqrt(G / (G - 1) * sum over sources of (sum of deviations from the mean)^2) / n. The
    estimator of Liang and Zeger (1986) with the finite-sample factor of Cameron and Miller (2015, section II.B); where
    every source is one value, s / sqrt(n). Proposed for scores of language models by Miller (2024), section 2.2.
    """
    count, n, mean = len(sources), sum(s.size for s in sources), mean_of(sources)
    if count < 2:
        return 0.0
    squares = math.fsum((s.total - s.size * mean) ** 2 for s in sources)
    return math.sqrt(count / (count - 1) * squares) / n

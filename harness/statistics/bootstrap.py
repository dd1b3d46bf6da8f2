"""Means of resampled sources: the paired bootstrap, vectorised and repeatable."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.statistics.clusters import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 10_000
# Up to so many different sources their counts are drawn at once, which is the same distribution as drawing one by one.
MAX_KINDS = 64
# Draws that are held in memory at once.
CHUNK_DRAWS = 500_000


@dataclass(frozen=True)
class Bootstrap:
    """95 % percentile interval of the mean, the share of means above 0 (half of those at 0), and the seed."""

    low: float
    high: float
    share_above_0: float
    seed: int


def bootstrap(sources: Sequence[Source], level: float = 0.95) -> Bootstrap:
    """The percentile bootstrap (Efron and Tibshirani, 1993, chapter 13) of the mean over all values of `sources`.

    Sources are resampled whole. The seed follows from the values alone, so that equal data gives equal intervals. Data
    and its negation are resampled as one: what B gains on A is exactly what A loses to B.
    """
    import numpy as np

    mirrored = [Source(-s.total + 0.0, s.size) for s in sources]
    own, other = _table(sources), _table(mirrored)
    sign = 1 if own <= other else -1
    table = min(own, other)
    seed = int.from_bytes(hashlib.sha256(json.dumps(table).encode()).digest()[:4], "big")
    means = sign * resampled_means(table, seed)
    if own == other:
        # Data that is its own negation favours neither side, not even by chance.
        means = np.concatenate([means, -means])
    # A mean of 0 is one of exact zeros up to rounding.
    above, at_0 = np.mean(means > 1e-12), np.mean(np.abs(means) <= 1e-12)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Bootstrap(low=float(low), high=float(high), share_above_0=float(above + at_0 / 2), seed=seed)


Table = list[tuple[float, int, int]]


def _table(sources: Sequence[Source]) -> Table:
    """(sum, size, how many such sources), sorted."""
    return sorted((*kind, count) for kind, count in Counter((s.total, s.size) for s in sources).items())


def resampled_means(table: Table, seed: int, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """Means of `resamples` samples of sources, drawn with replacement from `table`, as many as there are."""
    import numpy as np

    totals, sizes, counts = (np.array(column, dtype=float) for column in zip(*table, strict=True))
    n = int(counts.sum())
    # The stream of this old generator is promised never to change (NEP 19): another machine's record is checked by it.
    generator = np.random.RandomState(seed)
    if len(table) <= MAX_KINDS:
        drawn = generator.multinomial(n, counts / n, size=resamples)
        return np.asarray((drawn @ totals) / (drawn @ sizes))
    every_total, every_size = np.repeat(totals, counts.astype(int)), np.repeat(sizes, counts.astype(int))
    chunks = []
    for start in range(0, resamples, step := max(1, CHUNK_DRAWS // n)):
        chosen = generator.randint(0, n, size=(min(step, resamples - start), n))
        chunks.append(every_total[chosen].sum(axis=1) / every_size[chosen].sum(axis=1))
    return np.concatenate(chunks)

"""pass@k: the chance that at least one of k answers to an item is right, estimated from n >= k answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean


def pass_at_k(n: int, n_right: int, k: int) -> float:
    """The unbiased estimate 1 - C(n - n_right, k) / C(n, k) for one item, as a product (no large factorials).

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374), section 2.1 and figure 3.

    Raises:
        ValueError: not 0 <= n_right <= n and 1 <= k <= n.
    """
    if not 0 <= n_right <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {n_right} right answers out of {n} is not defined")
    if n - n_right < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - n_right + 1, n + 1))


def mean_pass_at_k(sample_scores: Sequence[Sequence[float]], k: int) -> float:
    """pass@k over items, each given by the scores of its answers; only a whole score (1.0) counts as right.

    Raises:
        ValueError: no items, or an item with fewer than k answers.
    """
    if not sample_scores:
        raise ValueError("no items to estimate pass@k from")
    return fmean(pass_at_k(len(scores), sum(score >= 1 for score in scores), k) for scores in sample_scores)

"""What is said of scores: a mean with its error, an improvement over the baseline, and what is shown of them.

They are computed in harness/statistics.
"""

from __future__ import annotations

from harness.domain.base import Frozen


class Score(Frozen):
    """A mean over items in percent (0-100), its standard error in points, and the number of items.

    `low_pct` and `high_pct` are its 95 % interval by `method`; none in records of earlier versions.
    """

    score_pct: float
    stderr_pct: float
    n_items: int
    low_pct: float | None = None
    high_pct: float | None = None
    method: str | None = None


class Improvement(Frozen):
    """Mean paired difference to the baseline in points, with its 95 % interval by `method`.

    `method` None: the normal interval of earlier versions, which have none of what follows. `probability` is that of an
    improvement above 0, `p_value` McNemar's exact one (right-or-wrong items), `seed` that of the bootstrap.
    """

    points: float
    stderr_pct: float
    low: float
    high: float
    n_items: int
    method: str | None = None
    seed: int | None = None
    probability: float | None = None
    p_value: float | None = None
    n_won: int | None = None
    n_lost: int | None = None
    n_tied: int | None = None


class ItemResult(Frozen):
    """What one evaluation says of one hidden item: `score` in [0, 1].

    Of several samples: `score` is their mean, `sample_scores` are all of them, `output` is the first one's, tokens are
    the mean, and it counts as truncated or not extracted where most samples do. Items of one `cluster` share a source.
    """

    item_id: str
    score: float
    sample_scores: tuple[float, ...] = ()
    cluster: str = ""
    output: str = ""
    output_tokens: int = 0
    is_truncated: bool = False
    is_extracted: bool = True


# Steps of a shown score, in points. Half a standard error itself is a function of the score, and would give it away.
STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)


def shown_step(score: Score) -> float:
    """What a shown score is rounded to: half its standard error, taken up to the next of `STEPS`."""
    return next((step for step in STEPS if step >= score.stderr_pct / 2), STEPS[-1])


def rounded(score: Score) -> float:
    """The score as an agent may see it: rounded to half its standard error, so that items cannot be told apart."""
    step = shown_step(score)
    return min(100.0, max(0.0, round(round(score.score_pct / step) * step, 2)))

"""What an agent may know of a score: the feedback items rounded (standard), or all items as they are (paper)."""

from __future__ import annotations

from harness.domain.base import Frozen
from harness.domain.scoring import rounded
from harness.domain.specs import Protocol
from harness.store.models import PartScores

DECIMALS = 2


class ShownScore(Frozen):
    """Percent and points, as they leave the grader."""

    score_pct: float
    stderr_pct: float


class ShownBest(Frozen):
    """The best submission so far, by its shown score."""

    number: int
    score_pct: float


def shown_score(scores: PartScores | None, protocol: Protocol) -> ShownScore | None:
    """The score to tell; None where there is none, or too few items for a feedback part."""
    score = scores.shown(protocol) if scores is not None else None
    if score is None:
        return None
    if protocol is Protocol.PAPER:
        return ShownScore(score_pct=round(score.score_pct, DECIMALS), stderr_pct=round(score.stderr_pct, DECIMALS))
    return ShownScore(score_pct=rounded(score), stderr_pct=_one_digit(score.stderr_pct))


def difference(score: ShownScore | None, baseline: ShownScore | None) -> float | None:
    """The improvement as the agent may see it: of the shown values, so that it tells no more than they do."""
    return None if score is None or baseline is None else round(score.score_pct - baseline.score_pct, DECIMALS)


def _one_digit(value: float) -> float:
    """The standard error of few items is a function of the exact score: one significant digit tells little of it."""
    return float(f"{value:.1g}")

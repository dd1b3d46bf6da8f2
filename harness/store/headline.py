"""Which submission a run is reported with, and what it gained over the baseline; pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from harness.domain.items import Part
from harness.domain.pass_at_k import mean_pass_at_k
from harness.domain.scoring import Improvement, Score
from harness.domain.specs import Protocol
from harness.statistics.intervals import score_of
from harness.statistics.paired import improvement_of
from harness.store.models import Headline, ItemScore, Metrics, PartScores, SubmissionRecord

PASS_AT = (1, 5, 10, 100)


def score_parts(items: Sequence[ItemScore]) -> PartScores:
    """Scores per part of one evaluation's items.

    Raises:
        ValueError: an item twice, no final item, or a score outside [0, 1].
    """
    if len({item.item_id for item in items}) != len(items):
        raise ValueError("an item appears twice in one evaluation")
    feedback = [item for item in items if item.part is Part.FEEDBACK]
    return PartScores(
        feedback=_score(feedback) if feedback else None,
        final=_score([item for item in items if item.part is Part.FINAL]),
        overall=_score(items),
    )


def _score(items: Sequence[ItemScore]) -> Score:
    return score_of([item.score for item in items], [item.cluster for item in items])


def metrics_of(items: Sequence[ItemScore]) -> Metrics:
    """Per part (`feedback`, `final`, `all`) what tells skill from format: shares of cut and unread answers, length.

    Where several answers to each item were drawn also pass@k, for each k of `PASS_AT` up to their number.
    """
    parts = {part.value: [item for item in items if item.part is part] for part in Part}
    return {name: _metrics(some) for name, some in {**parts, "all": list(items)}.items() if some}


def _metrics(items: Sequence[ItemScore]) -> dict[str, float]:
    samples = [item.sample_scores for item in items]
    n_samples = min(len(scores) for scores in samples)
    return {
        "truncation_rate": fmean(item.is_truncated for item in items),
        "extraction_failure_rate": fmean(not item.is_extracted for item in items),
        "mean_output_tokens": fmean(item.output_tokens for item in items),
        **{f"pass@{k}": mean_pass_at_k(samples, k) for k in PASS_AT if k <= n_samples},
    }


def best_of(submissions: Sequence[SubmissionRecord], protocol: Protocol) -> SubmissionRecord | None:
    """The best scored submission on the items that rank under `protocol`; of equals the earliest."""

    def rank(submission: SubmissionRecord) -> tuple[float, int]:
        assert submission.scores is not None
        return submission.scores.ranking(protocol).score_pct, -submission.number

    return max((s for s in submissions if s.scores is not None), key=rank, default=None)


def headline_items(items: Sequence[ItemScore], protocol: Protocol) -> dict[str, float]:
    """Item id -> score of the items that the headline is made of: final (standard), all (paper)."""
    return {i.item_id: i.score for i in items if protocol is Protocol.PAPER or i.part is Part.FINAL}


def gain(items: Sequence[ItemScore], baseline: Sequence[ItemScore], protocol: Protocol) -> Improvement | None:
    """The paired improvement over the headline's items; None where the two were not scored on the same ones."""
    mine, base = headline_items(items, protocol), headline_items(baseline, protocol)
    clusters = {item.item_id: item.cluster for item in items}
    return improvement_of(mine, base, clusters) if mine and mine.keys() == base.keys() else None


def headline_of(
    best: SubmissionRecord, items: Sequence[ItemScore], baseline: Sequence[ItemScore], protocol: Protocol
) -> Headline:
    """The headline of a run whose best submission is `best`; `baseline` may be empty."""
    base: Score | None = score_parts(baseline).headline(protocol) if baseline else None
    return Headline(
        submission_number=best.number,
        score=score_parts(items).headline(protocol),
        baseline=base,
        improvement=gain(items, baseline, protocol),
    )

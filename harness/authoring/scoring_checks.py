"""Checks of a benchmark's evaluator: real answers through the real scorer, which is another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.authoring.answers import GARBAGE, HOSTILE, SILENT
from harness.authoring.folder_checks import has_extract
from harness.authoring.verdicts import Skipped
from harness.domain.items import Item, select
from harness.domain.specs import Benchmark
from harness.errors import EvaluationFailed, ServiceUnavailable, UsageError
from harness.scorer.client import ScorerClient
from harness.scorer.wire import ItemVerdict, ScoreItem, ScoreRequest

# A sample is enough where every item is treated alike; the perfect answers are tried on all.
SAMPLE, HOSTILE_SAMPLE = 100, 2
TIMEOUT_S = 900.0
# All hostile answers together, and each of them alone.
HOSTILE_TIMEOUT_S, ONE_TIMEOUT_S = 120.0, 20.0
EXACT = 1e-9


@dataclass(frozen=True)
class Subject:
    """A benchmark whose data is there and whose scorer answers."""

    benchmark: Benchmark
    hidden: Sequence[Item]
    scorer: ScorerClient

    def verdicts(self, pairs: Sequence[tuple[Item, str]], timeout_s: float = TIMEOUT_S) -> tuple[ItemVerdict, ...]:
        """The verdicts on items with answers, in order.

        Raises:
            EvaluationFailed: the benchmark's evaluator gave none.
        """
        items = tuple(
            ScoreItem(
                item_id=item.id,
                sample=number,
                question=item.question,
                reference=item.answer,
                answer=answer,
                extra=item.extra,
            )
            for number, (item, answer) in enumerate(pairs)
        )
        config = self.benchmark.config
        request = ScoreRequest(
            eval_mode=config.eval_mode,
            opencompass_dataset=config.opencompass_dataset,
            items=items,
            timeout_s=timeout_s,
        )
        return self.scorer.score(request).verdicts


def perfect(subject: Subject) -> str:
    """The reference as the answer scores 100."""
    verdicts = subject.verdicts([(item, item.answer) for item in subject.hidden])
    wrong = [verdict for verdict in verdicts if verdict.score < 1 - EXACT]
    if wrong:
        raise UsageError(
            f"the reference as the answer scores {wrong[0].score:g} on item {wrong[0].item_id}, and {len(wrong)} of "
            f"{len(verdicts)} items are not right",
            "Let eval.py give 1.0 to the reference itself, or correct those items' `answer`.",
        )
    return f"{len(verdicts)} references score 100"


def floor(subject: Subject) -> str:
    """Answers that say nothing score the floor."""
    items, expected = select(subject.hidden, SAMPLE), subject.benchmark.config.floor
    verdicts = subject.verdicts([(item, answer) for answer in GARBAGE for item in items])
    for number, answer in enumerate(GARBAGE):
        scores = [verdict.score for verdict in verdicts[number * len(items) : (number + 1) * len(items)]]
        mean = sum(scores) / len(scores)
        if abs(mean - expected) > EXACT:
            raise UsageError(
                f"the answer {answer[:40]!r} scores {100 * mean:.1f}, not {100 * expected:.1f}",
                "Correct eval.py, or name the mean score of such answers as `floor` in config.yaml.",
            )
    return f"{len(GARBAGE)} answers that say nothing score {100 * expected:g} on {len(items)} items"


def extraction(subject: Subject) -> str | Skipped:
    """extract() reads the references and the worked examples, and nothing out of silence."""
    if not has_extract(subject.benchmark):
        return Skipped(reason="eval.py has no extract(): answers that cannot be read are not counted")
    items = select(subject.hidden, SAMPLE)
    unread = [v for v in subject.verdicts([(item, item.answer) for item in items]) if not v.is_extracted]
    if unread:
        raise UsageError(f"extract() gives None for the reference of item {unread[0].item_id}", "Correct eval.py.")
    silence = [(item, answer) for answer in SILENT for item in items]
    for (_, answer), verdict in zip(silence, subject.verdicts(silence), strict=True):
        if verdict.is_extracted:
            raise UsageError(f"extract() reads something out of {answer!r}", "Let it return None there.")
    return f"{len(items)} references are read, {len(SILENT)} silent answers are not"


def repetition(subject: Subject) -> str:
    """Equal answers get equal verdicts: again, and in another order."""
    items = select(subject.hidden, SAMPLE)
    shifted = [*items[1:], items[0]]
    pairs = [(item, item.answer) for item in items]
    pairs += [(item, other.answer) for item, other in zip(items, shifted, strict=True)]
    pairs += [(item, GARBAGE[number % len(GARBAGE)]) for number, item in enumerate(items)]
    first, again = subject.verdicts(pairs), subject.verdicts(pairs)
    backwards = subject.verdicts(pairs[::-1])[::-1]
    for verdicts, how in ((again, "the second time"), (backwards, "in another order")):
        moved = [one for one, other in zip(first, verdicts, strict=True) if one != other]
        if moved:
            raise UsageError(
                f"item {moved[0].item_id} is judged differently {how} ({len(moved)} of {len(pairs)} verdicts)",
                "eval.py may not draw lots, count calls, or look at the clock.",
            )
    return f"{len(pairs)} verdicts are the same again and in another order"


def hostility(subject: Subject) -> str:
    """Answers that were made to break an evaluator cost it nothing."""
    items = select(subject.hidden, HOSTILE_SAMPLE)
    pairs = [(item, answer) for answer in HOSTILE.values() for item in items]
    try:
        subject.verdicts(pairs, HOSTILE_TIMEOUT_S)
    except (EvaluationFailed, ServiceUnavailable) as together:
        for name, answer in HOSTILE.items():
            try:
                subject.verdicts([(item, answer) for item in items], ONE_TIMEOUT_S)
            except (EvaluationFailed, ServiceUnavailable) as alone:
                raise UsageError(
                    f"the evaluation breaks on {name}: {alone.what}",
                    "A model may write anything: eval.py must give such an answer a score, soon.",
                ) from alone
        raise UsageError(f"hostile answers break the evaluation: {together.what}", "Make eval.py faster.") from together
    return f"{len(HOSTILE)} hostile answers are scored"

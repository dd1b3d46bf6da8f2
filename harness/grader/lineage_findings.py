"""The lineage findings of one admitted submission: how it relates to its base, and to each known sibling of that base.

Thresholds, and how often an honest submission would meet them: docs/decisions/0017-lineage-from-sketches.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.checkpoint.fingerprint import Fingerprint
from harness.checkpoint.known_models import KnownModel
from harness.domain.findings import Finding, Severity
from harness.domain.text import shown
from harness.grader.lineage import Change, Direction, changes, cosine, directions, n_differing

TOOL_VERSION = "lineage 1"
KIND_PREFIX = "lineage_"
# Length of the change over that of the base's weights. Fine-tuning stays far below; an unrelated model is at 1.4.
FAR = 0.7
# Cosine between the submission's change and the sibling's, over all tensors that both have changed.
TOWARDS, STRONGLY_TOWARDS, INTERPOLATED = 0.2, 0.6, 0.9
# The same in one weight matrix; a part that was taken from a sibling is hidden in the total.
TENSOR_TOWARDS = 0.5
# Standard errors that an estimate has to be away from what it is compared with.
MIN_ERRORS = 8.0
MAX_LISTED = 10
MAX_NAMED = 3


@dataclass(frozen=True)
class Total:
    """The change of all compared tensors together, beside the sibling's."""

    cosine: float
    coefficient: float
    cosine_error: float
    coefficient_error: float

    @property
    def is_nearer(self) -> bool:
        """Whether the submission is nearer to the sibling than to the base, beyond the error of the estimate."""
        return self.coefficient - MIN_ERRORS * self.coefficient_error > 0.5 and self.is_towards

    @property
    def is_towards(self) -> bool:
        return self.cosine > max(TOWARDS, MIN_ERRORS * self.cosine_error)


@dataclass(frozen=True)
class Relatives:
    """What submissions of a run are compared with: its base model, and the siblings of it that are known."""

    base: Fingerprint
    siblings: tuple[KnownModel, ...] = ()


def lineage_findings(number: int, submission: Fingerprint, relatives: Relatives) -> tuple[Finding, ...]:
    """What is to be noted of submission `number`; always one about its base, which says what it was compared with."""
    base, siblings = relatives.base, relatives.siblings
    found = [_about_base(number, submission, base, siblings)]
    found += _far(number, changes(submission, base))
    for sibling in siblings:
        found += _about_sibling(number, submission, base, sibling)
    return tuple(found)


def not_examined(number: int, reason: str) -> tuple[Finding, ...]:
    """The finding where nothing could be compared: never to be read as clean."""
    return (_finding(number, "lineage_not_examined", "info", f"lineage not examined: {reason}", {}),)


def _about_base(number: int, submission: Fingerprint, base: Fingerprint, siblings: Sequence[KnownModel]) -> Finding:
    all_changes = changes(submission, base)
    changed = [change for change in all_changes if change.is_changed]
    names = [sibling.name for sibling in siblings]
    against = (
        f"compared with {len(names)} known siblings ({_listed(names)})"
        if names
        else "not examined against siblings: none is known of this base model"
    )
    if not changed:
        kind, what = "lineage_identical", "the weights are the base model's"
    elif len(changed) == len(all_changes):
        kind, what = "lineage_replaced", f"all {len(changed)} tensors differ from the base model's"
    else:
        kind = "lineage_partly_changed"
        what = f"{len(changed)} of {len(all_changes)} tensors differ from the base model's"
    total = _relative_length(all_changes)
    if changed:
        what += f", by {100 * total:.2g} % of their length"
    evidence = {
        "tensors": len(all_changes),
        "changed": len(changed),
        "relative_change": _rounded(total),
        "not_sketched": sum(not change.is_sketched for change in all_changes),
        "most_changed": [
            {"tensor": shown(change.name), "relative_change": _rounded(change.relative)}
            for change in sorted(changed, key=lambda change: -change.relative)[:MAX_LISTED]
        ],
        "siblings": names[:MAX_LISTED],
    }
    return _finding(number, kind, "info", f"{what}; {against}", evidence)


def _far(number: int, all_changes: Sequence[Change]) -> Iterator[Finding]:
    relative = _relative_length(all_changes)
    unsketched = [change.name for change in all_changes if change.is_changed and not change.is_sketched]
    if relative <= FAR and not unsketched:
        return
    evidence = {
        "relative_change": _rounded(relative),
        "threshold": FAR,
        "not_sketched": [shown(name) for name in unsketched[:MAX_LISTED]],
        "most_changed": [
            {"tensor": shown(change.name), "relative_change": _rounded(change.relative)}
            for change in sorted(all_changes, key=lambda change: -change.length)[:MAX_LISTED]
        ],
    }
    if relative > FAR:
        detail = f"the weights moved by {relative:.2f} of their length: further than fine-tuning does"
    else:
        detail = f"{len(unsketched)} changed tensors hold numbers too large to compare ({_listed(unsketched)})"
    yield _finding(number, "lineage_far", "warning", detail, evidence)


def _about_sibling(number: int, submission: Fingerprint, base: Fingerprint, sibling: KnownModel) -> Iterator[Finding]:
    compared = directions(submission, base, sibling.fingerprint)
    n_told = n_differing(submission, base, sibling.fingerprint)
    copies = [one for one in compared if one.is_copy and one.is_telling]
    evidence = {
        "sibling": sibling.name,
        "source": shown(sibling.source),
        "sibling_differs_in": n_told,
        "compared": len(compared),
    }
    if compared and len([one for one in compared if one.is_copy]) == n_told:
        detail = f"the weights are those of {sibling.name}, not trained from the base model"
        tensors = _tensors(copies or compared)
        yield _finding(number, "lineage_sibling_equal", "serious", detail, {**evidence, "tensors": tensors})
        return
    if copies:
        detail = (
            f"{len(copies)} of {n_told} tensors are those of {sibling.name} ({_listed(one.name for one in copies)})"
        )
        more = {"copies": len(copies), "tensors": _tensors(copies)}
        yield _finding(number, "lineage_sibling_tensors", "serious", detail, {**evidence, **more})
    yield from _direction(number, sibling, compared, evidence)


def _direction(
    number: int, sibling: KnownModel, compared: Sequence[Direction], evidence: dict[str, Any]
) -> Iterator[Finding]:
    total, moved = _total(compared), [one for one in compared if _is_towards(one) and not one.is_copy]
    evidence = {
        **evidence,
        "cosine": _rounded(total.cosine),
        "cosine_error": _rounded(total.cosine_error),
        "coefficient": _rounded(total.coefficient),
        "coefficient_error": _rounded(total.coefficient_error),
        "thresholds": {"cosine": TOWARDS, "serious": STRONGLY_TOWARDS, "tensor_cosine": TENSOR_TOWARDS},
        "tensors_towards": len(moved),
        "tensors": _tensors(sorted(moved or compared, key=lambda one: -one.cosine)),
    }
    towards = f"{sibling.name} (cosine {total.cosine:.2f}"
    if total.is_nearer:
        detail = f"the weights are nearer to {towards}) than to the base model"
        yield _finding(number, "lineage_sibling_nearer", "serious", detail, evidence)
    elif total.is_towards:
        severity: Severity = "serious" if total.cosine >= STRONGLY_TOWARDS else "warning"
        like = ", as an interpolation would" if total.cosine >= INTERPOLATED else ""
        detail = f"the weights moved towards {towards}, {100 * total.coefficient:.2g} % of the way){like}"
        yield _finding(number, "lineage_sibling_towards", severity, detail, evidence)
    elif moved:
        detail = f"{len(moved)} tensors moved towards {sibling.name} ({_listed(one.name for one in moved)})"
        yield _finding(number, "lineage_sibling_towards", "warning", detail, evidence)


def _total(compared: Sequence[Direction]) -> Total:
    own = math.fsum(one.own_square for one in compared)
    other = math.fsum(one.sibling_square for one in compared)
    product = math.fsum(one.product for one in compared)
    # Of a product of sketches of unrelated vectors; what is kept exactly has none.
    variance = math.fsum(
        one.own_square * one.sibling_square / one.n_numbers for one in compared if not one.is_exact and one.n_numbers
    )
    lengths = math.sqrt(own) * math.sqrt(other)
    return Total(
        cosine=cosine(product, own, other),
        coefficient=product / other if other > 0 else 0.0,
        cosine_error=math.sqrt(variance) / lengths if lengths > 0 else 0.0,
        coefficient_error=math.sqrt(variance) / other if other > 0 else 0.0,
    )


def _is_towards(one: Direction) -> bool:
    # Directions of few dimensions meet by chance: the cosine of two random ones is about 1 / sqrt(dimensions).
    by_chance = MIN_ERRORS / math.sqrt(one.n_numbers) if one.n_numbers else 1.0
    return one.is_telling and one.cosine > max(TENSOR_TOWARDS, by_chance)


def _relative_length(all_changes: Sequence[Change]) -> float:
    base = math.fsum(change.base_length**2 for change in all_changes)
    moved = math.fsum(change.length**2 for change in all_changes)
    return math.sqrt(moved / base) if base > 0 else float(moved > 0)


def _tensors(listed: Iterable[Direction]) -> list[dict[str, Any]]:
    return [
        {
            "tensor": shown(one.name),
            "is_copy": one.is_copy,
            "cosine": _rounded(one.cosine),
            "coefficient": _rounded(one.product / one.sibling_square if one.sibling_square else 0.0),
        }
        for one in list(listed)[:MAX_LISTED]
    ]


def _listed(names: Iterable[str]) -> str:
    known = [shown(name, 80) for name in names]
    more = f" and {len(known) - MAX_NAMED} more" if len(known) > MAX_NAMED else ""
    return ", ".join(known[:MAX_NAMED]) + more


def _rounded(value: float) -> float:
    """Four digits: enough to judge by, and finite, because the record takes nothing else."""
    return float(f"{value:.4g}") if math.isfinite(value) else 0.0


def _finding(number: int, kind: str, severity: Severity, detail: str, evidence: dict[str, Any]) -> Finding:
    return Finding(
        submission_number=number,
        kind=kind,
        severity=severity,
        detail=detail,
        evidence=evidence,
        tool_version=TOOL_VERSION,
    )

"""The lineage findings of one admitted submission: how it relates to its base, and to each known sibling of that base.

Thresholds, and how often an honest submission would meet them: docs/decisions/0017-lineage-from-sketches.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from harness.checkpoint.fingerprint import Fingerprint
from harness.checkpoint.known_models import KnownModel
from harness.domain.findings import Finding, Severity
from harness.domain.text import shown
from harness.grader.lineage import Change, Direction, changes, cosine, differing, directions, is_telling

TOOL_VERSION = "lineage 1"
KIND_PREFIX = "lineage_"
# Length of the change over that of the base's weights: an unrelated model is at 1.4, a hard fine-tuning at 0.2.
FAR = 1.0
# Cosine between a weight matrix and the base's, below which they have little to do with each other; and in how many.
UNALIGNED, MAX_UNALIGNED_SHARE = 0.5, 0.25
# Cosine between the submission's change and the sibling's, over all tensors that both have changed.
TOWARDS = 0.2
# The same in one weight matrix; a part that was taken from a sibling is hidden in the total.
TENSOR_TOWARDS = 0.5
# Standard errors that an estimate has to be away from what it is compared with.
MIN_ERRORS = 8.0
# A blend goes equally far in every matrix: mean square of the coefficients' deviations, in units of their errors. The
# rounding of a file's type adds to an error some part of the coefficient. Below this cosine errors hide what is uneven.
MAX_UNEVENNESS, ROUNDING_PART, MIN_MATRICES, MIN_BLEND = 2.0, 0.05, 4, 0.3
MAX_LISTED = 10
MAX_NAMED = 3


@dataclass(frozen=True)
class Total:
    """The change of all compared tensors together, beside the sibling's; `unevenness` of the matrices, if enough."""

    cosine: float
    cosine_error: float
    coefficient: float
    coefficient_error: float
    unevenness: float | None

    @property
    def is_towards(self) -> bool:
        return self.cosine > max(TOWARDS, MIN_ERRORS * self.cosine_error)

    @property
    def is_nearer(self) -> bool:
        """Whether the submission is nearer to the sibling than to the base, beyond the error of the estimate."""
        return self.is_towards and self.coefficient - MIN_ERRORS * self.coefficient_error > 0.5

    @property
    def is_blend(self) -> bool:
        """Whether it is base + c (sibling - base), with or without something else that has another direction."""
        is_even = self.unevenness is not None and self.unevenness < MAX_UNEVENNESS
        return self.is_towards and is_even and self.cosine > MIN_BLEND


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
        f"compared with {len(names)} known sibling{'s' if len(names) > 1 else ''} ({_listed(names)})"
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
        what += f", by {100 * total:.3g} % of their length"
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
    matrices = [change for change in all_changes if change.is_telling and change.is_sketched]
    unaligned = [change for change in matrices if change.alignment < UNALIGNED and change.base_length > 0]
    if relative > FAR:
        detail = f"the weights moved by {relative:.2f} of their length: further than fine-tuning does"
    elif len(unaligned) > MAX_UNALIGNED_SHARE * len(matrices):
        detail = f"{len(unaligned)} of {len(matrices)} matrices have little to do with the base model's"
    elif unsketched:
        detail = f"{len(unsketched)} changed tensors hold numbers too large to compare ({_listed(unsketched)})"
    else:
        return
    evidence = {
        "relative_change": _rounded(relative),
        "unaligned_matrices": len(unaligned),
        "matrices": len(matrices),
        "not_sketched": [shown(name) for name in unsketched[:MAX_LISTED]],
        "tensors": [
            {"tensor": shown(c.name), "relative_change": _rounded(c.relative), "alignment": _rounded(c.alignment)}
            for c in sorted(all_changes, key=lambda change: change.alignment)[:MAX_LISTED]
        ],
        "thresholds": {"relative_change": FAR, "alignment": UNALIGNED, "unaligned_share": MAX_UNALIGNED_SHARE},
    }
    yield _finding(number, "lineage_far", "warning", detail, evidence)


def _about_sibling(number: int, submission: Fingerprint, base: Fingerprint, sibling: KnownModel) -> Iterator[Finding]:
    compared = directions(submission, base, sibling.fingerprint)
    told = differing(submission, base, sibling.fingerprint)
    # A model so small that no matrix of it tells is judged by all of its tensors.
    has_telling = any(is_telling(tensor) for tensor in told)
    copies = [one for one in compared if one.is_copy and (one.is_telling or not has_telling)]
    n_told = sum(is_telling(tensor) for tensor in told) if has_telling else len(told)
    evidence = {
        "sibling": sibling.name,
        "source": shown(sibling.source),
        "sibling_differs_in": len(told),
        "compared": len(compared),
        "copies": sum(one.is_copy for one in compared),
    }
    if copies and len(copies) == n_told:
        detail = f"the weights are those of {sibling.name}, not trained from the base model"
        more = {"tensors": _tensors(copies)}
        yield _finding(number, "lineage_sibling_equal", "serious", detail, {**evidence, **more})
        return
    if copies and has_telling:
        detail = f"{len(copies)} of {n_told} matrices are those of {sibling.name} ({_listed(c.name for c in copies)})"
        more = {"tensors": _tensors(copies)}
        yield _finding(number, "lineage_sibling_tensors", "serious", detail, {**evidence, **more})
    moved = [one for one in compared if not one.is_copy and (one.is_telling or not has_telling)]
    yield from _direction(number, sibling, moved, evidence)


def _direction(
    number: int, sibling: KnownModel, compared: Sequence[Direction], evidence: dict[str, Any]
) -> Iterator[Finding]:
    total, moved = _total(compared), [one for one in compared if _is_towards(one)]
    way = f"{sibling.name}, {100 * total.coefficient:.0f} % of the way (cosine {total.cosine:.2f})"
    severity: Severity = "serious" if total.is_blend else "warning"
    if total.is_nearer:
        kind, detail = "lineage_sibling_nearer", f"the weights are nearer to {way}, than to the base model"
    elif total.is_towards:
        kind, detail = "lineage_sibling_towards", f"the weights moved towards {way}"
    elif moved:
        kind, names = "lineage_sibling_towards", _listed(one.name for one in moved)
        detail = f"{len(moved)} matrices moved towards {sibling.name} ({names})"
    else:
        return
    if total.is_blend:
        detail += ", equally far in every matrix: a blend of the two, or trained from the sibling"
    evidence = {
        **evidence,
        "cosine": _rounded(total.cosine),
        "cosine_error": _rounded(total.cosine_error),
        "coefficient": _rounded(total.coefficient),
        "coefficient_error": _rounded(total.coefficient_error),
        "unevenness": None if total.unevenness is None else _rounded(total.unevenness),
        "matrices_towards": len(moved),
        "tensors": _tensors(sorted(moved or compared, key=lambda one: -one.cosine)),
        "thresholds": {"cosine": TOWARDS, "matrix_cosine": TENSOR_TOWARDS, "unevenness": MAX_UNEVENNESS},
    }
    yield _finding(number, kind, severity, detail, evidence)


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
        cosine_error=math.sqrt(variance) / lengths if lengths > 0 else 0.0,
        coefficient=product / other if other > 0 else 0.0,
        coefficient_error=math.sqrt(variance) / other if other > 0 else 0.0,
        unevenness=_unevenness([one for one in compared if one.is_telling and one.sibling_square > 0]),
    )


def _unevenness(matrices: Sequence[Direction]) -> float | None:
    if len(matrices) < MIN_MATRICES:
        return None
    typical = median(one.coefficient for one in matrices)
    errors = [math.hypot(one.coefficient_error, ROUNDING_PART * typical) for one in matrices]
    if not all(errors):
        return None
    weights = [error**-2 for error in errors]
    mean = math.fsum(w * one.coefficient for w, one in zip(weights, matrices, strict=True)) / math.fsum(weights)
    return math.fsum(w * (one.coefficient - mean) ** 2 for w, one in zip(weights, matrices, strict=True)) / len(weights)


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
            "coefficient": _rounded(one.coefficient),
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

"""Where a submission comes from: its distance from the base model, and its direction towards known siblings.

All from hashes and sketches (`harness.checkpoint.sketch`): nothing here reads weights. What the figures mean, and how
often an honest submission would meet a threshold, is in docs/decisions/0017-lineage-from-sketches.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.checkpoint.fingerprint import Fingerprint, TensorPrint
from harness.checkpoint.tree import HEAD, is_tied_head

# Bits of precision, the hidden one included. Rounding to p bits moves a number by at most 2**-p of itself.
PRECISION = {"BF16": 8, "F16": 11, "F32": 24, "F64": 53}
# A sibling that moved no further than this many roundings from the base has no direction to compare with.
MIN_ROUNDINGS = 2.0
# Matches only count as such where the two are much nearer to each other than the sibling is to the base.
MAX_MATCH_SHARE = 0.25
# Small tensors and vectors (norms, biases) can be equal, or move alike, without any copying.
MIN_TELLING_ELEMENTS = 1024

# Sketches are kept as F32, which rounds to 6e-8 of a number.
NOTHING_LEFT = 1e-5

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """How a tensor of a submission differs from the base's: L2 lengths of the base's and of the change, estimated.

    `alignment` is the cosine between the tensor and the base's.
    """

    name: str
    is_changed: bool
    is_telling: bool
    is_sketched: bool
    base_length: float
    length: float
    alignment: float

    @property
    def relative(self) -> float:
        return self.length / self.base_length if self.base_length else float(self.length > 0)


@dataclass(frozen=True)
class Direction:
    """A tensor's change beside the sibling's, both without their part along the base itself (weight decay)."""

    name: str
    is_telling: bool
    is_copy: bool
    n_numbers: int
    is_exact: bool
    own_square: float = 0.0
    sibling_square: float = 0.0
    product: float = 0.0

    @property
    def cosine(self) -> float:
        return cosine(self.product, self.own_square, self.sibling_square)

    @property
    def coefficient(self) -> float:
        """How far along the sibling's change this one goes: 0 at the base, 1 at the sibling."""
        return self.product / self.sibling_square if self.sibling_square > 0 else 0.0

    @property
    def coefficient_error(self) -> float:
        """Standard error of the coefficient: what is beside the sibling's direction is noise to the sketch."""
        if self.is_exact or not self.sibling_square:
            return 0.0
        beside = self.own_square * (1 - self.cosine**2)
        return math.sqrt(beside / self.sibling_square / self.n_numbers)


def pairs(submission: Fingerprint, base: Fingerprint) -> Iterator[tuple[TensorPrint, TensorPrint]]:
    """Each tensor of the submission with the base's; a head that repeats the embedding is left out."""
    is_tied = is_tied_head({tensor.name: tensor.hashed for tensor in submission.tensors})
    for own in submission.tensors:
        before = base.by_name.get(own.name)
        if before is not None and not (own.name == HEAD and is_tied):
            yield own, before


def changes(submission: Fingerprint, base: Fingerprint) -> tuple[Change, ...]:
    """Every tensor's change from the base; one that only differs by rounding to another type is none."""
    return tuple(_change(own, before) for own, before in pairs(submission, base))


def directions(submission: Fingerprint, base: Fingerprint, sibling: Fingerprint) -> tuple[Direction, ...]:
    """The tensors that can tell: those that the sibling has changed, and the submission too."""
    found = []
    for own, before in pairs(submission, base):
        other = sibling.by_name.get(own.name)
        if other is not None and not _matches(other, before) and not _matches(own, before):
            direction = _direction(own, before, other)
            if direction is not None:
                found.append(direction)
    return tuple(found)


def differing(submission: Fingerprint, base: Fingerprint, sibling: Fingerprint) -> tuple[TensorPrint, ...]:
    """The tensors in which the sibling differs from the base: the submission's."""
    both = ((own, sibling.by_name.get(own.name), before) for own, before in pairs(submission, base))
    return tuple(own for own, other, before in both if other is not None and not _matches(other, before))


def is_telling(tensor: TensorPrint) -> bool:
    """Whether such a tensor can be equal to another, or move alike, by copying alone."""
    return len(tensor.shape) > 1 and tensor.info.n_elements >= MIN_TELLING_ELEMENTS


def cosine(product: float, square: float, other_square: float) -> float:
    """Of two vectors, from their product and squared lengths; 0 if one has no length."""
    lengths = math.sqrt(square) * math.sqrt(other_square)
    return max(-1.0, min(1.0, product / lengths)) if lengths > 0 else 0.0


def rounding(own: TensorPrint, before: TensorPrint) -> float:
    """The largest relative change that saving `before` in the type of `own` can make."""
    bits, bits_before = PRECISION.get(own.dtype, 0), PRECISION.get(before.dtype, 0)
    return 2.0**-bits if bits < bits_before else 0.0


def _change(own: TensorPrint, before: TensorPrint) -> Change:
    is_sketched = bool(own.sketch and before.sketch) or not own.info.n_elements
    base, vector = _vector(before), _vector(own)
    has_both = bool(own.sketch and before.sketch)
    return Change(
        name=own.name,
        is_changed=not _matches(own, before),
        is_telling=is_telling(own),
        is_sketched=is_sketched,
        base_length=_length(base),
        length=_length(vector - base) if has_both else 0.0,
        alignment=cosine(float(vector @ base), float(vector @ vector), float(base @ base)) if has_both else 0.0,
    )


def _direction(own: TensorPrint, before: TensorPrint, other: TensorPrint) -> Direction | None:
    if not (own.sketch and before.sketch and other.sketch):
        is_copy = _is_same(own, other)
        return Direction(own.name, is_telling(own), True, 0, True) if is_copy else None
    base = _vector(before)
    moved, sibling_moved = _vector(own) - base, _vector(other) - base
    apart = _length(moved - sibling_moved)
    is_copy = _is_same(own, other) or (
        own.dtype != other.dtype and _matches_either(own, other) and apart < MAX_MATCH_SHARE * _length(sibling_moved)
    )
    # Two that were rounded alike share the rounding's direction: what moved hardly further than that is not compared.
    if min(rounding(own, before), rounding(other, before)) > 0 and not is_copy:
        least = MIN_ROUNDINGS * rounding(other, before) * _length(base)
        if _length(sibling_moved) < least:
            return None
    moved, sibling_moved = _without(moved, base), _without(sibling_moved, base)
    return Direction(
        name=own.name,
        is_telling=is_telling(own),
        is_copy=is_copy,
        n_numbers=len(base),
        is_exact=own.info.n_elements <= len(base),
        own_square=float(moved @ moved),
        sibling_square=float(sibling_moved @ sibling_moved),
        product=float(moved @ sibling_moved),
    )


def _is_same(own: TensorPrint, other: TensorPrint) -> bool:
    return own.hashed == other.hashed


def _matches(own: TensorPrint, before: TensorPrint) -> bool:
    """Whether `own` is `before`, or `before` saved in another type."""
    if _is_same(own, before) or own.dtype == before.dtype or not (own.sketch and before.sketch):
        return _is_same(own, before)
    base = _vector(before)
    return _length(_vector(own) - base) <= rounding(own, before) * _length(base)


def _matches_either(own: TensorPrint, other: TensorPrint) -> bool:
    return _matches(own, other) or _matches(other, own)


def _vector(tensor: TensorPrint) -> Vector:
    return tensor.numbers.astype(np.float64)


def _length(vector: Vector) -> float:
    return float(np.linalg.norm(vector)) if len(vector) else 0.0


def _without(vector: Vector, base: Vector) -> Vector:
    """`vector` without its part along `base`; nothing where only the rounding of sketches is left."""
    square = float(base @ base)
    left = vector - (float(vector @ base) / square) * base if square > 0 else vector
    return left if _length(left) > NOTHING_LEFT * _length(vector) else np.zeros_like(left)

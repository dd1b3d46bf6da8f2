"""A linear sketch of a tensor: a few thousand numbers from which differences between checkpoints can be estimated.

A count sketch (Charikar, Chen, Farach-Colton 2002; as a projection: Weinberger et al. 2009): every element is added,
with a pseudo-random sign, to one of `width` buckets. It is linear, so sketch(a) - sketch(b) = sketch(a - b), and inner
products of sketches estimate those of the tensors without bias. At the full width the standard error of a cosine near 0
is 2 %, and that of a length is 2 to 3 %. A tensor of no more elements than buckets is kept exactly.

Element `i` of a tensor lies in block `i // BLOCK` and goes to bucket `i % width`. Its sign is read from one long table,
at a place that is drawn for each block; so two equal blocks meet different signs. Everything is drawn with SHAKE-256
from the tensor's name and nothing else: sketches made anywhere, at any time, are of one kind.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.checkpoint.header import TensorInfo

# Whatever changes the numbers that a tensor gets needs a new version of `Fingerprint`: they would not be compared.
MAX_WIDTH, MIN_WIDTH = 2048, 64
# Numbers that the sketches of one checkpoint may have together, which bounds their size to a few megabytes.
MAX_NUMBERS = 2**20
# Elements that share a place in the table; a buffer of them fits into a core's cache. A multiple of every width.
BLOCK = 2**17
# Floating-point types that are sketched, as raw little-endian numbers.
SKETCHED_KINDS = {"F32": "<u4", "BF16": "<u2", "F16": "<i2", "F64": "<f8"}
SIGN_BIT = 31
F16_BITS = np.uint32(0x8FFF_E000)
F16_SCALE = np.float32(2.0**112)


def width_for(n_tensors: int) -> int:
    """Buckets for each tensor of a checkpoint with so many tensors: a power of two."""
    width = MAX_WIDTH
    while width > MIN_WIDTH and width * n_tensors > MAX_NUMBERS:
        width //= 2
    return width


def sketch_length(info: TensorInfo, width: int) -> int:
    """Numbers in the sketch of such a tensor; 0 where it is not sketched."""
    return min(info.n_elements, width) if info.dtype in SKETCHED_KINDS else 0


class Sketcher:
    """Sketches one tensor after the other from chunks of their bytes. One thread at a time."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._block = np.empty(BLOCK, dtype=np.uint32)
        self._sums = np.zeros(width, dtype=np.float64)
        self._info = TensorInfo("F32", ())
        self._draws = np.zeros(0, dtype=np.uint32)
        self._reached = 0

    def begin(self, name: str, info: TensorInfo) -> None:
        """The bytes that follow are of this tensor."""
        n_blocks = -(-info.n_elements // BLOCK)
        drawn = hashlib.shake_256(b"block\0" + name.encode("utf-8", "surrogatepass")).digest(4 * n_blocks)
        self._draws = np.frombuffer(drawn, dtype="<u4")
        self._info, self._reached = info, 0
        self._sums[:] = 0

    def add(self, chunk: memoryview) -> bool:
        """Adds the next whole elements. True if every number so far is known to be finite.

        One that is not makes its bucket's sum so (but for F16, which is widened in a way that makes infinity a number).
        The reverse does not hold: sums of huge numbers overflow too.
        """
        kind = SKETCHED_KINDS.get(self._info.dtype)
        if kind is None:
            return False
        values = np.frombuffer(chunk, dtype=kind)
        with np.errstate(all="ignore"):
            while len(values):
                start = self._reached % BLOCK
                piece, values = values[: BLOCK - start], values[BLOCK - start :]
                self._add_to_block(piece, start)
                self._reached += len(piece)
            return self._info.dtype != "F16" and bool(np.isfinite(self._sums).all())

    def end(self) -> bytes:
        """The sketch as little-endian F32; empty if the type is not sketched or the numbers are too large to add."""
        length = sketch_length(self._info, self._width)
        with np.errstate(all="ignore"):
            sums = self._sums[:length].astype("<f4")
        return sums.tobytes() if np.isfinite(sums).all() else b""

    def _add_to_block(self, values: NDArray[np.generic], start: int) -> None:
        """Adds up to one block's elements, the first of which is number `start` of it."""
        end = start + len(values)
        low, high = start - start % self._width, -(-end // self._width) * self._width
        self._block[low:start] = 0
        self._block[end:high] = 0
        bits = self._block[start:end]
        draw = int(self._draws[self._reached // BLOCK])
        place = draw % BLOCK + start
        signs = sign_table()[place : place + len(values)]
        if self._info.dtype == "F32":
            np.bitwise_xor(values, signs, out=bits)
        else:
            _put_as_f32(values, bits)
            np.bitwise_xor(bits, signs, out=bits)
        sums = self._block[low:high].view(np.float32).reshape(-1, self._width).sum(axis=0)
        if draw >> SIGN_BIT:
            self._sums -= sums
        else:
            self._sums += sums


def _put_as_f32(values: NDArray[np.generic], bits: NDArray[np.uint32]) -> None:
    """Writes `values` as the bits of F32 numbers."""
    if values.dtype == np.dtype("<f8"):
        np.copyto(bits.view(np.float32), values, casting="same_kind")
    elif values.dtype == np.dtype("<u2"):
        # A BF16 is the upper half of an F32.
        np.copyto(bits, values)
        np.left_shift(bits, 16, out=bits)
    else:
        # An F16, whose bits are put where an F32 has them; the biases of the two exponents differ by 112. NumPy's own
        # conversion takes three times as long.
        np.copyto(bits.view(np.int32), values)
        np.left_shift(bits, 13, out=bits)
        np.bitwise_and(bits, F16_BITS, out=bits)
        np.multiply(bits.view(np.float32), F16_SCALE, out=bits.view(np.float32))


@cache
def sign_table() -> NDArray[np.uint32]:
    """Random sign bits, in their place in an F32; long enough for a whole block at any drawn place."""
    drawn = np.frombuffer(hashlib.shake_256(b"signs\0").digest(2 * BLOCK // 8), dtype=np.uint8)
    table = np.left_shift(np.unpackbits(drawn), SIGN_BIT, dtype=np.uint32)
    table.flags.writeable = False
    return table

"""Finds NaN and infinity in the raw little-endian bytes of a tensor, without a machine-learning library."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# dtype -> (numpy type of the raw bits, mask of the exponent): all ones there mean NaN or infinity.
EXPONENTS: dict[str, tuple[str, int]] = {
    "F32": ("<u4", 0x7F80_0000),
    "BF16": ("<u2", 0x7F80),
    "F16": ("<u2", 0x7C00),
    "F8_E5M2": ("<u1", 0x7C),
    # This one has no infinity: only all ones is NaN.
    "F8_E4M3": ("<u1", 0x7F),
}
CASTABLE = ("F32", "BF16", "F16", "F64")
MAX_F32 = float(np.finfo(np.float32).max)


def first_non_finite(chunk: memoryview, dtype: str) -> int | None:
    """Index of the first element of `chunk` (whole elements) that is NaN or infinite; integers never are.

    An F64 beyond the range of F32 counts as infinite: that is what the cast makes of it.
    """
    if dtype == "F64":
        values = np.frombuffer(chunk, dtype="<f8")
        # Written so that NaN, which compares false, counts as bad.
        return _first(~(np.abs(values) <= MAX_F32))
    if dtype not in EXPONENTS or not chunk.nbytes:
        return None
    kind, mask = EXPONENTS[dtype]
    bits = np.frombuffer(chunk, dtype=kind)
    exponents = bits & bits.dtype.type(mask)
    # The maximum is several times faster than comparing every element and needs no second temporary.
    return None if int(exponents.max()) != mask else _first(exponents == mask)


def _first(is_bad: NDArray[np.bool_]) -> int | None:
    return int(is_bad.argmax()) if is_bad.any() else None

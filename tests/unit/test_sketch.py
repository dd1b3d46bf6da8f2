"""Sketches: linear, the same for every type and chunking, and as near to the truth as they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from numpy_models import as_bf16, raw

from harness.checkpoint.header import DTYPE_BYTES, TensorInfo
from harness.checkpoint.sketch import (
    BLOCK,
    MAX_NUMBERS,
    MAX_WIDTH,
    MIN_WIDTH,
    SKETCHED_KINDS,
    Sketcher,
    sketch_length,
    width_for,
)

N_TENSORS = 24


def sketch(
    values: NDArray[np.float32], name: str = "a", dtype: str = "F32", chunk: int = 2**22, width: int = MAX_WIDTH
) -> NDArray[np.float64]:
    sketcher = Sketcher(width)
    sketcher.begin(name, TensorInfo(dtype, values.shape))
    content = memoryview(raw(values, dtype))
    for begin in range(0, len(content), chunk):
        sketcher.add(content[begin : begin + chunk])
    return np.frombuffer(sketcher.end(), dtype="<f4").astype(np.float64)


def normal(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def cosine(first: NDArray, second: NDArray) -> float:
    return float((first * second).sum() / np.linalg.norm(first) / np.linalg.norm(second))


def test_a_sketch_of_a_difference_is_the_difference_of_sketches():
    first, second = normal(1, 600, 300), normal(2, 600, 300)
    np.testing.assert_allclose(sketch(first) - sketch(second), sketch(first - second), atol=1e-3)


# What weights and their changes look like: unrelated, alike, of rank one, constant, in one row only.
ROW = np.zeros((700, 512), dtype=np.float32)
ROW[3] = normal(5, 512)
PAIRS = {
    "unrelated": (normal(1, 700, 512), normal(2, 700, 512)),
    "alike": (normal(1, 700, 512), normal(1, 700, 512) + normal(2, 700, 512)),
    "opposed": (normal(1, 700, 512), -normal(1, 700, 512) - 0.3 * normal(2, 700, 512)),
    "rank one": (np.outer(normal(1, 700), normal(2, 512)), np.outer(normal(3, 700), normal(4, 512))),
    "constant": (np.ones((700, 512), dtype=np.float32), normal(2, 700, 512)),
    "repeated": (np.tile(normal(1, 1, 512), (700, 1)), np.tile(normal(2, 1, 512), (700, 1))),
    "one row": (ROW, ROW + normal(6, 700, 512) / 30),
}


@pytest.mark.parametrize(("first", "second"), PAIRS.values(), ids=PAIRS)
def test_cosines_and_lengths_are_estimated_within_a_few_percent(first: NDArray, second: NDArray):
    cosines, lengths = [], []
    for number in range(N_TENSORS):
        one, other = sketch(first, f"t{number}"), sketch(second, f"t{number}")
        cosines.append(cosine(one, other) - cosine(first, second))
        lengths.append(np.linalg.norm(one) / np.linalg.norm(first) - 1)
    assert np.sqrt(np.mean(np.square(cosines))) < 0.04
    assert np.sqrt(np.mean(np.square(lengths))) < 0.04
    # Without bias: the mean is nearer to the truth than one estimate.
    assert abs(np.mean(cosines)) < 0.02
    assert abs(np.mean(lengths)) < 0.02


def test_a_small_tensor_is_kept_exactly():
    first, second = normal(1, 40, 50), normal(2, 40, 50)
    assert len(sketch(first)) == 2000
    assert cosine(sketch(first), sketch(second)) == pytest.approx(cosine(first, second), abs=1e-6)
    assert np.linalg.norm(sketch(first)) == pytest.approx(np.linalg.norm(first), rel=1e-6)


@given(st.integers(0, 3 * BLOCK), st.integers(1, 5000), st.sampled_from([64, 2048]))
@settings(max_examples=15, deadline=None)
def test_chunks_do_not_matter(n_elements: int, elements_per_chunk: int, width: int):
    values = normal(n_elements, n_elements)
    # A chunk is at least a fiftieth: this is about where it ends, not about how many there are.
    chunk = 4 * max(elements_per_chunk, n_elements // 50)
    np.testing.assert_allclose(sketch(values, chunk=chunk, width=width), sketch(values, width=width), atol=1e-3)


@pytest.mark.parametrize("dtype", sorted(SKETCHED_KINDS))
def test_the_same_numbers_in_another_type_have_the_same_sketch(dtype: str):
    # Numbers that each of the types can hold.
    values = as_bf16(np.clip(normal(1, 500, 400), -4, 4))
    values[np.abs(values) < 2**-9] = 0
    np.testing.assert_array_equal(sketch(values, dtype=dtype), sketch(values))


def test_every_half_precision_number_is_read_right():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    sketcher = Sketcher(MAX_WIDTH)
    sketcher.begin("a", TensorInfo("F16", halves.shape))
    sketcher.add(memoryview(halves.tobytes()))
    np.testing.assert_allclose(
        np.frombuffer(sketcher.end(), "<f4"), sketch(halves.astype(np.float32)), rtol=1e-6, atol=1e-3
    )


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F64"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [0, 1, 70_000, 199_999])
def test_a_number_that_is_not_finite_shows(dtype: str, bad: float, place: int):
    values = normal(1, 200_000)
    values[place] = bad
    sketcher = Sketcher(64)
    sketcher.begin("a", TensorInfo(dtype, values.shape))
    with np.errstate(all="ignore"):
        content = values.view(np.uint32) >> 16 if dtype == "BF16" else values
        content = content.astype({"BF16": "<u2", "F32": "<f4", "F64": "<f8"}[dtype])
    assert sketcher.add(memoryview(content.tobytes())) is False
    assert sketcher.end() == b""


def test_numbers_too_large_to_add_up_leave_no_sketch():
    assert len(sketch(np.full(300_000, 3e38, dtype=np.float32))) == 0
    assert len(sketch(np.full(10, 3e38, dtype=np.float32))) == 10


@pytest.mark.parametrize("dtype", sorted(set(DTYPE_BYTES) - set(SKETCHED_KINDS)))
def test_other_types_have_none_and_are_never_called_finite(dtype: str):
    sketcher = Sketcher(64)
    sketcher.begin("a", TensorInfo(dtype, (8,)))
    assert sketcher.add(memoryview(bytes(8 * DTYPE_BYTES[dtype]))) is False
    assert sketcher.end() == b""
    assert sketch_length(TensorInfo(dtype, (8,)), 64) == 0


def test_one_tensor_leaves_nothing_for_the_next():
    sketcher = Sketcher(64)
    for _ in range(2):
        sketcher.begin("a", TensorInfo("F32", (3, 50)))
        sketcher.add(memoryview(raw(normal(1, 3, 50), "F32")))
        last = sketcher.end()
    assert np.array_equal(np.frombuffer(last, "<f4"), sketch(normal(1, 3, 50), width=64))


def test_sketches_are_the_same_everywhere():
    # Files are shared: these numbers must not change without a new version of the format.
    found = sketch(np.arange(1, 9, dtype=np.float32).reshape(2, 4), "model.norm.weight")
    assert found.tolist() == PINNED
    wide = sketch(np.arange(300_000, dtype=np.float32) / 300_000, "model.embed_tokens.weight")
    np.testing.assert_allclose(wide[:4], PINNED_WIDE, atol=1e-3)


PINNED = [-1.0, -2.0, -3.0, -4.0, -5.0, 6.0, -7.0, -8.0]
PINNED_WIDE = [3.2427, 7.4069, 9.9329, 4.5124]


@given(st.integers(1, 200_000))
def test_a_checkpoint_of_many_tensors_has_narrower_sketches(n_tensors: int):
    width = width_for(n_tensors)
    assert MIN_WIDTH <= width <= MAX_WIDTH
    assert BLOCK % width == 0
    assert width == MIN_WIDTH or width * n_tensors <= MAX_NUMBERS

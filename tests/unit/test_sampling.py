"""The repetition guard against a plain reading of its rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.domain.sampling import RepetitionGuard

GUARD = RepetitionGuard(max_pattern=3, min_count=4)


@pytest.mark.parametrize(
    ("tokens", "is_caught"),
    [
        ([], False),
        ([7] * 3, False),
        ([7] * 4, True),
        ([1, 2] * 3, False),
        ([9, 9, 1, 2, 1, 2, 1, 2, 1, 2], True),
        ([1, 2, 3] * 4, True),
        ([1, 2, 3] * 4 + [1], True),
        ([1, 2, 3] * 4 + [4], False),
        ([1, 2, 3, 4] * 9, False),
    ],
)
def test_the_last_tokens_decide(tokens: list[int], is_caught: bool) -> None:
    assert GUARD.is_caught(tokens) == is_caught


@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.builds(RepetitionGuard, max_pattern=st.integers(1, 6), min_count=st.integers(2, 5)),
)
def test_it_is_some_pattern_so_many_times(tokens: list[int], guard: RepetitionGuard) -> None:
    patterns = [tokens[-size:] for size in range(1, guard.max_pattern + 1) if size <= len(tokens)]
    repeated = [pattern * guard.min_count for pattern in patterns]
    assert guard.is_caught(tokens) == any(tokens[-len(tail) :] == tail for tail in repeated)

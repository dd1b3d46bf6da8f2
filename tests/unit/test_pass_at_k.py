"""pass@k against its definition, and where the definition cannot be computed with floats."""

from __future__ import annotations

from itertools import combinations
from math import comb
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.domain.pass_at_k import mean_pass_at_k, pass_at_k


@st.composite
def cases(draw: st.DrawFn, most: int) -> tuple[int, int, int]:
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(cases(most=9))
def test_it_is_the_share_of_subsets_with_a_right_answer(case: tuple[int, int, int]) -> None:
    n, n_right, k = case
    answers = [True] * n_right + [False] * (n - n_right)
    assert pass_at_k(n, n_right, k) == pytest.approx(fmean(any(chosen) for chosen in combinations(answers, k)))


@given(cases(most=2_000))
def test_it_is_the_closed_form_also_where_factorials_are_huge(case: tuple[int, int, int]) -> None:
    n, n_right, k = case
    # In integers: floats overflow from n of about 1,000 on.
    wrong, every = comb(n - n_right, k), comb(n, k)
    assert pass_at_k(n, n_right, k) == pytest.approx((every - wrong) / every, rel=1e-9, abs=1e-12)


def test_pass_at_1_is_the_share_of_right_answers() -> None:
    assert [pass_at_k(10, n_right, 1) for n_right in (0, 3, 10)] == pytest.approx([0, 0.3, 1])


def test_it_grows_with_k_and_is_certain_when_too_few_are_wrong() -> None:
    values = [pass_at_k(10, 2, k) for k in range(1, 11)]
    assert values == sorted(values)
    assert values[7] < 1
    assert values[8:] == [1, 1]


@pytest.mark.parametrize(("n", "n_right", "k"), [(0, 0, 1), (5, 6, 1), (5, -1, 1), (5, 1, 0), (5, 1, 6)])
def test_what_is_not_defined_is_refused(n: int, n_right: int, k: int) -> None:
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(n, n_right, k)


def test_the_mean_counts_whole_scores_only() -> None:
    assert mean_pass_at_k([[1, 0, 0, 0], [0.5, 0.99, 0, 0], [1, 1, 1, 1]], 2) == pytest.approx((0.5 + 0 + 1) / 3)
    with pytest.raises(ValueError, match="no items"):
        mean_pass_at_k([], 1)

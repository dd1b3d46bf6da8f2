"""Dividing one file of items into a public and a hidden half."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.domain.division import hidden_flags
from harness.domain.items import normal_question
from harness.errors import UsageError

QUESTIONS = st.lists(st.text(max_size=12), min_size=2, max_size=60).filter(
    lambda questions: len({normal_question(question) for question in questions}) > 1
)
SHARES = st.floats(0.05, 0.95)
CROWD = [f"crowd {number}" for number in range(200)]


@settings(deadline=None)
@given(QUESTIONS, SHARES)
def test_both_sides_hold_something_and_equal_questions_meet_on_one(questions: list[str], share: float) -> None:
    flags = hidden_flags(questions, share)
    assert len(flags) == len(questions)
    assert {*flags} == {True, False}
    side: dict[str, bool] = {}
    for question, is_hidden in zip(questions, flags, strict=True):
        assert side.setdefault(normal_question(question), is_hidden) is is_hidden


@settings(deadline=None)
@given(QUESTIONS, SHARES, st.randoms(use_true_random=False))
def test_order_does_not_matter(questions: list[str], share: float, random) -> None:
    shuffled = questions[:]
    random.shuffle(shuffled)
    before = dict(zip(questions, hidden_flags(questions, share), strict=True))
    assert dict(zip(shuffled, hidden_flags(shuffled, share), strict=True)) == before


@settings(deadline=None)
@given(QUESTIONS, QUESTIONS, SHARES)
def test_more_items_move_none_of_those_that_were_there(questions: list[str], more: list[str], share: float) -> None:
    before = hidden_flags(questions, share)
    # The crowd has both sides at any share here, so these are the sides that the questions have by themselves. Where
    # one of `questions` had been moved so that no side is empty, more items move it back.
    assume(before == hidden_flags(questions + CROWD, share)[: len(questions)])
    assert hidden_flags(questions + more, share)[: len(questions)] == before


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_the_share_is_kept(share: float) -> None:
    flags = hidden_flags([f"question {number}" for number in range(4_000)], share)
    assert abs(sum(flags) / len(flags) - share) < 0.04


def test_the_division_is_the_one_that_it_always_was() -> None:
    flags = hidden_flags([f"{a}+{b}=" for a in range(4) for b in range(4)], 0.5)
    assert "".join("h" if flag else "p" for flag in flags) == "ppppphhppphpphph"


def test_case_spaces_and_width_do_not_make_another_question() -> None:
    others = [f"question {number}" for number in range(50)]
    flags = hidden_flags(["What is  1+1?", "what IS 1+1? ", "what is １+１？", *others], 0.5)
    assert len({*flags[:3]}) == 1


@pytest.mark.parametrize("questions", [[], ["one"], ["same", "Same ", "SAME"]])
def test_what_cannot_be_divided_is_refused(questions: list[str]) -> None:
    with pytest.raises(UsageError, match="cannot be divided"):
        hidden_flags(questions, 0.5)


def test_lone_surrogates_have_a_side_too() -> None:
    assert len(hidden_flags(["\ud800", "a", "b"], 0.5)) == 3


@pytest.mark.parametrize(
    "other", ["two\u200b plus two", "t\u00adwo plus two\ufeff", "\u202etwo\u00a0plus\u2060 two", "TWO  plus\ttwo"]
)
def test_what_nobody_can_see_makes_no_other_question(other: str) -> None:
    assert normal_question(other) == normal_question("two plus two") != normal_question("two plus three")

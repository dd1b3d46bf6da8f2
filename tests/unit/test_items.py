"""Which hidden items are scored, and which of them are feedback: properties that fair scores stand on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.domain.items import Item, Part, divide, feedback_size, select

IDS = st.lists(st.text(min_size=1, max_size=12), unique=True, min_size=1, max_size=80)
SHARES = st.floats(0, 1)


def items(ids: list[str]) -> list[Item]:
    return [Item(id=i, question=f"q{i}", answer="a") for i in ids]


@given(IDS, SHARES)
def test_every_item_is_in_exactly_one_part_and_the_sizes_are_fixed(ids: list[str], share: float) -> None:
    parts = divide(items(ids), share)
    assert parts.keys() == set(ids)
    n_feedback = sum(part is Part.FEEDBACK for part in parts.values())
    assert n_feedback == feedback_size(len(ids), share) <= share * len(ids)
    # There is always a headline.
    assert n_feedback < len(ids)


@given(IDS, st.randoms(use_true_random=False))
def test_order_decides_nothing(ids: list[str], random) -> None:
    shuffled = ids[:]
    random.shuffle(shuffled)
    assert divide(items(ids)) == divide(items(shuffled))
    assert select(items(ids), None) == select(items(shuffled), None)


@given(IDS)
def test_question_and_answer_decide_nothing(ids: list[str]) -> None:
    others = [Item(id=i, question="other", answer="other", extra={"n": 1}) for i in ids]
    assert divide(others) == divide(items(ids))
    assert [item.id for item in select(others, None)] == [item.id for item in select(items(ids), None)]


@given(IDS, st.text(min_size=1, max_size=12))
def test_another_item_moves_at_most_one_across_the_boundary(ids: list[str], new: str) -> None:
    before = divide(items(ids))
    after = divide(items([*ids, new])) if new not in before else before
    assert sum(before[i] is not after[i] for i in ids) <= 1


@given(IDS, SHARES, SHARES)
def test_a_larger_share_takes_feedback_items_away_from_none(ids: list[str], one: float, other: float) -> None:
    few, many = (divide(items(ids), share) for share in sorted((one, other)))
    assert all(many[i] is Part.FEEDBACK for i in ids if few[i] is Part.FEEDBACK)


@given(IDS, st.integers(1, 100), st.integers(1, 100))
def test_a_smaller_limit_selects_the_first_of_a_larger_one(ids: list[str], one: int, other: int) -> None:
    few, many = sorted((one, other))
    chosen = select(items(ids), many)
    assert select(items(ids), few) == chosen[:few]
    assert len(chosen) == min(many, len(ids))
    assert len({item.id for item in chosen}) == len(chosen)


@given(IDS)
def test_what_is_selected_does_not_follow_the_parts(ids: list[str]) -> None:
    # Both are ranks of a hash; with one salt for both, a limit would take one part only.
    parts = divide(items([f"{i}{k}" for i in ids for k in range(60)]))
    first = select(items(list(parts)), len(parts) // 2)
    n_feedback = sum(parts[item.id] is Part.FEEDBACK for item in first)
    assert 0.1 < n_feedback / len(first) < 0.9


def test_the_division_is_the_one_that_it_always_was() -> None:
    # Another salt would make scores of the same `task_protocol` incomparable: raise EVALUATORS_VERSION with it.
    parts = divide(items([f"item {n}" for n in range(12)]))
    assert "".join("f" if parts[f"item {n}"] is Part.FEEDBACK else "z" for n in range(12)) == "zfzfzfffzzfz"
    assert [item.id[5:] for item in select(items([f"item {n}" for n in range(12)]), 5)] == ["8", "2", "0", "4", "3"]

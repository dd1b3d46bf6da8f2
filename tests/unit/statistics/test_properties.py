"""Properties of the statistics for any scores at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.domain.scoring import Improvement, Score
from harness.statistics.intervals import score_of
from harness.statistics.paired import improvement_of, mcnemar_p_value
from harness.statistics.power import detectable_points, detection_power

BINARY = st.sampled_from([0.0, 1.0])
PARTIAL = st.floats(0, 1).map(lambda x: round(x, 6))
SCORES = st.lists(BINARY, min_size=1, max_size=40) | st.lists(PARTIAL, min_size=1, max_size=40)
NAMES = st.sampled_from(["", "a", "b", "c", "d"])
PAIRS = st.lists(st.tuples(BINARY, BINARY, NAMES), min_size=1, max_size=30) | st.lists(
    st.tuples(PARTIAL, PARTIAL, NAMES), min_size=1, max_size=30
)
Pair = tuple[float, float, str]
# The first example imports SciPy.
unhurried = settings(deadline=None)
bootstrapping = settings(deadline=None, max_examples=60)


def gain(pairs: list[Pair], *, is_clustered: bool = True) -> Improvement:
    after = {f"{k:03d}": pair[0] for k, pair in enumerate(pairs)}
    before = {f"{k:03d}": pair[1] for k, pair in enumerate(pairs)}
    return improvement_of(
        after, before, {f"{k:03d}": pair[2] for k, pair in enumerate(pairs)} if is_clustered else None
    )


def close(one: Score | Improvement, other: Score | Improvement) -> bool:
    return one.model_dump() == pytest.approx(other.model_dump(), abs=1e-6)


@unhurried
@given(SCORES, st.data())
def test_a_score_lies_in_its_interval_and_that_on_the_scale(scores: list[float], data: st.DataObject) -> None:
    clusters = data.draw(st.none() | st.lists(NAMES, min_size=len(scores), max_size=len(scores)))
    score = score_of(scores, clusters)
    assert score.low_pct is not None
    assert score.high_pct is not None
    assert -1e-9 <= score.low_pct <= score.score_pct + 1e-9
    assert score.score_pct - 1e-9 <= score.high_pct <= 100 + 1e-9
    assert score.high_pct - score.low_pct > 0
    assert score.stderr_pct >= 0


@unhurried
@given(SCORES, st.data(), st.randoms(use_true_random=False))
def test_order_of_items_does_not_matter(scores: list[float], data: st.DataObject, random) -> None:
    clusters = data.draw(st.lists(NAMES, min_size=len(scores), max_size=len(scores)))
    shuffled = list(zip(scores, clusters, strict=True))
    random.shuffle(shuffled)
    assert close(score_of(scores, clusters), score_of(*map(list, zip(*shuffled, strict=True))))


@unhurried
@given(SCORES)
def test_sources_of_one_item_each_are_no_clusters(scores: list[float]) -> None:
    assert close(score_of(scores, [f"source {k}" for k in range(len(scores))]), score_of(scores))


@unhurried
@given(SCORES)
def test_right_and_wrong_are_mirror_images(scores: list[float]) -> None:
    score, mirrored = score_of(scores), score_of([1 - s for s in scores])
    assert mirrored.low_pct is not None
    assert score.high_pct is not None
    assert mirrored.score_pct == pytest.approx(100 - score.score_pct)
    assert mirrored.stderr_pct == pytest.approx(score.stderr_pct, abs=1e-6)
    assert mirrored.low_pct == pytest.approx(100 - score.high_pct, abs=1e-6)


@unhurried
@given(st.integers(1, 200), st.data())
def test_one_more_right_item_moves_the_interval_up(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n - 1))
    fewer, more = (score_of([1.0] * right + [0.0] * (n - right)) for right in (k, k + 1))
    assert (fewer.low_pct or 0) < (more.low_pct or 0)
    assert (fewer.high_pct or 0) < (more.high_pct or 0)


@unhurried
@given(st.integers(1, 100), st.data())
def test_more_items_narrow_it(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    few = score_of([1.0] * k + [0.0] * (n - k))
    many = score_of(([1.0] * k + [0.0] * (n - k)) * 3)
    assert (many.high_pct or 0) - (many.low_pct or 0) < (few.high_pct or 0) - (few.low_pct or 0)


@bootstrapping
@given(PAIRS)
def test_an_improvement_lies_in_its_interval_and_that_on_the_scale(pairs: list[Pair]) -> None:
    found = gain(pairs)
    assert -100 - 1e-9 <= found.low <= found.points + 1e-9
    assert found.points - 1e-9 <= found.high <= 100 + 1e-9
    assert found.high - found.low > 0
    assert 0 <= (found.probability or 0) <= 1
    assert found.p_value is None or 0 < found.p_value <= 1
    assert (found.n_won or 0) + (found.n_lost or 0) + (found.n_tied or 0) == found.n_items == len(pairs)


@bootstrapping
@given(PAIRS)
def test_interval_and_probability_do_not_contradict_each_other(pairs: list[Pair]) -> None:
    found = gain(pairs)
    assert found.probability is not None
    if found.low > 1e-6:
        assert found.probability >= 0.974
    if found.high < -1e-6:
        assert found.probability <= 0.026


@bootstrapping
@given(PAIRS)
def test_what_one_gains_the_other_loses(pairs: list[Pair]) -> None:
    there, back = gain(pairs), gain([(before, after, name) for after, before, name in pairs])
    assert back.points == pytest.approx(-there.points, abs=1e-6)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-6)
    assert back.probability == pytest.approx(1 - (there.probability or 0), abs=1e-9)
    assert (back.p_value, back.seed, back.n_won) == (there.p_value, there.seed, there.n_lost)


@bootstrapping
@given(PAIRS, st.randoms(use_true_random=False))
def test_order_and_names_do_not_matter_to_an_improvement(pairs: list[Pair], random) -> None:
    shuffled = pairs[:]
    random.shuffle(shuffled)
    assert close(gain(shuffled), gain(pairs))


@bootstrapping
@given(PAIRS)
def test_sources_of_one_item_each_change_no_improvement(pairs: list[Pair]) -> None:
    alone = [(after, before, f"source {k}") for k, (after, before, _) in enumerate(pairs)]
    assert gain(alone) == gain(pairs, is_clustered=False)


@bootstrapping
@given(PAIRS)
def test_nothing_is_gained_on_itself(pairs: list[Pair]) -> None:
    found = gain([(after, after, name) for after, _, name in pairs])
    assert (found.points, found.probability, found.n_tied) == (0, 0.5, len(pairs))
    assert found.low < 0 < found.high


@unhurried
@given(st.integers(0, 60), st.integers(0, 60))
def test_p_value_is_symmetric_and_falls_with_each_item_won(won: int, lost: int) -> None:
    assert mcnemar_p_value(won, lost) == pytest.approx(mcnemar_p_value(lost, won))
    if won >= lost:
        assert mcnemar_p_value(won + 1, lost) <= mcnemar_p_value(won, lost) + 1e-12


@unhurried
@given(st.integers(5, 20_000), st.integers(1, 2_000))
def test_more_items_show_smaller_improvements(n: int, more: int) -> None:
    few, many = detectable_points(n), detectable_points(n + more)
    assert few is None or (many is not None and 0 < many <= few <= 100)


@unhurried
@given(st.integers(10, 5_000), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_more_disagreement_hides_a_gain(n: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    gain_ = low / 2
    if detection_power(n, gain_, high) >= 0.5:
        assert detection_power(n, gain_, low) >= detection_power(n, gain_, high) - 1e-9

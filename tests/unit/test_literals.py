"""What crosses between a check and a candidate: literals, exactly, and nothing that only looks like one."""

from __future__ import annotations

import enum
import json
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.executor import literals
from harness.executor.literals import NotLiteral, decode, dumps

HASHABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
    ),
    max_leaves=12,
)


def crossed(value: object) -> Any:
    return decode(json.loads(dumps(value)))


@given(VALUES)
def test_literals_arrive_as_they_are(value: object) -> None:
    # repr tells -0.0 from 0.0, True from 1, and nan from nothing; sets have no order of their own.
    assert crossed(value) == value or "nan" in repr(value)
    assert type(crossed(value)) is type(value)


def test_special_numbers_arrive_as_they_are() -> None:
    assert [repr(crossed(x)) for x in (-0.0, math.inf, -math.inf, 5e-324, 0.1, 10**40, -(2**53))] == [
        "-0.0",
        "inf",
        "-inf",
        "5e-324",
        "0.1",
        str(10**40),
        str(-(2**53)),
    ]
    assert math.isnan(crossed(math.nan))


def test_lone_surrogates_arrive_as_they_are() -> None:
    assert crossed("\ud800 \x00 \U0001f600") == "\ud800 \x00 \U0001f600"


class Opinionated(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Colour(enum.IntEnum):
    RED = 1


class Hiding(dict[str, int]):
    def items(self) -> Any:
        return [("other", 2)]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Opinionated("x"), "x"),
        (Colour.RED, 1),
        (Hiding(a=1), {"a": 1}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (namedtuple("Pair", "a b")(1, 2), (1, 2)),
    ],
)
def test_subclasses_become_plain(value: object, plain: object) -> None:
    assert crossed(value) == plain
    assert type(crossed(value)) is type(plain)


@pytest.mark.parametrize("value", [object(), print, (n for n in ()), range(3), Fraction(1, 2), {}.keys(), [object()]])
def test_what_is_no_literal_does_not_leave(value: object) -> None:
    with pytest.raises(NotLiteral):
        dumps(value)


def test_cycles_and_depth_have_an_end() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(NotLiteral):
        dumps(cycle)
    with pytest.raises(NotLiteral):
        dumps([0] * literals.MAX_NODES)


def nested(depth: int) -> Any:
    tree: Any = 0
    for _ in range(depth):
        tree = ["l", [tree]]
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"l": []},
        1.5,
        [],
        ["l"],
        ["l", 1],
        ["l", [], []],
        ["x", 1],
        [1, 2],
        [["l"], []],
        ["i", 5],
        ["i", "zz"],
        ["i", "f" * 200_000],
        ["f", "one"],
        ["f", 1],
        ["b", "0"],
        ["c", "1"],
        ["c", 1, 2],
        ["d", [[1]]],
        ["d", [1]],
        ["d", [[["l", []], 1]]],
        ["s", [["l", []]]],
        ["s", list(range(literals.MAX_HASHED + 1))],
        ["d", [[k, 0] for k in range(literals.MAX_HASHED + 1)]],
        ["l", [["s", list(range(3_000))], ["z", list(range(3_000))]]],
        ["l", [0] * literals.MAX_NODES],
        nested(literals.MAX_DEPTH + 1),
    ],
    ids=lambda tree: json.dumps(tree)[:30],
)
def test_what_is_in_no_form_or_beyond_a_bound_does_not_arrive(tree: Any) -> None:
    with pytest.raises(NotLiteral):
        decode(tree)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from("ifcbltszd"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=20,
)
PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)


@given(JSON)
def test_any_tree_is_a_plain_value_or_refused(tree: Any) -> None:
    try:
        value = decode(tree)
    except NotLiteral:
        return
    waiting = [value]
    while waiting:
        part = waiting.pop()
        assert type(part) in PLAIN
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            waiting += part

"""Reading a log again after a break loses and repeats nothing, and a log that was rotated meanwhile is seen to be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.log_stream import LogPosition, Rotated

texts = st.lists(st.binary(min_size=1, max_size=4), max_size=30)


def stamped(texts):
    """As Docker sends them; all pieces of a line carry one stamp."""
    return [b"2026-01-01T00:00:%02d.5Z " % (number // 2) + text for number, text in enumerate(texts)]


@given(texts, st.lists(st.integers(0, 30), max_size=4))
def test_a_log_read_with_breaks_is_whole(texts, breaks):
    position, pieces, found = LogPosition(), stamped(texts), b""
    for cut in (*breaks, len(pieces)):
        position.rewind()
        found += b"".join(position.take(piece) for piece in pieces[:cut])
    assert found == b"".join(texts)
    assert position.is_at(pieces[-1] if pieces else b"")


def test_a_log_whose_start_is_gone_is_not_counted_on():
    position, pieces = LogPosition(), stamped([b"a", b"b", b"c", b"d"])
    assert position.take(pieces[0]) == b"a"
    position.rewind()
    with pytest.raises(Rotated):
        position.take(pieces[2])


def test_a_stream_that_ended_early_is_seen_by_the_last_piece():
    position, pieces = LogPosition(), stamped([b"same\n"] * 4)
    for piece in pieces[:2]:
        position.take(piece)
    assert position.is_at(pieces[1])
    assert not position.is_at(pieces[3])

"""Reading a log again after a break loses and repeats nothing."""

from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.log_stream import LogPosition


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_a_log_read_with_breaks_is_whole(pieces, breaks):
    position, found = LogPosition(), b""
    for cut in (*breaks, len(pieces)):
        position.rewind()
        found += b"".join(position.take(piece) for piece in pieces[:cut])
    assert found == b"".join(pieces)

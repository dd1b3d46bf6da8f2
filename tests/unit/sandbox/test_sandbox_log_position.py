"""Reading a log again from a second back loses and repeats nothing."""

from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.log_stream import LogPosition


def piece(second, number, text):
    return b"2026-01-01T00:00:%02d.%09dZ " % (second, number) + text


def test_text_comes_without_its_stamp():
    assert LogPosition().take(piece(1, 5, b"a line with spaces\n")) == b"a line with spaces\n"


def test_the_first_reading_starts_at_the_beginning():
    position = LogPosition()
    assert position.since is None
    position.take(piece(7, 1, b"x"))
    assert position.since == 1767225607


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30), st.data())
def test_a_log_read_in_two_goes_is_whole(stamps, data):
    pieces = [piece(second, number, b"%d\n" % index) for index, (second, number) in enumerate(stamps)]
    cut = data.draw(st.integers(0, len(pieces)))
    position = LogPosition()
    found = [position.take(part) for part in pieces[:cut]]
    since = position.since
    position.rewind()
    again = [part for part in pieces if since is None or int(part[17:19]) >= since - 1767225600]
    found += [position.take(part) for part in again]
    assert b"".join(found) == b"".join(b"%d\n" % index for index in range(len(pieces)))

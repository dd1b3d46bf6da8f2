"""How often a run's services may be started, and how soon again."""

import pytest

from harness.errors import ServiceUnavailable
from harness.runner.service_starts import FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S, MAX_STARTS, ServiceStarts


def test_the_first_start_is_at_once_and_later_ones_wait_longer_and_longer() -> None:
    starts, now, waits = ServiceStarts(), 0.0, []
    for used in range(12):
        begun = now
        while not starts.is_due(now):
            now += 0.25
        waits.append(now - begun)
        starts.begin(now, uses=used, is_proven=True)
    assert waits[:4] == [0, FIRST_BACK_OFF_S, 2 * FIRST_BACK_OFF_S, 4 * FIRST_BACK_OFF_S]
    assert waits[-1] == LONGEST_BACK_OFF_S


def test_a_result_ends_the_waiting() -> None:
    starts = ServiceStarts()
    for used in range(5):
        starts.begin(0.0, uses=used, is_proven=True)
    starts.has_result()
    assert starts.is_due(0.0)


@pytest.mark.parametrize(("uses_per_start", "is_proven"), [(0, True), (1, False)])
def test_starts_that_were_of_no_use_or_are_not_proven_are_counted(uses_per_start: int, is_proven: bool) -> None:
    starts = ServiceStarts()
    for n in range(MAX_STARTS):
        assert not starts.is_last
        starts.begin(0.0, uses=uses_per_start * n, is_proven=is_proven)
    assert starts.is_last
    with pytest.raises(ServiceUnavailable, match="in a row"):
        starts.begin(0.0, uses=uses_per_start * MAX_STARTS, is_proven=is_proven)


def test_any_number_of_starts_that_were_of_use_is_allowed() -> None:
    starts = ServiceStarts()
    for n in range(10 * MAX_STARTS):
        starts.begin(0.0, uses=n, is_proven=True)
        assert not starts.is_last

"""When a run's scoring services may be started again, and when there is no sense in it any more.

What an agent hands in may end the engine as often as it likes, by `/submit` or `/validate`: that must never void its
run. So a start counts only if nobody got any use of it, or if what ended it was the base model.
"""

from __future__ import annotations

from harness.errors import ServiceUnavailable

MAX_STARTS = 4
FIRST_BACK_OFF_S = 1.0
LONGEST_BACK_OFF_S = 30.0


class ServiceStarts:
    """The starts of one run's services, as the process that makes them sees them."""

    def __init__(self) -> None:
        self._in_vain = self._since_result = self._uses = 0
        self._next_at: float | None = None

    @property
    def in_vain(self) -> int:
        """How many in a row count, the one that was begun last among them."""
        return self._in_vain

    @property
    def is_last(self) -> bool:
        """Whether none is allowed after this one, should it come to nothing."""
        return self._in_vain >= MAX_STARTS

    def has_result(self) -> None:
        """Something was scored or judged: what dies next is started at once."""
        self._since_result, self._next_at = 0, None

    def is_due(self, now: float) -> bool:
        """Whether the next start need not wait any longer at `now` (monotonic)."""
        return self._next_at is None or now >= self._next_at

    def begin(self, now: float, *, uses: int, is_proven: bool) -> None:
        """Counts a start. `uses`: the grader's count of how often it found the services up.

        Raises:
            ServiceUnavailable: too many in a row came to nothing.
        """
        was_of_use, self._uses = uses != self._uses, uses
        self._in_vain = 1 if was_of_use and is_proven else self._in_vain + 1
        if self._in_vain > MAX_STARTS:
            raise ServiceUnavailable(
                f"the scoring services came to nothing {MAX_STARTS} times in a row", "`harness logs` shows why."
            )
        self._next_at = now + min(LONGEST_BACK_OFF_S, FIRST_BACK_OFF_S * 2**self._since_result)
        # Bounded, so that the power stays one that a float can hold.
        self._since_result = min(self._since_result + 1, 30)

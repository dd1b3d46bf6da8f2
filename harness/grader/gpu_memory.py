"""An engine that finds too little GPU memory: waited for a while, then the submission is refused and uses no quota."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from loguru import logger

from harness.errors import ErrorClass, NoGpuMemory, Unready

POLL_S = 3.0
RETRY_AFTER_S = 30.0

T = TypeVar("T")


def with_memory(work: Callable[[], T], wait_s: float, pause: Callable[[float], None]) -> T:
    """The result of `work`, tried again while GPU memory is short: a process that held it may just be ending.

    Raises:
        NoGpuMemory: it is still short after `wait_s`.
    """
    short_since: float | None = None
    while True:
        try:
            return work()
        except NoGpuMemory as error:
            now = time.monotonic()
            short_since = now if short_since is None else short_since
            left_s = short_since + wait_s - now
            if left_s <= 0:
                raise
            logger.warning("{}; waiting for it", error.what)
            pause(min(POLL_S, left_s))


def refused(what: str, submission_id: int | None = None) -> Unready:
    """What the agent is told: `what` is the shortage in numbers."""
    return Unready(
        what,
        "End your processes that hold GPU memory (nvidia-smi shows them), then hand in again: this used no quota.",
        error_class=ErrorClass.NO_GPU_MEMORY,
        retry_after_s=RETRY_AFTER_S,
        submission_id=submission_id,
    )

"""Keeps a run's scoring services up while the grader has work for them."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.domain.admin import RunStatus
from harness.errors import ServiceUnavailable
from harness.runner.objects import RunObjects
from harness.runner.service_starts import ServiceStarts


class ServiceKeeper:
    """`note` gets the number of each start for the record, `say` what a person is told."""

    def __init__(self, objects: RunObjects, note: Callable[[int], None], say: Callable[[str], None]) -> None:
        self._objects = objects
        self._note = note
        self._say = say
        self._starts = ServiceStarts()
        self._judged = 0

    def keep(self, status: RunStatus) -> None:
        """Starts them if they are not up and their next start is due; called while the grader needs them.

        Raises:
            ServiceUnavailable: too many starts came to nothing.
        """
        judged = len(status.submissions) - status.open_submissions
        if judged != self._judged:
            self._starts.has_result()
        self._judged = judged
        if self._objects.has_services() or not self._starts.is_due(time.monotonic()):
            return
        self._starts.begin(time.monotonic(), uses=status.service_uses, is_proven=status.baseline is not None)
        self._say("starting the scoring services")
        self._note(self._starts.in_vain)
        try:
            self._objects.start_services()
        except ServiceUnavailable as error:
            if self._starts.is_last:
                raise
            self._say(f"once more: {error.what}")

"""Answers of the grader that RD-Agent did not wait for: its own request ends after 600 s, the scoring does not."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

FINAL_STATES = ("scored", "rejected", "failed")
POLL_S = 10.0
REQUEST_TIMEOUT_S = 60


def submissions(url: str) -> list[dict[str, Any]]:
    """This run's submissions, the oldest first; none where the grader does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/submissions", timeout=REQUEST_TIMEOUT_S) as reply:
            found: list[dict[str, Any]] = json.load(reply)["submissions"]
    except (OSError, ValueError, KeyError):
        return []
    return sorted(found, key=lambda one: int(one["submission_id"]))


def late_reply(
    known: int,
    ask: Callable[[], list[dict[str, Any]]],
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any] | None:
    """What became of the first submission after `known` ones, once that is final; None if there is none."""
    while len(found := ask()) > known:
        one = found[known]
        if one["state"] in FINAL_STATES:
            return one["reply"] or {key: one[key] for key in ("submission_id", "state", "error", "detail")}
        pause(POLL_S)
    return None

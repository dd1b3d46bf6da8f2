"""What RD-Agent does not wait for: a score that takes longer than its request's 600 s, and a quota that is used up."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

FINAL_STATES = ("scored", "rejected", "failed")
POLL_S = 10.0
REQUEST_TIMEOUT_S = 60
# A submission is answered when the checkpoint has been copied.
COPY_TIMEOUT_S = 900


class QuotaSpent(Exception):
    """The run takes no more submissions in the time that is left."""


def submit(url: str, model_path: str, pause: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """Hands a checkpoint in as soon as the quota allows it; the grader's answer, which comes before the score.

    Raises:
        QuotaSpent: it never will.
        OSError: the grader does not answer.
    """
    body = json.dumps({"model_path": model_path}).encode()
    request = urllib.request.Request(f"{url}/submit?wait=false", body, {"Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=COPY_TIMEOUT_S) as reply:
                return _object(reply.read())
        except urllib.error.HTTPError as error:
            told = _object(error.read())
            if told.get("error_class") != "over_quota":
                return told
            waiting_s = float(error.headers.get("Retry-After", "inf"))
            if waiting_s >= _remaining_s(url):
                raise QuotaSpent(told["error"]) from error
            pause(waiting_s)


def _remaining_s(url: str) -> float:
    with urllib.request.urlopen(f"{url}/time", timeout=REQUEST_TIMEOUT_S) as reply:
        return float(_object(reply.read())["remaining"])


def _object(raw: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(raw)
    return value


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

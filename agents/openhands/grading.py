"""Client of the grading server for one submission at a time: hands a checkpoint in and waits for its score."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

REQUEST_TIMEOUT_S = 60.0
# A submission is answered when its checkpoint has been copied.
COPY_TIMEOUT_S = 1800.0
POLL_S = 2.0
PAUSE_S = 5.0
FINAL_STATES = ("scored", "rejected", "failed")
# Too soon, and a server that is busy or starts again: both pass.
PASSING = (429, 503)


class Refused(Exception):
    """The server does not take the submission; the message is its reason, as JSON."""


class Spent(Refused):
    """The run's submissions are used up, at least until its end."""


class Grader:
    """One run's grading server. `sleep` is what waits; no wait goes beyond the run's end."""

    def __init__(self, url: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self.url, self.sleep = url.rstrip("/"), sleep

    def remaining_s(self) -> float:
        """Seconds until the run's deadline."""
        return float(self._persistent("GET", "/time")["remaining"])

    def score(self, model_path: str) -> dict[str, Any]:
        """Submits a checkpoint and returns what the server says of it in the end: a reply with `score`, or an error.

        Raises:
            Refused: it was not taken, or its evaluation outlasts the run.
            Spent: and no other will be.
        """
        number = self._submit(model_path)
        while True:
            state = self._persistent("GET", f"/submissions/{number}")
            if state["state"] in FINAL_STATES:
                told = {key: state[key] for key in ("error", "detail", "error_class") if state.get(key)}
                return dict(state.get("reply") or {"submission_id": number, "score": None, **told})
            if self.remaining_s() < POLL_S:
                raise Refused(f"submission {number} was not scored before the end")
            self.sleep(POLL_S)

    def _submit(self, model_path: str) -> int:
        """The submission's number; waits where the server says that it will take it later."""
        while True:
            try:
                body = self._call("POST", "/submit?wait=false", {"model_path": model_path}, COPY_TIMEOUT_S)
                return int(body["submission_id"])
            except urllib.error.HTTPError as error:
                reason = error.read().decode(errors="replace")
                if error.code == 409:  # the same weights are there already
                    return int(json.loads(reason)["submission_id"])
                pause_s = _pause_s(error)
                if error.code not in PASSING:
                    raise Refused(reason) from error
                if pause_s is None or pause_s >= self.remaining_s():
                    raise (Spent if error.code == 429 else Refused)(reason) from error
            except OSError:
                pause_s = PAUSE_S  # a lost answer: if the submission was taken, the next try is a 409
            self.sleep(pause_s)

    def _persistent(self, method: str, path: str) -> dict[str, Any]:
        """A question that is asked until it is answered: the server may start again."""
        while True:
            try:
                return self._call(method, path, None, REQUEST_TIMEOUT_S)
            except urllib.error.HTTPError as error:
                if error.code not in PASSING:
                    raise Refused(error.read().decode(errors="replace")) from error
            except OSError:
                pass
            self.sleep(PAUSE_S)

    def _call(self, method: str, path: str, body: dict[str, Any] | None, timeout_s: float) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, method=method, data=data, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            return dict(json.load(reply))


def _pause_s(error: urllib.error.HTTPError) -> float | None:
    """When to try again; `None` where a quota is used up and no waiting helps."""
    told = error.headers.get("Retry-After")
    if told is not None:
        return max(1.0, float(told))
    return None if error.code == 429 else PAUSE_S

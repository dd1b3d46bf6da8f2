"""Client of the grading server: the time left, submitting a checkpoint, reading its score."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

ATTEMPTS = 6
REQUEST_TIMEOUT_S = 60
COPY_TIMEOUT_S = 900  # a submission is answered when the checkpoint has been copied
FINAL_STATES = ("scored", "rejected", "failed")


class Refused(Exception):
    """The server answered, and the answer is no."""


class Grader:
    """One run's grading server; every call is bounded in time and number of attempts."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        # Counted on this machine's monotonic clock, from what the server said once.
        self.deadline = time.monotonic() + float(self._call("GET", "/time")["remaining"])

    def remaining_s(self) -> float:
        """Seconds until the run's deadline."""
        return self.deadline - time.monotonic()

    def submit(self, checkpoint: Path) -> int:
        """Hands in a checkpoint folder and returns its submission id at once; scoring goes on at the server.

        Raises:
            Refused: the server does not take it (its reason is the message), or the time is up.
        """
        body = {"model_path": str(checkpoint)}
        return int(self._call("POST", "/submit?wait=false", body)["submission_id"])

    def state(self, submission_id: int) -> dict:
        """What the server knows of a submission: `state`, and `reply` once there is one."""
        return self._call("GET", f"/submissions/{submission_id}")

    def wait(self, submission_id: int, keep_s: float) -> dict:
        """The submission's state once it is final, or as it is when only `keep_s` of the run's time are left."""
        while True:
            state = self.state(submission_id)
            if state["state"] in FINAL_STATES or self.remaining_s() <= keep_s:
                return state
            time.sleep(min(1.0, max(0.0, self.remaining_s() - keep_s)))

    def _call(self, method: str, path: str, body: dict | None = None) -> dict:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(method, path, body)
            except urllib.error.HTTPError as error:
                reason = error.read().decode(errors="replace")
                if error.code == 409:  # the same bytes are there already: a reply to an earlier attempt got lost
                    return json.loads(reason)
                if error.code not in (429, 503):
                    raise Refused(f"HTTP {error.code}: {reason}") from error
                pause = float(error.headers.get("Retry-After") or 2 * attempt)
            except (urllib.error.URLError, OSError) as error:
                reason, pause = str(error), 2.0 * attempt
            has_time = not hasattr(self, "deadline") or pause < self.remaining_s()
            print(f"grader: {method} {path}: {reason}; attempt {attempt} of {ATTEMPTS}")
            if attempt == ATTEMPTS or not has_time:
                raise Refused(reason)
            time.sleep(pause)
        raise AssertionError("not reached")

    def _once(self, method: str, path: str, body: dict | None) -> dict:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        limit = COPY_TIMEOUT_S if method == "POST" else REQUEST_TIMEOUT_S
        with urllib.request.urlopen(request, timeout=limit) as reply:
            return json.load(reply)

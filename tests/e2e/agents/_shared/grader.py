"""The grader's HTTP API, for agents of the tests: every answer as plain data, whatever comes back."""

import http.client
import json
import os
import time
from typing import Any
from urllib.parse import urlsplit

URL = urlsplit(os.environ["GRADING_SERVER_URL"])
HOST, PORT, PREFIX = URL.hostname or "", URL.port or 80, URL.path
KEPT_CHARACTERS = 2000

Answer = dict[str, Any]


def call(
    method: str,
    path: str,
    body: Any = None,
    *,
    prefix: str = PREFIX,
    headers: dict[str, str] | None = None,
    host: str = HOST,
    timeout_s: float = 120,
) -> Answer:
    """One request; `body` is sent as it is if it is bytes, else as JSON. Status 0: no answer came."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    begin = time.monotonic()
    link = http.client.HTTPConnection(host, PORT, timeout=timeout_s)
    try:
        link.request(method, prefix + path, body=data, headers={"Content-Type": "application/json", **(headers or {})})
        reply = link.getresponse()
        status, text = reply.status, reply.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return {"status": 0, "body": repr(error), "seconds": time.monotonic() - begin}
    finally:
        link.close()
    try:
        told = json.loads(text)
    except ValueError:
        told = text[:KEPT_CHARACTERS]
    return {"status": status, "body": told, "seconds": round(time.monotonic() - begin, 3)}


def submit(model_path: str) -> Answer:
    return call("POST", "/submit", {"model_path": model_path})


def validate(model_path: str) -> Answer:
    return call("POST", "/validate", {"model_path": model_path})

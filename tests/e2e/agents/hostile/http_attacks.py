"""Requests that are broken, huge, slow or many."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

from grader import HOST, PORT, PREFIX, Answer, call
from submissions import ten_million_json

CONNECTIONS = 200
HELD_S = 3.0


def no_json(targets: Answer) -> Answer:
    return call("POST", "/submit", b"model_path=output/honest")


def no_utf8(targets: Answer) -> Answer:
    return call("POST", "/submit", b'{"model_path": "\xff\xfe"}')


def lone_surrogate(targets: Answer) -> Answer:
    return call("POST", "/submit", b'{"model_path": "output/\\ud800"}')


def nested_deeply(targets: Answer) -> Answer:
    return call("POST", "/submit", b'{"model_path":' + b"[" * 30_000 + b"]" * 30_000 + b"}")


def ten_million_keys(targets: Answer) -> Answer:
    return call("POST", "/submit", ten_million_json())


def huge_numbers(targets: Answer) -> Answer:
    return call("POST", "/submit", b'{"model_path": "output/none", "gpu": ' + b"9" * 60_000 + b"}")


def unknown_method(targets: Answer) -> Answer:
    return call("BREW", "/submit", b"{}")


def other_runs_submission(targets: Answer) -> Answer:
    """Numbers count per run: a large one is another run's at most."""
    return call("GET", "/submissions/100000")


def number_too_large(targets: Answer) -> Answer:
    return call("GET", "/submissions/" + "9" * 400)


def _raw(data: bytes) -> Answer:
    with socket.create_connection((HOST, PORT), timeout=30) as link:
        try:
            link.sendall(data)
            return {"status": int((link.recv(4096) or b"x 0").split()[1]), "body": {}}
        except (OSError, ValueError, IndexError) as error:
            return {"status": 0, "body": repr(error)}


def huge_head(targets: Answer) -> Answer:
    return _raw(b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n")


def no_http(targets: Answer) -> Answer:
    return _raw(b"\x16\x03\x01" + bytes(range(256)) * 8 + b"\r\n\r\n")


def two_lengths(targets: Answer) -> Answer:
    """Request smuggling: two headers that disagree about the body."""
    head = f"POST {PREFIX}/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    return _raw(head.encode() + b"0\r\n\r\nGET /runs HTTP/1.1\r\nHost: x\r\n\r\n")


def slow_connections(targets: Answer) -> Answer:
    """Many connections that send half a request; then this run's own clock must still be had."""
    links = []
    try:
        for _ in range(CONNECTIONS):
            link = socket.create_connection((HOST, PORT), timeout=5)
            links.append(link)
            link.sendall(b"GET /r/x/time HTTP/1.1\r\nHost:")
    except OSError:
        pass
    held = len(links)
    time.sleep(HELD_S)
    for link in links:
        link.close()
    time.sleep(0.5)
    return {"held": held, "after": call("GET", "/time")}


def many_requests(targets: Answer) -> Answer:
    """More requests at once than a run may have open; each is answered."""
    with ThreadPoolExecutor(max_workers=40) as pool:
        answers = list(pool.map(lambda _: call("POST", "/validate", {"model_path": "output/honest"}), range(40)))
        statuses = sorted(answer["status"] for answer in answers)
    return {"statuses": statuses}


REQUESTS = (
    no_json,
    no_utf8,
    lone_surrogate,
    nested_deeply,
    ten_million_keys,
    huge_numbers,
    unknown_method,
    other_runs_submission,
    number_too_large,
    huge_head,
    no_http,
    two_lengths,
)

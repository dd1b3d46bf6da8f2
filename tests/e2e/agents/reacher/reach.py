"""Tries to get out: straight, through the proxy as it is meant, and through the proxy as it is not."""

from __future__ import annotations

import base64
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

PROXY = urlsplit(os.environ["HTTPS_PROXY"])
ALLOWED = "nowhere.invalid"


def met(attempt: Callable[[], str]) -> str:
    """What came of an attempt, in a word or two."""
    try:
        return attempt()
    except urllib.error.URLError as error:
        return str(error.reason)
    except OSError as error:
        return type(error).__name__


def straight(host: str, port: int) -> str:
    with socket.create_connection((host, port), timeout=5):
        return "connected"


def asked(head: str, token: str | None = PROXY.password) -> str:
    """The proxy's answer to the first line of a request."""
    word = base64.b64encode(f"run:{token}".encode()).decode()
    with socket.create_connection((PROXY.hostname or "", PROXY.port or 0), timeout=30) as proxy:
        lines = [head, "Host: x", *([f"Proxy-Authorization: Basic {word}"] if token is not None else [])]
        proxy.sendall("\r\n".join([*lines, "", ""]).encode())
        return proxy.recv(1000).decode().split(" ")[1]


def fetched(url: str) -> str:
    """What a client makes of a URL that takes its proxy from the environment."""
    with urllib.request.urlopen(url, timeout=60) as reply:
        return str(reply.status)


def main() -> None:
    gateway = socket.gethostbyname("gateway")
    found = {
        "straight name": met(lambda: straight("pypi.org", 443)),
        "straight address": met(lambda: straight("1.1.1.1", 443)),
        "gateway, port 443": met(lambda: straight(gateway, 443)),
        "client, allowed": met(lambda: fetched(f"https://{ALLOWED}/")),
        "client, other": met(lambda: fetched("https://example.org/")),
        "client, grader": met(lambda: fetched(f"{os.environ['GRADING_SERVER_URL']}/time")),
        "allowed": met(lambda: asked(f"CONNECT {ALLOWED}:443 HTTP/1.1")),
        "other port": met(lambda: asked(f"CONNECT {ALLOWED}:80 HTTP/1.1")),
        "address": met(lambda: asked("CONNECT 1.1.1.1:443 HTTP/1.1")),
        "grader by proxy": met(lambda: asked("CONNECT grader:443 HTTP/1.1")),
        "plain": met(lambda: asked(f"GET http://{ALLOWED}/ HTTP/1.1")),
        "no token": met(lambda: asked(f"CONNECT {ALLOWED}:443 HTTP/1.1", None)),
        "wrong token": met(lambda: asked(f"CONNECT {ALLOWED}:443 HTTP/1.1", "x" * 43)),
    }
    report = Path(os.environ["WORKSPACE"]) / "code" / "report.json"
    report.write_text(json.dumps({"found": found, "offline": os.environ["HF_HUB_OFFLINE"]}))


if __name__ == "__main__":
    main()

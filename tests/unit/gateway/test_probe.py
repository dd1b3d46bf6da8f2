"""What providers answer when they are asked for their models, and what is made of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.domain.llm import PROVIDERS, ModelList, Provider
from harness.gateway import probe
from harness.gateway.config import Upstream
from harness.gateway.probe import ask, models_in

KEY = "provider-key-0123456789"


class Server:
    """Answers every GET with `status` and `body`, and keeps what it was asked."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        server = self
        self.asked: list[tuple[str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Not into the tests' output."""

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"


@contextmanager
def serving(status: int = 200, body: Any = None, **headers: str) -> Iterator[Server]:
    server = Server(status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join(5)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    (tmp_path / "key").write_text(KEY)
    return tmp_path / "key"


def answer(provider: Provider, server: Server, key_file: Path | None) -> ModelList:
    return ask(provider, Upstream(url=server.url, key_file=key_file))


LISTS: dict[Provider, tuple[Any, str, tuple[str, str]]] = {
    "openai": ({"data": [{"id": "a"}, {"id": "b"}]}, "/models", ("authorization", f"Bearer {KEY}")),
    "anthropic": ({"data": [{"id": "a"}, {"id": "b"}]}, "/v1/models?limit=1000", ("x-api-key", KEY)),
    "gemini": (
        {
            "models": [
                {"name": "models/a", "supportedGenerationMethods": ["generateContent"]},
                {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]},
                {"name": "models/b"},
            ]
        },
        "/v1beta/models?pageSize=1000",
        ("x-goog-api-key", KEY),
    ),
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_provider_is_asked_in_its_own_way(provider: Provider, key_file: Path) -> None:
    body, path, (header, value) = LISTS[provider]
    with serving(body=body) as server:
        assert answer(provider, server, key_file) == ModelList(provider=provider, status="ok", models=("a", "b"))
        ((asked, headers),) = server.asked
    assert asked == path
    assert headers[header] == value
    if provider == "anthropic":
        assert "anthropic-version" in headers


def test_without_a_key_none_is_sent() -> None:
    with serving(body={"data": []}) as server:
        assert answer("openai", server, None).status == "ok"
        assert "authorization" not in server.asked[0][1]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"error": {"message": "bad key"}}, "key_refused"),
        (403, b"<html>no</html>", "key_refused"),
        (400, {"error": {"message": "API key not valid."}}, "key_refused"),
        (400, {"error": {"message": "something"}}, "failed"),
        (404, {"detail": "Not Found"}, "no_such_route"),
        (405, b"", "no_such_route"),
        (500, b"oops", "failed"),
        (200, b"<html>hello</html>", "failed"),
        (200, b"[1, 2]", "failed"),
        (200, b"\xff\xfe", "failed"),
    ],
)
def test_statuses_are_told_apart(status: int, body: Any, said: str, key_file: Path) -> None:
    with serving(status, body) as server:
        found = answer("openai", server, key_file)
    assert found.status == said
    assert found.error.startswith(f"{status}: ")


def test_a_redirect_is_not_followed(key_file: Path) -> None:
    with serving(body={"data": []}) as other, serving(302, b"", location=other.url) as server:
        assert answer("openai", server, key_file).status == "failed"
        assert other.asked == []


def test_nobody_there_is_unreachable(key_file: Path) -> None:
    with serving() as server:
        url = server.url
    assert ask("openai", Upstream(url=url, key_file=key_file)).status == "unreachable"
    assert ask("openai", Upstream(url=url.replace("http:", "https:"))).status == "unreachable"


def test_the_key_is_not_in_what_is_told(key_file: Path) -> None:
    said = f"Incorrect API key provided: {KEY}. And Bearer {KEY}"
    for body in ({"error": {"message": said}}, said.encode()):
        with serving(401, body) as server:
            assert KEY not in answer("openai", server, key_file).model_dump_json()


def test_an_endless_list_is_given_up(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "MAX_BYTES", 1000)
    with serving(body={"data": [{"id": "a" * 2000}]}) as server:
        assert answer("openai", server, key_file).status == "failed"
    monkeypatch.setattr(probe, "TOTAL_S", -1)
    with serving(body={"data": []}) as server:
        assert answer("openai", server, key_file).status == "failed"


def test_only_what_can_be_a_name_is_a_model() -> None:
    rows = [
        {"id": "ok"},
        {"id": "ok"},
        {"id": "two\nlines"},
        {"id": "../x"},
        {"id": 3},
        {"name": None},
        7,
        {"id": "x" * 300},
    ]
    assert models_in({"data": rows}) == ("ok",)
    assert models_in({"data": "none"}) == ()
    assert models_in({}) == ()
    assert len(models_in({"data": [{"id": f"m{n}"} for n in range(9000)]})) == probe.MAX_MODELS


def test_a_name_that_no_list_has_is_looked_up(key_file: Path) -> None:
    with serving(body={"data": [{"id": "long-2026-01-01"}]}) as server:
        upstream = Upstream(url=server.url, key_file=key_file)
        found = ask("openai", upstream, ("long-2026-01-01", "long", "org/name", "../secret", "a b"))
        assert found.models == ("long-2026-01-01", "long", "org/name")
        assert [path for path, _ in server.asked] == ["/models", "/models/long", "/models/org/name"]
        assert all(headers["authorization"] == f"Bearer {KEY}" for _, headers in server.asked)

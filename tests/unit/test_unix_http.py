"""Requests over a unix socket: long paths, deadlines, caps, services that are absent or break off."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, StreamingResponse
from served import served

from harness.errors import ServiceUnavailable
from harness.inference.wire import LoadRequest
from harness.unix_http import UnixHttp, encode
from harness.unix_socket import MAX_PATH_BYTES, listen


@pytest.fixture
def app() -> FastAPI:
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> PlainTextResponse:
        return PlainTextResponse((await request.body()).decode())

    @app.get("/flood")
    def flood() -> StreamingResponse:
        return StreamingResponse(b"x" * 1_000 for _ in range(1_000))

    @app.get("/slow")
    async def slow() -> None:
        import asyncio

        await asyncio.sleep(30)

    @app.get("/broken")
    def broken() -> StreamingResponse:
        def content() -> Iterator[bytes]:
            yield b"half"
            raise OSError("gone")

        return StreamingResponse(content(), headers={"Content-Length": "100"})

    return app


def test_request_goes_and_comes_back(app: FastAPI, tmp_path: Path) -> None:
    with served(app, tmp_path / "s.sock"):
        reply = UnixHttp(tmp_path / "s.sock", "test").request(
            "POST", "/echo", 5, LoadRequest(path="ä \ud800", limit_s=9)
        )
    assert (reply.status, reply.body.decode()) == (200, '{"path":"ä ?","limit_s":9.0}')


def test_a_path_longer_than_a_socket_address_works(app: FastAPI, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    assert len(str(folder)) > MAX_PATH_BYTES
    with served(app, folder / "s.sock"):
        assert UnixHttp(folder / "s.sock", "test").request("POST", "/echo", 5).status == 200


def test_listen_replaces_a_dead_socket_and_sets_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    listen(path, 0o600).close()
    with listen(path, 0o666):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_no_socket_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable, match="the test service"):
        UnixHttp(tmp_path / "s.sock", "test").request("GET", "/", 5)


def test_no_folder_of_a_long_path_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable):
        UnixHttp(tmp_path / ("long" * 40) / "s.sock", "test").request("GET", "/", 5)


def test_too_slow_is_unavailable(app: FastAPI, tmp_path: Path) -> None:
    with served(app, tmp_path / "s.sock"), pytest.raises(ServiceUnavailable, match=r"within 0\.2 s"):
        UnixHttp(tmp_path / "s.sock", "test").request("GET", "/slow", 0.2)


def test_a_flood_is_cut_off(app: FastAPI, tmp_path: Path) -> None:
    with served(app, tmp_path / "s.sock"), pytest.raises(ServiceUnavailable, match="more than 5000 bytes"):
        UnixHttp(tmp_path / "s.sock", "test", max_reply_bytes=5_000).request("GET", "/flood", 5)


def test_a_reply_that_breaks_off_is_unavailable(app: FastAPI, tmp_path: Path) -> None:
    with served(app, tmp_path / "s.sock"), pytest.raises(ServiceUnavailable):
        UnixHttp(tmp_path / "s.sock", "test").request("GET", "/broken", 5)


def test_encode_keeps_unicode_and_replaces_lone_surrogates() -> None:
    assert encode({"a": "日本\udfff"}) == '{"a":"日本?"}'.encode()

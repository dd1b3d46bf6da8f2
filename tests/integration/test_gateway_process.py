"""The gateway as a process between a client and a provider, both on loopback."""

from __future__ import annotations

import contextlib
import gzip
import json
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard
from gateway_process import TOKEN, GatewayProcess
from llm_streams import CHAT_STREAM, STREAMS, WHOLE
from llm_upstream import KEY, TOGETHER, Upstream, upstream
from served import wait_until

from harness.domain.llm import LlmBudget

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def provider() -> Iterator[Upstream]:
    with upstream() as provider:
        yield provider


@pytest.fixture(scope="module")
def gateway(provider: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), provider.url, call_s=60, retry_s=3)
    process.start()
    yield process
    assert process.end() == 0
    assert KEY.encode() not in process.kept_bytes()
    assert TOKEN.encode() not in process.kept_bytes()
    assert "Traceback" not in process.log.read_text()


@pytest.fixture
def run(gateway: GatewayProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    """An open run of this test's own, with a token named after it."""
    run_id = f"r-{abs(hash(request.node.nodeid))}"
    assert gateway.open_run(run_id, TOKEN + run_id).status == 200
    yield run_id
    gateway.close_run(run_id)


def body_of(name: str, model: str = "ok", *, is_stream: bool = False) -> tuple[str, dict[str, Any]]:
    """Path and body of a call in a protocol."""
    if name == "gemini":
        verb = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
        return f"/v1beta/models/{model}:{verb}", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    paths = {"openai-chat": CHAT, "openai-responses": "/v1/responses", "anthropic": "/v1/messages"}
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    if name == "openai-responses":
        body = {"model": model, "input": "hi", "store": False}
    if name == "anthropic":
        body["max_tokens"] = 100
    return paths[name], body | ({"stream": True} if is_stream else {})


def call(gateway: GatewayProcess, run_id: str, model: str = "ok", **fields: Any) -> httpx.Response:
    path, body = body_of("openai-chat", model)
    with gateway.client(TOKEN + run_id) as client:
        return client.post(path, json=body | fields)


@pytest.mark.parametrize("name", STREAMS)
def test_streams_pass_byte_for_byte_and_are_metered_to_the_token(gateway: GatewayProcess, run: str, name: str) -> None:
    path, body = body_of(name, is_stream=True)
    if name == "openai-chat":
        body["stream_options"] = {"include_usage": True}
    with gateway.client(TOKEN + run) as client:
        reply = client.post(path, json=body)
    assert reply.content == STREAMS[name].stream
    (row,) = gateway.calls(run)
    usage = STREAMS[name].usage
    assert (row.input_tokens, row.cached_tokens, row.output_tokens) == (
        usage.input_tokens, usage.cached_tokens, usage.output_tokens)  # fmt: skip
    assert row.cache_write_tokens == usage.cache_write_tokens
    plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    cost = plain * 1.0 + usage.cached_tokens * 0.1 + usage.cache_write_tokens * 1.25 + usage.output_tokens * 10
    assert row.cost_usd == pytest.approx(cost / 1e6)
    assert (row.detail["ended"], row.detail["is_estimate"], row.http_status) == ("complete", False, 200)


@pytest.mark.parametrize("name", STREAMS)
def test_whole_answers_pass_and_are_metered(gateway: GatewayProcess, run: str, name: str) -> None:
    path, body = body_of(name)
    with gateway.client(TOKEN + run) as client:
        reply = client.post(path, json=body)
    assert reply.json() == WHOLE[name]
    assert reply.headers["x-request-id"] == "req_1"
    assert not {"set-cookie", "x-account", "server"} & set(reply.headers)
    assert gateway.usage(run).output_tokens == STREAMS[name].usage.output_tokens


def test_a_chat_stream_without_usage_loses_that_event_only(gateway: GatewayProcess, run: str) -> None:
    path, body = body_of("openai-chat", is_stream=True)
    with gateway.client(TOKEN + run) as client:
        reply = client.post(path, json=body)
    assert reply.content == CHAT_STREAM.stream.replace(CHAT_STREAM.events[4], b"")
    assert gateway.usage(run).output_tokens == 29


def test_the_key_is_the_gateways_and_headers_are_few(gateway: GatewayProcess, provider: Upstream, run: str) -> None:
    path, body = body_of("anthropic")
    headers = {"x-api-key": TOKEN + run, "cookie": "a=b", "x-forwarded-for": "1.2.3.4", "openai-organization": "o",
               "anthropic-beta": "interleaved-thinking-2025-05-14,mcp-client-2025-04-04",
               "anthropic-version": "2023-06-01"}  # fmt: skip
    reply = httpx.post(f"{gateway.base}{path}?beta=true&x=y", json=body, headers=headers, trust_env=False)
    assert reply.status_code == 200
    sent = provider.requests[-1]
    assert sent["query"] == {"beta": "true"}
    assert sent["headers"]["x-api-key"] == KEY
    assert sent["headers"]["anthropic-beta"] == "interleaved-thinking-2025-05-14"
    assert set(sent["headers"]) == {"host", "accept", "accept-encoding", "connection", "content-length", "content-type",
                                    "user-agent", "x-api-key", "anthropic-beta", "anthropic-version"}  # fmt: skip


@pytest.mark.parametrize("place", ["bearer", "x-api-key", "x-goog-api-key", "key"])
def test_a_token_is_taken_from_where_clients_put_it(
    gateway: GatewayProcess, provider: Upstream, run: str, place: str
) -> None:
    token = TOKEN + run
    headers = {"authorization": f"Bearer {token}"} if place == "bearer" else {} if place == "key" else {place: token}
    path, body = body_of("gemini")
    reply = httpx.post(
        gateway.base + path,
        params={"key": token} if place == "key" else {},
        headers=headers,
        json=body,
        trust_env=False,
    )
    assert reply.status_code == 200
    assert token not in json.dumps(provider.requests[-1], default=str)


def test_a_token_is_worth_nothing_elsewhere_or_later(gateway: GatewayProcess, run: str) -> None:
    gateway.open_run("elsewhere", TOKEN + "-elsewhere", subnets=("10.9.8.0/28",))
    assert call(gateway, "-elsewhere").status_code == 401
    assert call(gateway, "-unknown").status_code == 401
    assert call(gateway, run).status_code == 200
    gateway.close_run(run)
    assert call(gateway, run).status_code == 401
    assert gateway.usage(run).requests == 1
    assert not gateway.usage(run).is_open


@pytest.mark.parametrize(
    ("path", "form"),
    [
        (CHAT, "code"),
        ("/v1/responses", "code"),
        ("/v1/messages", "type"),
        ("/v1beta/models/ok:generateContent", "status"),
    ],
)
def test_refusals_have_the_providers_form(gateway: GatewayProcess, run: str, path: str, form: str) -> None:
    with gateway.client(TOKEN + run) as client:
        reply = client.post(
            path, json={"model": "ok", "mcp_servers": [{"url": "https://example.org"}], "max_tokens": 1}
        )
    assert reply.status_code == 400
    assert "mcp_servers" in reply.json()["error"]["message"]
    assert form in reply.json()["error"]
    assert gateway.calls(run)[0].detail["refused"]
    assert gateway.usage(run).requests == 0
    assert gateway.usage(run).refused == 1


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches", "/v1/responses/resp_1", "/v1/conversations"])
def test_other_paths_are_not_there(gateway: GatewayProcess, provider: Upstream, run: str, path: str) -> None:
    before = len(provider.requests)
    with gateway.client(TOKEN + run) as client:
        for method in ("POST", "GET", "DELETE", "PUT"):
            assert client.request(method, path, json={}).status_code == 404
    assert len(provider.requests) == before


def test_models_are_told_without_asking_the_provider(gateway: GatewayProcess, run: str) -> None:
    with gateway.client(TOKEN + run) as client:
        assert {model["id"] for model in client.get("/v1/models").json()["data"]} == {"ok", "dear"}
        assert client.head("/").status_code == 200
        assert httpx.get(gateway.base + "/v1/models", trust_env=False).status_code == 401


def test_counting_tokens_costs_nothing(gateway: GatewayProcess, run: str) -> None:
    with gateway.client(TOKEN + run) as client:
        reply = client.post("/v1/messages/count_tokens", json={"model": "ok", "messages": []})
    assert reply.json() == {"input_tokens": 12}
    assert (gateway.usage(run).requests, gateway.usage(run).cost_usd) == (0, 0)
    assert len(gateway.calls(run)) == 1


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_packed_requests_are_understood(gateway: GatewayProcess, provider: Upstream, run: str, pack: Any) -> None:
    raw = json.dumps(body_of("openai-chat")[1]).encode()
    encoding = "gzip" if pack is gzip.compress else "zstd"
    with gateway.client(TOKEN + run) as client:
        reply = client.post(CHAT, content=pack(raw), headers={"content-encoding": encoding})
    assert reply.status_code == 200
    assert provider.requests[-1]["raw"] == raw


HOSTILE = {
    "gzip bomb": (gzip.compress(b" " * 2**28), {"content-encoding": "gzip"}, 413),
    "zstd bomb": (zstandard.ZstdCompressor().compress(b" " * 2**28), {"content-encoding": "zstd"}, 413),
    "half a gzip": (gzip.compress(b"{}" * 999)[:-9], {"content-encoding": "gzip"}, 400),
    "not a zstd": (b"zstd", {"content-encoding": "zstd"}, 400),
    "unknown packing": (b"{}", {"content-encoding": "br"}, 415),
    "twice packed": (gzip.compress(gzip.compress(b"{}")), {"content-encoding": "gzip, gzip"}, 415),
    "too large": (b" " * (17 * 2**20), {}, 413),
    "nested": (b"[" * 200_000, {}, 400),
    "twice the same key": (b'{"model": "ok", "model": "dear", "messages": []}', {}, 400),
    "huge number": (b'{"model": "ok", "max_tokens": ' + b"9" * 6000 + b"}", {}, 400),
    "no object": (b"[]", {}, 400),
    "not utf-8": (b'{"model": "\xff"}', {}, 400),
    "empty": (b"", {}, 400),
    "many small objects": (b"[" + b"{}," * 2_000_000 + b"{}]", {}, 413),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_refused_and_change_nothing(
    gateway: GatewayProcess, provider: Upstream, run: str, name: str
) -> None:
    content, headers, status = HOSTILE[name]
    before = len(provider.requests)
    with gateway.client(TOKEN + run) as client:
        reply = client.post(CHAT, content=content, headers=headers)
    assert reply.status_code == status
    assert reply.json()["error"]["message"]
    assert len(provider.requests) == before
    assert gateway.usage(run).requests == 0


GARBAGE = [
    b"\0" * 100,
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
    b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: \xff\xfe\r\ncontent-length: 2\r\n\r\n{}",
    b"POST /v1/messages?" + b"a=b&" * 5000 + b" HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}",
    b"POST /v1/messages?key=%ff%00 HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
    b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    b"CONNECT example.org:443 HTTP/1.1\r\nhost: x\r\n\r\n",
]


def test_garbage_on_the_wire_harms_nobody(gateway: GatewayProcess, run: str) -> None:
    for raw in GARBAGE * 3:
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.settimeout(10)
            with contextlib.suppress(ConnectionError):
                client.sendall(raw)
                client.shutdown(socket.SHUT_WR)
                while client.recv(4096):
                    pass
    assert call(gateway, run).status_code == 200


@pytest.mark.parametrize("model", ["storm-429-3-0", "storm-500-3", "storm-503-2", "storm-529-2"])
def test_a_short_storm_is_absorbed(gateway: GatewayProcess, run: str, model: str) -> None:
    assert call(gateway, run, model).status_code == 200
    (row,) = gateway.calls(run)
    assert row.detail["attempts"] == int(model.split("-")[2]) + 1
    assert gateway.usage(run).requests == 1


def test_an_endless_storm_reaches_the_agent_with_retry_after(gateway: GatewayProcess, run: str) -> None:
    reply = call(gateway, run, "storm-429-1000")
    assert reply.status_code == 429
    assert int(reply.headers["retry-after"]) > 0
    (row,) = gateway.calls(run)
    assert (row.detail["attempts"], row.detail["given_up"]) == (6, "the provider answered 429")
    assert gateway.usage(run).cost_usd == 0


def test_a_long_retry_after_is_the_agents_to_wait(gateway: GatewayProcess, run: str) -> None:
    reply = call(gateway, run, "storm-429-1000-3600")
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "3600")
    assert gateway.calls(run)[0].detail["attempts"] == 1


def test_an_endless_server_error_reaches_the_agent(gateway: GatewayProcess, run: str) -> None:
    assert call(gateway, run, "storm-500-1000").status_code == 500
    (row,) = gateway.calls(run)
    assert (row.detail["ended"], row.detail["given_up"]) == ("provider_error", "the provider answered 500")


@pytest.mark.parametrize(("model", "kind"), [("quota", "quota_gone"), ("badkey", "key_refused")])
def test_a_provider_that_is_done_with_us_ends_agents_and_is_told(
    gateway: GatewayProcess, run: str, model: str, kind: str
) -> None:
    for _ in range(2):
        reply = call(gateway, run, model)
        assert reply.status_code == 402
        assert KEY not in reply.text
    assert [event.kind for event in gateway.events() if event.run_id == run] == [kind]


def test_errors_of_the_provider_pass_without_keys(gateway: GatewayProcess, run: str) -> None:
    reply = call(gateway, run, "echo")
    assert reply.status_code == 400
    assert reply.json()["error"]["message"] == "wrong: Bearer [redacted]"
    # It was the request that was wrong, not the provider.
    assert gateway.calls(run)[0].detail["given_up"] == ""


def test_a_stream_that_the_provider_cuts_is_cut_for_the_agent_and_counted(gateway: GatewayProcess, run: str) -> None:
    path, body = body_of("anthropic", "cut", is_stream=True)
    with gateway.client(TOKEN + run) as client, pytest.raises(httpx.RemoteProtocolError):
        client.post(path, json=body)
    wait_until(lambda: len(gateway.calls(run)) == 1, 5)
    (row,) = gateway.calls(run)
    assert (row.detail["ended"], row.detail["is_estimate"]) == ("cut", True)
    assert row.detail["given_up"] == "the provider broke off its answer"
    assert (row.input_tokens, row.cached_tokens) == (127, 100)
    assert row.cost_usd > 0


def test_a_server_that_tells_no_usage_is_not_free(gateway: GatewayProcess, run: str) -> None:
    assert call(gateway, run, "silent").status_code == 200
    (row,) = gateway.calls(run)
    assert row.detail["is_estimate"]
    assert row.output_tokens >= 100


def test_an_agent_that_leaves_a_stream_pays_for_what_came(
    gateway: GatewayProcess, provider: Upstream, run: str
) -> None:
    path, body = body_of("openai-chat", "endless", is_stream=True)
    with gateway.client(TOKEN + run) as client, client.stream("POST", path, json=body) as reply:
        next(reply.iter_bytes())
    wait_until(lambda: len(gateway.calls(run)) == 1, 10)
    (row,) = gateway.calls(run)
    assert (row.detail["ended"], row.detail["is_estimate"]) == ("agent_left", True)
    assert row.input_tokens > 0
    wait_until(lambda: provider.open_streams == 0, 10)


def test_an_agent_that_leaves_a_stream_pays_for_what_may_have_been_thought_unseen(
    gateway: GatewayProcess, run: str
) -> None:
    path, body = body_of("openai-responses", "endless", is_stream=True)
    for limit in (1000, 20):
        limited = body | {"max_output_tokens": limit}
        with gateway.client(TOKEN + run) as client, client.stream("POST", path, json=limited) as reply:
            began = time.monotonic()
            for _ in reply.iter_bytes():
                if time.monotonic() - began > 1:
                    break
    wait_until(lambda: len(gateway.calls(run)) == 2, 10)
    thought, short = (row.output_tokens for row in gateway.calls(run))
    assert 100 <= thought < 1000
    assert short < 100


def test_an_agent_that_leaves_just_before_the_usage_pays_exactly(gateway: GatewayProcess, run: str) -> None:
    path, body = body_of("anthropic", "slow-stream", is_stream=True)
    with gateway.client(TOKEN + run) as client, client.stream("POST", path, json=body) as reply:
        seen = b""
        for piece in reply.iter_bytes():
            seen += piece
            if b"Let me look" in seen:
                break
    wait_until(lambda: len(gateway.calls(run)) == 1, 10)
    (row,) = gateway.calls(run)
    assert (row.output_tokens, row.detail["is_estimate"], row.detail["ended"]) == (55, False, "agent_left")


def test_an_agent_that_leaves_before_its_turn_pays_nothing(gateway: GatewayProcess, run: str) -> None:
    run_id = f"{run}-one"
    gateway.open_run(run_id, TOKEN + run_id, max_parallel=1)
    path, body = body_of("openai-chat", "endless", is_stream=True)
    with gateway.client(TOKEN + run_id) as client, client.stream("POST", path, json=body) as reply:
        next(reply.iter_bytes())
        with gateway.client(TOKEN + run_id, 0.5) as other, pytest.raises(httpx.ReadTimeout):
            other.post(path, json=body | {"model": "ok"})
    wait_until(lambda: len(gateway.calls(run_id)) == 2, 10)
    second = gateway.calls(run_id)[1]
    assert (second.model, second.detail["ended"], second.cost_usd) == ("ok", "agent_left", 0)


def test_a_run_that_is_closed_takes_its_open_streams_with_it(gateway: GatewayProcess, run: str) -> None:
    path, body = body_of("openai-chat", "endless", is_stream=True)
    with gateway.client(TOKEN + run) as client, client.stream("POST", path, json=body) as reply:
        pieces = reply.iter_bytes()
        next(pieces)
        gateway.close_run(run)
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    assert gateway.calls(run)[0].detail["ended"] == "closed"


def test_a_large_prompt_passes_unchanged(gateway: GatewayProcess, provider: Upstream, run: str) -> None:
    raw = json.dumps(
        {"model": "ok", "messages": [{"role": "user", "content": "wörd, " * 60_000}]}, ensure_ascii=False
    ).encode()
    assert len(raw) > 300_000
    with gateway.client(TOKEN + run) as client:
        assert client.post(CHAT, content=raw).status_code == 200
    assert provider.requests[-1]["raw"] == raw


def test_64_streams_at_a_time(gateway: GatewayProcess, provider: Upstream, run: str) -> None:
    path, body = body_of("openai-responses", "together", is_stream=True)
    provider.most_streams = 0

    def one(_number: int) -> bytes:
        with gateway.client(TOKEN + run, 60) as client:
            return client.post(path, json=body).content

    with ThreadPoolExecutor(TOGETHER) as pool:
        assert set(pool.map(one, range(TOGETHER))) == {STREAMS["openai-responses"].stream}
    assert provider.most_streams == TOGETHER
    usage = gateway.usage(run)
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (64, 64 * 300, 64 * 40)


def test_exchanges_are_kept_without_secrets(gateway: GatewayProcess, run: str) -> None:
    text = f"my token is {TOKEN + run}, and sk-ant-api03-abcdefghijklmnop too"
    assert call(gateway, run, messages=[{"role": "user", "content": text}]).status_code == 200
    exchange = gateway.exchange(gateway.calls(run)[0])
    assert exchange["request"]["body"].count("[redacted]") == 2
    assert json.loads(exchange["answer"]["body"]) == WHOLE["openai-chat"]


def test_a_spent_budget_refuses_and_is_told_once(gateway: GatewayProcess) -> None:
    gateway.open_run("poor", TOKEN + "poor", budget=LlmBudget(usd=0.0005))
    replies = [call(gateway, "poor").status_code for _ in range(4)]
    assert replies == [200, 200, 402, 402]
    reply = call(gateway, "poor")
    assert reply.json() == {
        "type": "error",
        "error": {"type": "budget_exceeded", "code": "budget_exceeded", "message": "budget of this run is spent"},
    }
    assert [event.kind for event in gateway.events() if event.run_id == "poor"] == ["over_budget"]
    assert gateway.usage("poor").is_over_budget


def test_many_at_a_time_cannot_overrun_a_budget(gateway: GatewayProcess) -> None:
    """Each call costs 0.0343 USD and may cost 1 USD and more: beside one that is open no other fits."""
    gateway.open_run("greedy", TOKEN + "greedy", budget=LlmBudget(usd=0.1))
    with ThreadPoolExecutor(32) as pool:
        codes = list(pool.map(lambda _: call(gateway, "greedy", "dear").status_code, range(32)))
    usage = gateway.usage("greedy")
    assert codes.count(200) == usage.requests == 3
    assert codes.count(402) == 29
    assert usage.cost_usd == pytest.approx(3 * 0.03494)


@pytest.mark.parametrize("path", ["generateContent?alt=proto", "generateContent?alt=sse", "streamGenerateContent"])
def test_answers_that_could_not_be_metered_are_refused(gateway: GatewayProcess, run: str, path: str) -> None:
    _, body = body_of("gemini")
    with gateway.client(TOKEN + run) as client:
        assert client.post(f"/v1beta/models/ok:{path}", json=body).status_code == 400
        assert client.post("/v1beta/models/ok:generateContent?alt=json", json=body).status_code == 200


def test_admin_refuses_what_cannot_be_meant(gateway: GatewayProcess, run: str) -> None:
    assert gateway.admin.request("POST", "/runs", 5).status == 400
    assert gateway.admin.request("GET", "/runs/never/usage", 5).status == 404
    assert gateway.admin.request("GET", "/events?after=x", 5).status == 400
    assert gateway.open_run(run, TOKEN + run).status == 200
    assert gateway.open_run(run, TOKEN + run, models=("other",)).status == 409
    assert gateway.open_run("another", TOKEN + run).status == 409


def test_the_admin_side_is_not_on_tcp(gateway: GatewayProcess, run: str) -> None:
    with gateway.client(TOKEN + run) as client:
        assert client.get("/events").status_code == 404
        assert client.post("/runs", json={}).status_code == 404
    assert gateway.socket.stat().st_mode & 0o777 == 0o600


def test_no_secret_in_the_command_line(gateway: GatewayProcess) -> None:
    assert gateway.process is not None
    assert KEY.encode() not in Path(f"/proc/{gateway.process.pid}/cmdline").read_bytes()


@pytest.mark.parametrize("model", ["badkey", "quota", "cut"])
def test_a_provider_is_asked_again_what_it_has_answered(gateway: GatewayProcess, run: str, model: str) -> None:
    path = f"/runs/{run}/ask-again"
    assert json.loads(gateway.admin.request("POST", path, 30).body) == {"is_known": False, "is_answered": False}
    assert call(gateway, run).status_code == 200
    with contextlib.suppress(httpx.RemoteProtocolError):
        assert call(gateway, run, model, stream=model == "cut").status_code == 402
    wait_until(lambda: len(gateway.calls(run)) == 2, 5)
    assert json.loads(gateway.admin.request("POST", path, 30).body) == {"is_known": True, "is_answered": True}
    # It is nobody's call.
    assert gateway.usage(run).requests == 2


def test_a_provider_that_is_gone_does_not_answer_what_it_has_answered(tmp_path: Path) -> None:
    with upstream() as provider:
        process = GatewayProcess(tmp_path / "g", provider.url, attempts=1)
        process.start()
        process.open_run()
        assert call(process, "").status_code == 200
    try:
        reply = process.admin.request("POST", "/runs/r1/ask-again", 30)
        assert json.loads(reply.body) == {"is_known": True, "is_answered": False}
    finally:
        process.end()


def test_a_provider_that_says_nothing_is_given_up(provider: Upstream, tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "g", provider.url, silence_s=1)
    process.start()
    try:
        process.open_run()
        started = time.monotonic()
        assert call(process, "", "hang").status_code == 504
        assert time.monotonic() - started < 10
        (row,) = process.calls()
        # It may have worked on it all the same.
        assert (row.detail["ended"], row.detail["is_estimate"]) == ("no_answer", True)
        assert row.detail["given_up"] == "the provider did not answer in time"
        assert row.input_tokens > 0
    finally:
        process.end()


def test_a_provider_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "g", "http://127.0.0.1:9", attempts=2)
    process.start()
    try:
        process.open_run()
        assert call(process, "").status_code == 502
        assert process.calls()[0].detail["given_up"] == "the provider cannot be reached"
        assert process.usage().cost_usd == 0
    finally:
        process.end()


def peak_mib(process: GatewayProcess) -> float:
    """The most memory that the process has had."""
    assert process.process is not None
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def test_bodies_that_become_large_do_not_fill_its_memory(provider: Upstream, tmp_path: Path) -> None:
    """Half a million names of four bytes a character, which also grow on their way: a gateway has 512 MB."""
    process = GatewayProcess(tmp_path / "g", provider.url)
    process.start()
    try:
        process.open_run()
        names = ",".join(f'"\U0001f600{number:06}":""' for number in range(490_000))
        raw = f'{{"model":"ok","store":true,"messages":[],"metadata":{{{names}}}}}'.encode()

        def one(_number: int) -> int:
            with process.client(timeout_s=60) as client:
                return client.post(CHAT, content=raw).status_code

        with ThreadPoolExecutor(6) as pool:
            assert set(pool.map(one, range(6))) <= {200, 503}
        assert peak_mib(process) < 450
    finally:
        process.end()


def test_a_run_has_so_many_calls_and_no_more(provider: Upstream, tmp_path: Path) -> None:
    """Also of those that cost nothing: each is a line, a row and a file."""
    process = GatewayProcess(tmp_path / "g", provider.url, rows=3)
    process.start()
    try:
        process.open_run()
        assert [call(process, "").status_code for _ in range(5)] == [200, 200, 200, 402, 402]
        reply = call(process, "")
        assert reply.json()["error"]["message"] == "this run has had all the calls that it may have"
        assert [row.detail.get("refused") is None for row in process.calls()][:4] == [True, True, True, False]
    finally:
        process.end()


@pytest.mark.parametrize("limit", ["answer_bytes", "run_answers_bytes"])
def test_an_answer_that_is_too_large_is_paid_for_and_not_laid_to_the_provider(
    provider: Upstream, tmp_path: Path, limit: str
) -> None:
    process = GatewayProcess(tmp_path / "g", provider.url, **{limit: 1024})
    process.start()
    try:
        process.open_run()
        assert call(process, "", "long").status_code in (400, 503)
        (row,) = process.calls()
        assert (row.detail["ended"], row.detail["given_up"]) == ("too_large", "")
        assert row.output_tokens > 300
    finally:
        process.end()


def test_a_slow_sender_is_given_up_and_others_are_served(provider: Upstream, tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "g", provider.url, body_s=1)
    process.start()
    try:
        process.open_run()
        with socket.create_connection(("127.0.0.1", process.port)) as slow:
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 100\r\n\r\n{{"
            slow.sendall(head.encode())
            assert call(process, "").status_code == 200
            slow.settimeout(10)
            assert b" 408 " in slow.recv(4096)
    finally:
        process.end()


def test_a_restart_knows_what_was_used_and_what_was_open(provider: Upstream, tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "g", provider.url)
    process.start()
    try:
        process.open_run(budget=LlmBudget(usd=0.002, requests=50))
        assert [call(process, "").status_code for _ in range(2)] == [200, 200]
        before = process.usage()
        with process.client() as client:
            path, body = body_of("openai-chat", "endless", is_stream=True)
            with client.stream("POST", path, json=body | {"max_tokens": 10}) as reply:
                next(reply.iter_bytes())
                process.end(signal.SIGKILL)
        process.start()
        after = process.usage()
        assert after.requests == before.requests + 1
        assert after.cost_usd > before.cost_usd
        lost = process.calls()[-1].detail
        assert (lost["ended"], lost["given_up"]) == ("gateway_died", "the gateway died")
        while (status := call(process, "").status_code) == 200:
            assert process.usage().requests < 20
        assert status == 402
        process.end()
        process.start()
        assert call(process, "").status_code == 402
        assert [event.kind for event in process.events()] == ["over_budget"]
    finally:
        process.end()


def test_a_stop_cuts_what_is_open_and_counts_it(provider: Upstream, tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "g", provider.url)
    process.start()
    try:
        process.open_run()
        path, body = body_of("openai-chat", "endless", is_stream=True)
        with process.client() as client, client.stream("POST", path, json=body) as reply:
            next(reply.iter_bytes())
            assert process.end() == 0
        process.start()
        assert process.calls()[0].detail["ended"] in ("closed", "agent_left")
        assert process.usage().open_calls == 0
        assert "Traceback" not in process.log.read_text()
    finally:
        process.end()


def test_one_run_cannot_take_the_memory_of_others(provider: Upstream, tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "g", provider.url, run_bodies_bytes=1_500_000)
    process.start()
    try:
        for run_id in ("greedy", "other"):
            process.open_run(run_id, TOKEN + run_id)
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}greedy\r\n"
        with socket.create_connection(("127.0.0.1", process.port)) as holding:
            holding.sendall(head.encode() + b"content-length: 2000000\r\n\r\n" + b" " * 1_400_000)
            large = [{"role": "user", "content": "x" * 400_000}]
            wait_until(lambda: call(process, "greedy", messages=large).status_code == 503, 10)
            assert call(process, "other", messages=large).status_code == 200
        wait_until(lambda: call(process, "greedy", messages=large).status_code == 200, 10)
    finally:
        process.end()


def test_only_one_process_writes_a_state(gateway: GatewayProcess, provider: Upstream, tmp_path: Path) -> None:
    second = GatewayProcess(tmp_path / "g", provider.url)
    second.state = gateway.state
    assert second.spawn().wait(30) == 3
    assert b"another gateway" in second.log.read_bytes()

"""The gateway against a scripted LLM that speaks all four protocols: what it says it used is what is metered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_process import GatewayProcess
from scripted_llm import needs_scripted_llm, scripted_llm
from served import wait_until

pytestmark = needs_scripted_llm

STEPS = [
    {"say": "First.", "run": "echo 1", "usage": {"input": 1201, "output": 45, "cached": 67}},
    {"say": "Second.", "run": "echo 2", "usage": {"input": 2310, "output": 7, "cached": 2300}},
    {"finish": "Done.", "usage": {"input": 2400, "output": 3, "cached": 0}},
]
SCRIPTS = {
    "steps": STEPS,
    "storm": [{**STEPS[0], "error": {"status": 429, "times": 2, "retry_after": 0}}, *STEPS[1:]],
    "cut": [{**STEPS[0], "drop_after": 3}, *STEPS[1:]],
}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scripted_llm(tmp_path_factory.mktemp("scripted"), SCRIPTS) as url:
        yield url


@pytest.fixture
def gateway(scripted: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GatewayProcess]:
    process = GatewayProcess(tmp_path / "gateway", f"{scripted}/s/{getattr(request, 'param', 'steps')}")
    process.start()
    process.open_run()
    yield process
    process.end()


def turn(name: str, done: int, *, is_stream: bool) -> tuple[str, dict[str, Any]]:
    """The call of an agent that has `done` tool results in its history."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    stream = {"stream": True} if is_stream else {}
    results: list[dict[str, Any]]
    if name == "openai-chat":
        results = [{"role": "tool", "tool_call_id": "c", "content": "out"}] * done
        tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "bash", "parameters": schema}}]
        return "/v1/chat/completions", {"model": "ok", "messages": results, "tools": tools, **stream}
    if name == "openai-responses":
        results = [{"type": "function_call_output", "call_id": "c", "output": "out"}] * done
        tools = [{"type": "function", "name": "bash", "parameters": schema}]
        return "/v1/responses", {"model": "ok", "input": results, "tools": tools, **stream}
    if name == "anthropic":
        results = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "out"}]}] * done
        tools = [{"name": "bash", "input_schema": schema}]
        return "/v1/messages?beta=true", {
            "model": "ok",
            "max_tokens": 99,
            "messages": results,
            "tools": tools,
            **stream,
        }
    results = [{"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {}}}]}] * done
    tools = [{"functionDeclarations": [{"name": "bash", "parametersJsonSchema": schema}]}]
    verb = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
    return f"/v1beta/models/ok:{verb}", {"contents": results, "tools": tools}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_usage_is_what_the_script_says_to_the_token(gateway: GatewayProcess, name: str, is_stream: bool) -> None:
    with gateway.client() as client:
        for done in range(3):
            path, body = turn(name, done, is_stream=is_stream)
            assert client.post(path, json=body).status_code == 200
    said = [step["usage"] for step in STEPS]
    rows = gateway.calls()
    assert [(row.input_tokens, row.output_tokens, row.cached_tokens) for row in rows] == [
        (usage["input"], usage["output"], usage["cached"])  # type: ignore[index]
        for usage in said
    ]
    used, cached = gateway.usage(), 67 + 2300
    assert used.cost_usd == pytest.approx(((5911 - cached) * 1.0 + cached * 0.1 + 55 * 10.0) / 1e6)
    assert not any(row.detail["is_estimate"] for row in rows)


@pytest.mark.parametrize("gateway", ["storm"], indirect=True)
def test_a_storm_is_absorbed(gateway: GatewayProcess) -> None:
    path, body = turn("openai-responses", 0, is_stream=True)
    with gateway.client() as client:
        assert client.post(path, json=body).status_code == 200
    assert gateway.calls()[0].detail["attempts"] == 3


@pytest.mark.parametrize("gateway", ["cut"], indirect=True)
def test_a_cut_stream_is_counted(gateway: GatewayProcess) -> None:
    path, body = turn("anthropic", 0, is_stream=True)
    with gateway.client() as client, pytest.raises(httpx.RemoteProtocolError):
        client.post(path, json=body)
    wait_until(lambda: len(gateway.calls()) == 1, 10)
    (row,) = gateway.calls()
    assert (row.input_tokens, row.cached_tokens, row.detail["ended"]) == (1201, 67, "cut")

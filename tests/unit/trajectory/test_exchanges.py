"""The trajectory from what the gateway captured: real exchanges of four protocols, and broken ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from trajectory_files import captured, gateway_folder

from harness.trajectory.atif import Trajectory
from harness.trajectory.exchanges import read_exchanges

SAID = ["I look at the workspace first.", "Two things at once.", "I write a file with colours.", "All done."]
CLIS = ["claude", "codex", "gemini", "opencode"]


def read(folder: Path) -> Trajectory:
    found = read_exchanges(folder, "a")
    assert found is not None
    return found


@pytest.mark.parametrize("name", CLIS)
def test_each_turn_is_there_once_though_each_request_repeats_all(name: str, tmp_path: Path) -> None:
    found = read(captured(tmp_path / "g", name))
    assert [step.message for step in found.steps if step.source == "agent"] == SAID
    prompts = [step for step in found.steps if step.message == "Train the model and hand in a checkpoint.\n"]
    assert [step.source for step in prompts] == ["user"]
    assert found.notes is None


@pytest.mark.parametrize("name", CLIS)
def test_results_are_at_their_calls(name: str, tmp_path: Path) -> None:
    agent = [step for step in read(captured(tmp_path / "g", name)).steps if step.source == "agent"]
    assert [len(step.tool_calls or ()) for step in agent] == [1, 2, 1, 0]
    for step in agent[:3]:
        assert step.observation is not None
        asked = [call.tool_call_id for call in step.tool_calls or ()]
        assert [result.source_call_id for result in step.observation.results] == asked
    assert "two" in (agent[1].observation.results[1].content or "")


@pytest.mark.parametrize("name", CLIS)
def test_tokens_and_cost_are_those_of_the_meter(name: str, tmp_path: Path) -> None:
    found = read(captured(tmp_path / "g", name))
    steps = [step.metrics for step in found.steps if step.metrics]
    assert [(one.prompt_tokens, one.completion_tokens) for one in steps] == [
        (1200, 30),
        (1300, 45),
        (1500, 40),
        (1700, 12),
    ]
    assert found.final_metrics is not None
    assert found.final_metrics.total_cost_usd == pytest.approx(sum(one.cost_usd or 0 for one in steps))


def chat(number: int, messages: list[dict], answer: object, **more: object) -> tuple[dict, dict]:
    """A call of chat completions that was not streamed: its row, and its exchange."""
    name = f"{number:06d}.json.gz"
    call = {"number": number, "at": f"2026-01-01T00:00:{number:02d}Z", "model": "m", "detail": {"exchange": name}}
    request = {"path": "/v1/chat/completions", "is_cut": False, "body": json.dumps({"messages": messages})}
    reply = {"status": 200, "ended": "complete", "is_cut": False, "body": json.dumps(answer), **more}
    return call, {"number": number, "request": request, "answer": reply}


def answered(text: str) -> dict:
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}


def test_the_same_words_said_twice_are_there_twice(tmp_path: Path) -> None:
    go_on = {"role": "user", "content": "go on"}
    first = chat(1, [go_on], answered("one"))
    second = chat(2, [go_on, {"role": "assistant", "content": "one"}, go_on], answered("two"))
    calls, exchanges = zip(first, second, strict=True)
    found = read(gateway_folder(tmp_path / "g", list(calls), list(exchanges)))
    assert [(step.source, step.message) for step in found.steps] == [
        ("user", "go on"),
        ("agent", "one"),
        ("user", "go on"),
        ("agent", "two"),
    ]


def test_refused_and_cut_calls_are_told(tmp_path: Path) -> None:
    user = [{"role": "user", "content": "hi"}]
    refused = chat(1, user, {"error": {"message": "overloaded"}}, status=529)
    cut = chat(2, user, answered("part"), ended="cut")
    calls, exchanges = zip(refused, cut, strict=True)
    found = read(gateway_folder(tmp_path / "g", list(calls), list(exchanges)))
    event, last = found.steps[1], found.steps[-1]
    assert event.extra == {"event": "refused call", "value": {"status": 529, "ended": "complete"}}
    assert "overloaded" in event.message
    assert last.extra == {"call": 2, "ended": "cut"}


def test_a_result_without_an_id_goes_to_the_open_call_of_its_tool(tmp_path: Path) -> None:
    call = {"functionCall": {"name": "shell", "args": {"command": "ls"}}}
    body = {"candidates": [{"content": {"parts": [call, call]}}]}
    results = [{"functionResponse": {"name": "shell", "response": {"output": text}}} for text in ("one", "two")]
    path = "/v1beta/models/m:generateContent"
    exchanges = [
        {"number": 1, "request": {"path": path, "body": "{}"}, "answer": {"status": 200, "body": json.dumps(body)}},
        {
            "number": 2,
            "request": {"path": path, "body": json.dumps({"contents": [{"role": "user", "parts": results}]})},
            "answer": {"status": 200, "body": "{}"},
        },
    ]
    calls = [{"number": n, "at": "2026-01-01T00:00:00Z", "detail": {"exchange": f"{n:06d}.json.gz"}} for n in (1, 2)]
    step = read(gateway_folder(tmp_path / "g", calls, exchanges)).steps[0]
    assert [result.content for result in step.observation.results] == ["one", "two"]
    assert [result.source_call_id for result in step.observation.results] == ["call_1", "call_2"]


def test_a_broken_exchange_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    pairs = [chat(n, [{"role": "user", "content": f"{n}"}], answered(f"answer {n}")) for n in range(1, 7)]
    folder = gateway_folder(tmp_path / "g", [call for call, _ in pairs], [one for _, one in pairs])
    kept = folder / "exchanges"
    (kept / "000001.json.gz").write_bytes(b"no gzip")
    (kept / "000002.json.gz").write_bytes((kept / "000003.json.gz").read_bytes()[:-20])
    (kept / "000003.json.gz").write_bytes(gzip.compress(b'{"number": 3'))
    (kept / "000004.json.gz").unlink()
    (kept / "000005.json.gz").unlink()
    (kept / "000005.json.gz").symlink_to("/etc/hostname")
    found = read(folder)
    assert [step.message for step in found.steps] == ["6", "answer 6"]
    assert found.notes == "5 of 12 lines could not be read"


def test_a_bomb_costs_no_more_than_its_bound(tmp_path: Path) -> None:
    call, exchange = chat(1, [], answered("x"))
    folder = gateway_folder(tmp_path / "g", [call], [exchange])
    with gzip.open(folder / "exchanges" / "000001.json.gz", "wb") as file:
        for _ in range(64):
            file.write(b" " * 2**20)
    assert read_exchanges(folder, "a") is None


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname", "..", "a/b"])
def test_names_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    call, exchange = chat(1, [], answered("x"))
    call["detail"]["exchange"] = name
    assert read_exchanges(gateway_folder(tmp_path / "g", [call], [exchange]), "a") is None


def test_without_a_gateway_there_is_nothing(tmp_path: Path) -> None:
    assert read_exchanges(tmp_path / "none", "a") is None

"""What the RD-Agent folder adds to RD-Agent, as far as it can be tried without that installed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from standalone import loaded

FOLDER = Path(__file__).resolve().parents[2] / "agents" / "rdagent"


def load(name: str) -> ModuleType:
    return loaded(FOLDER / "rdagent_shim" / f"{name}.py")


TASK, RECORD, GRADER = load("task"), load("record"), load("grader")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    for name in ("prompt", "continue", "instructions"):
        (tmp_path / f"{name}.md").write_text(f"The {name}.\n")
    files = {"PROMPT_FILE": str(tmp_path / "prompt.md"), "CONTINUE_FILE": str(tmp_path / "continue.md")}
    return {**files, "WORKSPACE": str(tmp_path), "CONTINUATION": "0"}


def test_the_llm_is_told_prompt_and_instructions(environment: dict[str, str]) -> None:
    assert TASK.task_text(environment) == "The prompt.\n\nThe instructions."


def test_after_an_early_end_it_is_told_of_that_too(environment: dict[str, str]) -> None:
    told = TASK.task_text({**environment, "CONTINUATION": "2"})
    assert told == "The prompt.\n\nThe instructions.\n\nThe continue."


def test_without_files_it_is_told_nothing() -> None:
    assert TASK.task_text({}) == ""


def test_the_task_stands_behind_the_system_prompt_and_changes_nothing_of_upstreams() -> None:
    messages = [{"role": "system", "content": "You are"}, {"role": "user", "content": "Do"}]
    told = TASK.with_task(messages, "The task.")
    assert told == [{"role": "system", "content": "You are\n\nThe task."}, messages[1]]
    assert messages[0]["content"] == "You are"


def test_a_line_of_the_record_is_one_json_object(tmp_path: Path) -> None:
    RECORD.append(str(tmp_path), "training", output="a\nb \ud800", benchmark={"score": float("inf")})
    RECORD.append(str(tmp_path), "llm_call", answer="ü", usage=object())
    first, second = (tmp_path / "rdagent.jsonl").read_text().splitlines()
    assert json.loads(first)["output"].startswith("a\nb ")
    assert json.loads(second)["kind"] == "llm_call"


def test_without_a_folder_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RECORD.append("", "training")
    assert list(tmp_path.iterdir()) == []


def test_of_a_long_output_both_ends_are_kept() -> None:
    assert RECORD.ends("abc") == "abc"
    kept = RECORD.ends("a" * 50 + "b" * 100 + "c" * 50, limit=100)
    assert kept == f"{'a' * 50}\n[100 characters left out]\n{'c' * 50}"


def submission(number: int, state: str, reply: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"submission_id": number, "state": state, "reply": reply, "error": None, "detail": None}


def test_a_score_that_takes_long_is_waited_for() -> None:
    states = [[submission(1, "scored"), submission(2, state, {"score": 5.0})] for state in ("queued", "scored")]
    pauses: list[float] = []
    asked = iter(states)
    assert GRADER.late_reply(1, lambda: next(asked), pauses.append) == {"score": 5.0}
    assert pauses == [GRADER.POLL_S]


def test_a_rejection_has_no_reply_but_its_reason() -> None:
    found = [{**submission(1, "rejected"), "error": "no weights", "detail": "Save it."}]
    reply = GRADER.late_reply(0, lambda: found, lambda seconds: None)
    assert reply == {"submission_id": 1, "state": "rejected", "error": "no weights", "detail": "Save it."}


def test_where_nothing_was_submitted_nothing_is_waited_for() -> None:
    assert GRADER.late_reply(1, lambda: [submission(1, "scored")], lambda seconds: None) is None


@contextmanager
def grader_that_says(*answers: tuple[int, dict[str, str], dict[str, Any]]) -> Iterator[str]:
    waiting = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/time"
            self.answer(200, {}, {"remaining": 900.0})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert (self.path, json.loads(body)) == ("/submit?wait=false", {"model_path": "/workspace/output/v1"})
            self.answer(*waiting.pop(0))

        def answer(self, status: int, headers: dict[str, str], answer: dict[str, Any]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


REFUSED = {"error": "4 submissions in this hour", "error_class": "over_quota"}
ACCEPTED = {"submission_id": 5, "status_url": "http://grader/submissions/5"}


def test_the_quota_of_the_hour_is_waited_for() -> None:
    pauses: list[float] = []
    with grader_that_says((429, {"Retry-After": "600"}, REFUSED), (202, {}, ACCEPTED)) as url:
        assert GRADER.submit(url, "/workspace/output/v1", pauses.append) == ACCEPTED
    assert pauses == [600.0]


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "900"}])
def test_a_quota_for_which_waiting_does_not_help_ends_it(headers: dict[str, str]) -> None:
    with (
        grader_that_says((429, headers, REFUSED)) as url,
        pytest.raises(GRADER.QuotaSpent, match="4 submissions in this hour"),
    ):
        GRADER.submit(url, "/workspace/output/v1")


def test_another_refusal_is_an_answer() -> None:
    told = {"error": "no weights", "error_class": "no_weights"}
    with grader_that_says((422, {}, told)) as url:
        assert GRADER.submit(url, "/workspace/output/v1") == told


def test_only_one_module_needs_rd_agent() -> None:
    users = [
        path.name
        for path in FOLDER.rglob("*.py")
        if "import rdagent" in (text := path.read_text()) or "from rdagent." in text
    ]
    assert users == ["parts.py"]

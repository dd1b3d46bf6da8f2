"""The example agent's reward, prompts and grader client (its training is tested in a real run)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
from standalone import loaded

from harness.domain.specs import FewShot, PromptSpec
from harness.grader.prompts import build_prompt

EXAMPLE = Path(__file__).resolve().parents[2] / "agents" / "example"


def load(name: str) -> ModuleType:
    return loaded(EXAMPLE / f"{name}.py")


TASK = load("task")
GRADER = load("grader")


@pytest.mark.parametrize(("text", "score"), [("82", 1.0), (" 82", 1.0), ("83", 0.0), ("082", 0.0), ("", 0.0)])
def test_reward_for_a_bare_answer_is_exact_match(text: str, score: float) -> None:
    assert TASK.reward(text, "82") == score


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("#### 1,080", 1.0),
        ("540 * 2\n#### 1080.0", 1.0),
        ("so 1080", 0.9),
        ("#### 7", 0.1),
        ("####", 0.0),
        ("7", 0.0),
        ("", 0.0),
        ("#### 7\n#### 1080", 0.1),
    ],
)
def test_reward_for_a_marked_answer_looks_behind_the_mark(text: str, score: float) -> None:
    assert TASK.reward(text, "540*2\n#### 1,080") == score


def test_questions_are_put_as_the_grader_puts_them(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"question": "a {b}?", "answer": "#### 2"}\n')
    (tmp_path / "config.yaml").write_text(
        "name: x\nprompt: 'Q: {question}'\nsystem: Be brief.\nfew_shot: [{question: q, answer: a}]\nmax_tokens: 9\n"
    )
    task = TASK.load_task(tmp_path, tmp_path)
    spec = PromptSpec(prompt="Q: {question}", system="Be brief.", few_shot=(FewShot(question="q", answer="a"),))
    wanted = build_prompt(spec, "a {b}?").messages
    assert wanted is not None
    assert task.messages("a {b}?", with_examples=True) == [message.model_dump() for message in wanted]
    assert (task.max_tokens, task.is_marked) == (9, True)


def test_without_a_shown_config_the_question_is_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"question": "1+1=", "answer": "2"}\n')
    task = TASK.load_task(tmp_path, tmp_path)
    assert task.messages("1+1=", with_examples=True) == [{"role": "user", "content": "1+1="}]
    assert not task.is_marked


@contextmanager
def serving(replies: list[tuple[int, dict, dict]]) -> Iterator[tuple[str, list[str]]]:
    """A server that answers `/time` and, to anything else, the next of `replies`; and the list of what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body, headers = (200, {"remaining": 30}, {}) if self.path == "/t/time" else replies.pop(0)
            asked.append(f"{self.command} {self.path}")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_GET = do_POST = _answer

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/t", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_client_submits_again_when_the_grader_is_busy() -> None:
    busy = (503, {"error": "busy"}, {"Retry-After": "0.01"})
    with serving([busy, busy, (202, {"submission_id": 4}, {})]) as (url, asked):
        assert GRADER.Grader(url).submit(Path("output/v1")) == 4
    assert asked == ["GET /t/time", *["POST /t/submit?wait=false"] * 3]


def test_client_takes_a_duplicate_for_its_own_lost_attempt() -> None:
    with serving([(409, {"error": "queued already", "submission_id": 2}, {})]) as (url, _):
        assert GRADER.Grader(url).submit(Path("output/v1")) == 2


def test_client_gives_up_on_a_plain_no() -> None:
    with serving([(422, {"error": "pickle"}, {})]) as (url, asked), pytest.raises(GRADER.Refused, match="pickle"):
        GRADER.Grader(url).submit(Path("output/v1"))
    assert len(asked) == 2


def test_client_does_not_wait_beyond_the_deadline() -> None:
    with (
        serving([(429, {"error": "quota"}, {"Retry-After": "900"})]) as (url, asked),
        pytest.raises(GRADER.Refused, match="quota"),
    ):
        GRADER.Grader(url).submit(Path("output/v1"))
    assert len(asked) == 2


def test_client_reads_a_score_once_it_is_there() -> None:
    scored = {"state": "scored", "reply": {"score": 50.0}}
    with serving([(200, scored, {})]) as (url, _):
        assert GRADER.Grader(url).wait(1, keep_s=5) == scored


def test_client_stops_waiting_for_all_scores_together_when_little_time_is_left() -> None:
    scoring = {"state": "scoring", "reply": None}
    # 30 s are left in this run: with 29.7 of them to be kept, three waits must end within the same 0.3 s.
    with serving([(200, scoring, {})] * 9) as (url, asked):
        grader = GRADER.Grader(url)
        assert [grader.wait(number, keep_s=29.7) for number in (1, 2, 3)] == [scoring] * 3
    assert len(asked) <= 1 + 2 + 1 + 1


def test_a_solution_is_what_a_model_should_write_without_calculator_marks() -> None:
    item = {"question": "?", "answer": "48/2 = <<48/2=24>>24 clips\n#### 24"}
    assert TASK.Task(items=[item]).solution(item) == "48/2 = 24 clips\n#### 24"

"""The fixed-stage pipeline of agents/openhands: real scripts, a grading server on loopback, an agent that is played."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "agents" / "openhands"
NAMES = ("training", "grading", "limits", "journal", "turns", "stages", "connection")
SAVES = """\
import os, pathlib
out = pathlib.Path("output") / os.environ.get("NAME", "v1")
out.mkdir(parents=True, exist_ok=True)
(out / "config.json").write_text("{}")
(out / "model.safetensors").write_bytes(b"x")
print("loss 0.5")
"""


@pytest.fixture(scope="module")
def code() -> Iterator[dict[str, ModuleType]]:
    """The pipeline's modules, under their own names as in the image, and gone afterwards."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: __import__(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)


class Server:
    """A grading server that answers as it is told: `submit` is a list of (status, headers, body)."""

    def __init__(self) -> None:
        self.remaining, self.submit, self.asked = 1000.0, list[tuple[int, dict[str, str], Any]](), list[str]()
        self.states: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/time":
                    self.answer(200, {}, {"remaining": outer.remaining})
                else:
                    self.answer(200, {}, outer.states.pop(0))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body["model_path"])
                self.answer(*(outer.submit.pop(0) if outer.submit else (410, {}, {"error": "run ended"})))

            def answer(self, status: int, headers: dict[str, str], body: Any) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def takes(self, number: int, score: float) -> None:
        """The next submission is taken and scored."""
        self.submit.append((202, {}, {"submission_id": number}))
        self.states.append({"state": "queued"})
        self.states.append({"state": "scored", "reply": {"submission_id": number, "score": score}})


@pytest.fixture
def server() -> Iterator[Server]:
    value = Server()
    thread = threading.Thread(target=value.http.serve_forever, args=(0.01,))
    thread.start()
    yield value
    value.http.shutdown()
    thread.join()
    value.http.server_close()


class Agent:
    """Plays the agent: each message is answered by the next of `acts`, which may write files."""

    def __init__(self, acts: list[Callable[[], str]]) -> None:
        self.acts, self.heard, self.is_closed = acts, list[str](), False

    def say(self, text: str) -> str:
        self.heard.append(text)
        return self.acts.pop(0)()

    def close(self) -> None:
        self.is_closed = True


class Case:
    """A pipeline in a workspace of its own."""

    def __init__(self, code: dict[str, ModuleType], workspace: Path, server: Server) -> None:
        self.code, self.workspace, self.server = code, workspace, server
        self.slept: list[float] = []
        for name in ("code", "output"):
            (workspace / name).mkdir()

    def limits(self, **changes: Any) -> Any:
        values = {"iterations": 5, "fixes": 2, "steps_per_turn": 9, "training_s": 60, "iteration_s": 30}
        return self.code["limits"].Limits(**{**values, "log_characters": 500, **changes})

    def grader(self) -> Any:
        return self.code["grading"].Grader(self.server.url, self.slept.append)

    def journal(self) -> Any:
        return self.code["journal"].Journal(self.workspace / "state" / "p.json", self.workspace / "summary.md")

    def pipeline(self, agent: Agent, **limits: Any) -> Any:
        place = self.code["stages"].Place(self.workspace, "Teach it sums.", sys.executable, 0)
        return self.code["stages"].Pipeline(place, self.limits(**limits), self.grader(), self.journal(), lambda: agent)

    def writes(self, text: str) -> Callable[[], str]:
        """An act: the agent writes the training script."""

        def act() -> str:
            (self.workspace / "code" / "train.py").write_text(text)
            return "written"

        return act


@pytest.fixture
def case(code: dict[str, ModuleType], tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Case:
    workspace = tmp_path / "w"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    return Case(code, workspace, server)


def test_an_iteration_writes_trains_submits_and_analyses(case: Case) -> None:
    case.server.takes(1, 42.0)
    agent = Agent([case.writes(SAVES), lambda: "It worked.\n\nCONTINUE"])
    pipeline = case.pipeline(agent)
    assert pipeline.iterate() is None
    assert case.server.asked == ["output/v1"]
    written, analysed = agent.heard
    assert "Teach it sums." in written
    assert "iteration 1 of at most 5" in written
    assert '"score": 42.0' in analysed
    assert "loss 0.5" in analysed
    (entry,) = pipeline.journal.entries
    assert (entry.iteration, entry.score, entry.checkpoint, entry.trouble) == (1, 42.0, "output/v1", None)
    assert "It worked." in (case.workspace / "summary.md").read_text()
    assert (case.workspace / "pipeline" / "iteration_01" / "train_1.py").read_text() == SAVES
    assert agent.is_closed


def test_a_script_that_fails_goes_back_with_its_error(case: Case) -> None:
    case.server.takes(1, 1.0)
    agent = Agent([case.writes("raise SystemError('no such layer')"), case.writes(SAVES), lambda: "ok"])
    case.pipeline(agent).iterate()
    assert "exit code 1" in agent.heard[1]
    assert "no such layer" in agent.heard[1]
    assert case.server.asked == ["output/v1"]


def test_a_script_that_saves_nothing_goes_back_too(case: Case) -> None:
    case.server.takes(1, 1.0)
    agent = Agent([case.writes("print('done')"), case.writes(SAVES), lambda: "ok"])
    case.pipeline(agent).iterate()
    assert "no checkpoint was saved" in agent.heard[1]


def test_after_the_last_correction_the_iteration_ends_without_a_score(case: Case) -> None:
    agent = Agent([case.writes("1/0"), case.writes("1/0"), case.writes("1/0"), lambda: "hopeless\nDONE"])
    pipeline = case.pipeline(agent)
    assert pipeline.iterate() == "the agent says that it is done"
    assert case.server.asked == []
    assert pipeline.journal.entries[0].score is None
    assert "ZeroDivisionError" in agent.heard[-1]


def test_a_script_that_was_never_written_goes_back(case: Case) -> None:
    case.server.takes(1, 1.0)
    agent = Agent([lambda: "sorry", case.writes(SAVES), lambda: "ok"])
    case.pipeline(agent).iterate()
    assert "can't open file" in agent.heard[1]


def test_what_was_saved_before_the_time_limit_is_submitted(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case.code["limits"], "SHORTEST_TRAINING_S", 0.1)
    case.server.takes(1, 7.0)
    pipeline = case.pipeline(Agent([case.writes(SAVES + "__import__('time').sleep(600)"), lambda: "ok"]), training_s=1)
    pipeline.iterate()
    (entry,) = pipeline.journal.entries
    assert "stopped at its time limit" in entry.training
    assert entry.score == 7.0


def test_a_run_without_submissions_left_is_over(case: Case) -> None:
    case.server.submit.append((429, {"Retry-After": "3500"}, {"error": "over quota"}))
    pipeline = case.pipeline(agent := Agent([case.writes(SAVES)]))
    assert pipeline.iterate() == "no further submission is possible"
    assert "over quota" in pipeline.journal.entries[0].trouble
    assert agent.is_closed


def test_near_the_end_nothing_is_corrected_or_analysed(case: Case) -> None:
    case.server.remaining = 29.0
    agent = Agent([case.writes("1/0")])
    pipeline = case.pipeline(agent)
    pipeline.iterate()
    assert len(agent.heard) == 1
    assert pipeline.journal.next_iteration == 2


def test_the_score_is_kept_where_the_llm_fails_at_the_analysis(case: Case) -> None:
    def fails() -> str:
        raise RuntimeError("402")

    case.server.takes(1, 42.0)
    pipeline = case.pipeline(agent := Agent([case.writes(SAVES), fails]))
    with pytest.raises(RuntimeError):
        pipeline.iterate()
    assert case.journal().entries[0].score == 42.0
    assert agent.is_closed


def test_a_restarted_pipeline_goes_on_at_its_next_iteration(case: Case) -> None:
    case.server.takes(1, 42.0)
    case.pipeline(Agent([case.writes(SAVES), lambda: "try more data"])).iterate()
    agent = Agent([case.writes("1/0"), case.writes("1/0"), lambda: ""])
    case.pipeline(agent, fixes=1).iterate()
    assert "iteration 2 of at most 5" in agent.heard[0]
    assert "iteration 1: score 42.0" in agent.heard[0]
    assert "try more data" in agent.heard[0]


@pytest.mark.parametrize(
    ("words", "is_done"),
    [("All is said.\n\nDONE", True), ("x\n**DONE**\n", True), ("`DONE`.", True), ("DONE, or not", False), ("", False)],
)
def test_only_a_last_line_of_its_own_ends_the_run(code: dict[str, ModuleType], words: str, is_done: bool) -> None:
    assert code["turns"].is_done(words) is is_done


def test_a_submission_waits_for_its_quota_where_the_time_allows(case: Case) -> None:
    case.server.submit.append((429, {"Retry-After": "900"}, {"error": "over quota"}))
    case.server.takes(2, 5.0)
    assert case.grader().score("output/v1")["score"] == 5.0
    assert case.slept[0] == 900.0


@pytest.mark.parametrize(
    ("status", "headers"), [(429, {"Retry-After": "2000"}), (429, {}), (422, {}), (410, {}), (400, {})]
)
def test_a_submission_that_cannot_be_taken_is_refused(
    case: Case, code: dict[str, ModuleType], status: int, headers: dict[str, str]
) -> None:
    case.server.submit.append((status, headers, {"error": "because"}))
    with pytest.raises(code["grading"].Refused, match="because"):
        case.grader().score("output/v1")
    assert case.slept == []


def test_weights_that_are_known_are_not_submitted_twice(case: Case) -> None:
    case.server.submit.append((409, {}, {"error": "duplicate", "submission_id": 3}))
    case.server.states.append({"state": "scored", "reply": {"submission_id": 3, "score": 9.0}})
    assert case.grader().score("output/v1") == {"submission_id": 3, "score": 9.0}


def test_an_evaluation_that_failed_says_why(case: Case) -> None:
    case.server.submit.append((202, {}, {"submission_id": 3}))
    case.server.states.append({"state": "failed", "reply": None, "error": "it broke", "detail": "twice"})
    reply = case.grader().score("output/v1")
    assert (reply["score"], reply["error"], reply["detail"]) == (None, "it broke", "twice")


def test_a_score_that_comes_after_the_end_is_not_waited_for(case: Case, code: dict[str, ModuleType]) -> None:
    case.server.submit.append((202, {}, {"submission_id": 3}))
    case.server.states.append({"state": "queued"})
    case.server.remaining = 1.0
    with pytest.raises(code["grading"].Refused, match="before the end"):
        case.grader().score("output/v1")


def test_training_leaves_time_for_the_submission(case: Case) -> None:
    limits = case.limits(training_s=36_000)
    assert limits.training_time_s(1000) == 900
    assert limits.training_time_s(36_000) == 35_400
    assert limits.training_time_s(360_000) == 36_000
    assert limits.training_time_s(5) == 10


def test_the_newest_checkpoint_is_what_was_written_last(case: Case, code: dict[str, ModuleType]) -> None:
    look, newest = code["training"].checkpoints, code["training"].newest
    output = case.workspace / "output"

    def save(name: str, *files: str) -> None:
        (output / name).mkdir(parents=True, exist_ok=True)
        for file in files:
            (output / name / file).write_text("x")
            os.utime(output / name / file, ns=(next(clock), 0))
        os.utime(output / name / files[-1], ns=(0, next(clock)))

    clock = itertools.count(1)
    save("old", "model.safetensors", "config.json")
    before = look(output)
    assert newest(before, {}) == output / "old"
    assert newest(look(output), before) is None
    save("v1", "config.json", "model.safetensors")
    save("v2/step-5", "model.safetensors", "config.json")
    save("no-config", "model.safetensors")
    save("v2/checkpoint-5", "model.safetensors", "config.json", "training_args.bin")
    assert newest(look(output), before) == output / "v2" / "step-5"
    save("old", "model.safetensors")
    assert newest(look(output), before) == output / "old"


def test_several_gpus_are_used_by_accelerate(code: dict[str, ModuleType], tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert code["training"].gpu_count(tmp_path) == 2
    one = code["training"].command("python", Path("train.py"), 1)
    two = code["training"].command("python", Path("train.py"), 2)
    assert one == ["python", "train.py"]
    assert two[1:3] == ["-m", "accelerate.commands.launch"]
    assert two[-1] == "train.py"
    assert two[two.index("--num_processes") + 1] == "2"


def test_a_logs_tail_has_no_overwritten_progress(code: dict[str, ModuleType], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n 1%\r 2%\r100%\nlast \xff\n")
    tail = code["training"].Training(0, 1.0, log).tail(500)
    assert tail.splitlines() == ["first", "100%", "last �"]


def test_an_openai_compatible_server_is_asked_by_chat(code: dict[str, ModuleType]) -> None:
    given = {"LLM_PROVIDER": "openai", "LLM_MODEL": "org/m", "LLM_BASE_URL": "http://gateway:8098/v1"}
    fields = code["connection"].llm_fields(given)
    assert (fields["model"], fields["base_url"], fields["api_mode"]) == (
        "openai/org/m",
        "http://gateway:8098/v1",
        "chat",
    )
    assert fields["reasoning_effort"] is None
    assert code["connection"].llm_fields({**given, "LLM_API_MODE": "auto"})["api_mode"] == "auto"
    assert code["connection"].llm_fields({**given, "LLM_MAX_INPUT_TOKENS": "32000"})["max_input_tokens"] == 32000


@pytest.mark.parametrize(("provider", "path"), [("anthropic", ""), ("gemini", "/v1beta")])
def test_other_providers_have_their_own_paths(code: dict[str, ModuleType], provider: str, path: str) -> None:
    given = {"LLM_PROVIDER": provider, "LLM_MODEL": "m", "LLM_BASE_URL": "http://gateway:8098"}
    fields = code["connection"].llm_fields(given)
    assert (fields["model"], fields["base_url"]) == (f"{provider}/m", f"http://gateway:8098{path}")
    assert "api_mode" not in fields


def test_a_spent_budget_is_final_and_a_busy_provider_is_not(code: dict[str, ModuleType]) -> None:
    spent = RuntimeError("Error code: 402 - {'error': {'code': 'budget_exceeded'}}")
    outer = ValueError("the LLM failed")
    outer.__cause__ = spent
    assert code["connection"].is_final(outer)
    assert not code["connection"].is_final(RuntimeError("Error code: 503"))

"""The scorer as it runs: its own process, a fresh one per evaluation, an eval.py of every kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from served import service_process, wait_until

from harness.domain.specs import EvalMode
from harness.errors import EvaluationFailed
from harness.scorer.client import ScorerClient
from harness.scorer.evaluators.opencompass import is_installed
from harness.scorer.process import ENVIRONMENT, Worker, WorkerSpec
from harness.scorer.wire import ErrorReply, PromptsRequest, ScoreItem, ScoreReply, ScoreRequest
from harness.scorer.workers import Workers

EXACT = """
def evaluate(question, model_answer, reference_answer, **kwargs):
    return model_answer == reference_answer
"""
Score = Callable[..., ScoreReply]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmark")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[ScorerClient]:
    path = folder / "s.sock"
    with ExitStack() as stack:
        stack.enter_context(service_process("harness.scorer", path, "--benchmark", str(folder), "--memory-mb", "1024"))
        client = ScorerClient(path)
        wait_until(client.is_ready)
        yield client


@pytest.fixture
def score(folder: Path, client: ScorerClient) -> Score:
    def run(code: str, answers: Sequence[str] = ("a",), timeout_s: float = 20, **extra: object) -> ScoreReply:
        (folder / "eval.py").write_text(code)
        items = tuple(
            ScoreItem(item_id=f"item-{k}", question="q", reference="a", answer=answer, extra=extra)
            for k, answer in enumerate(answers)
        )
        return client.score(ScoreRequest(eval_mode=EvalMode.PER_SAMPLE, items=items, timeout_s=timeout_s))

    return run


def scores(reply: ScoreReply) -> list[float]:
    return [verdict.score for verdict in reply.verdicts]


def test_order_is_kept_and_booleans_are_scores(score: Score) -> None:
    assert scores(score(EXACT, ["a", "b", "a"])) == [1, 0, 1]


def test_extra_fields_reach_the_names_that_evaluate_takes(score: Score) -> None:
    assert scores(score("def evaluate(q, a, r, weight): return weight / 4", weight=3, colour="red")) == [0.75]
    assert scores(score("def evaluate(q, a, r, **extra): return len(extra) / 4", weight=3, colour="red")) == [0.5]


def test_extract_says_which_answers_could_not_be_read(score: Score) -> None:
    code = EXACT + "\ndef extract(model_answer):\n    return model_answer or None\n"
    assert [verdict.is_extracted for verdict in score(code, ["a", ""]).verdicts] == [True, False]


def test_extract_gets_the_extra_fields_that_it_takes(score: Score) -> None:
    code = EXACT + "\ndef extract(model_answer, form):\n    return model_answer if form == 'word' else None\n"
    assert [verdict.is_extracted for verdict in score(code, form="word", colour="red").verdicts] == [True]
    assert [verdict.is_extracted for verdict in score(code, form="number", colour="red").verdicts] == [False]


def test_files_beside_eval_can_be_imported(score: Score, folder: Path) -> None:
    (folder / "answers_of_this_benchmark.py").write_text("HALF = 0.5")
    code = "from answers_of_this_benchmark import HALF\ndef evaluate(*_, **__): return HALF"
    assert scores(score(code)) == [0.5]


def test_prints_do_not_touch_the_verdicts(score: Score) -> None:
    code = "print('{\"verdicts\": []}')\n" + EXACT.replace("    return", "    print('{' * 100); return")
    assert scores(score(code)) == [1]


def test_200_mb_of_output_do_no_harm(score: Score) -> None:
    code = "import sys\nfor _ in range(200): sys.stdout.write('x' * 2**20)\n" + EXACT
    assert scores(score(code)) == [1]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit(0)", "SystemExit"),
        ("import os; print('about to go'); os._exit(0)", "about to go"),
        ("import os; os.write(2, b'dying'); os.kill(os.getpid(), 9)", "dying"),
        ("1 / 0", "ZeroDivisionError"),
        ("def evaluate(*_): raise KeyError('gold')", "item-0: .*KeyError: 'gold'"),
        ("import sys\ndef evaluate(*_): sys.exit(3)", "item-0: .*SystemExit: 3"),
        ("def evaluate(*_): return float('nan')", "item-0: .*nan"),
        ("def evaluate(*_): return float('inf')", "item-0: .*inf"),
        ("def evaluate(*_): return 100", "item-0: .*100"),
        ("def evaluate(*_): return -0.5", "item-0: .*-0.5"),
        ("def evaluate(*_): return None", "item-0: .*NoneType"),
        ("def evaluate(*_): return '1.0'", "item-0: .*str"),
        ("def evaluate(*_): return len('x' * 2**34)", "item-0: .*MemoryError"),
        ("def grade(*_): return 1", "no function evaluate"),
        ("def evaluate(:", "SyntaxError"),
    ],
)
def test_an_evaluator_that_gives_no_score_fails_the_evaluation(score: Score, code: str, words: str) -> None:
    with pytest.raises(EvaluationFailed, match=rf"scorer \(evaluator\): .*{words}"):
        score(code)
    assert scores(score(EXACT)) == [1]


def test_the_item_that_failed_is_named(score: Score) -> None:
    with pytest.raises(EvaluationFailed, match="item-2"):
        score("def evaluate(q, a, r): return {'x': 1}[a]", ["x", "x", "y", "x"])


def test_a_hang_ends_at_the_limit_and_takes_its_children_along(score: Score, folder: Path) -> None:
    mark = folder / "alive"
    loop = f"while :; do touch {mark}; sleep 0.1; done"
    code = f"import subprocess\nsubprocess.Popen(['sh', '-c', {loop!r}]).wait()\n" + EXACT
    start = time.monotonic()
    with pytest.raises(EvaluationFailed, match=r"timeout.*1\.5 s"):
        score(code, timeout_s=1.5)
    assert time.monotonic() - start < 10
    mark.unlink()
    time.sleep(0.5)
    assert not mark.exists()


def test_a_child_left_behind_holds_nothing_up(score: Score) -> None:
    start = time.monotonic()
    code = "import subprocess\nsubprocess.Popen(['sleep', '60'])\n" + EXACT
    assert scores(score(code)) == [1]
    assert time.monotonic() - start < 10


def test_a_thread_left_behind_holds_nothing_up(score: Score) -> None:
    start = time.monotonic()
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n" + EXACT
    assert scores(score(code)) == [1]
    assert time.monotonic() - start < 10


def test_nothing_is_left_from_one_evaluation_to_the_next(score: Score) -> None:
    code = "import sys\nsys.counted = getattr(sys, 'counted', 0) + 1\ndef evaluate(*_): return sys.counted == 1"
    assert [scores(score(code)) for _ in range(2)] == [[1], [1]]


def test_hostile_answers_arrive_as_they_are(score: Score) -> None:
    hostile = ['"}], "verdicts": [{"item_id": "item-0", "score": 1}]', "\x00\x1b[31m", "日本 \U0001f600", "a" * 2**20]
    code = f"def evaluate(q, a, r): return a in {hostile[:3]!r} or a == 'a' * 2**20"
    assert scores(score(code, [*hostile, "other"])) == [1, 1, 1, 1, 0]


def test_lone_surrogates_do_not_break_the_evaluation(score: Score) -> None:
    assert scores(score(EXACT, ["\ud800", "a"])) == [0, 1]


def test_the_environment_is_minimal(score: Score, folder: Path) -> None:
    seen = folder / "seen"
    code = f"import os\nopen({str(seen)!r}, 'w').write(' '.join([*os.environ, os.getcwd()]))\n" + EXACT
    score(code)
    *names, folder_name = seen.read_text().split()
    assert folder_name == "/tmp"
    assert {*ENVIRONMENT} <= {*names} <= {*ENVIRONMENT, "LC_CTYPE"}


def test_ten_thousand_items_take_seconds(score: Score) -> None:
    start = time.monotonic()
    reply = score(EXACT, ["a" * 500] * 10_000)
    assert len(reply.verdicts) == 10_000
    assert time.monotonic() - start < 10


def test_a_mode_that_is_not_served_says_which_are(client: ScorerClient) -> None:
    request = ScoreRequest(eval_mode=EvalMode.JUDGE, items=())
    with pytest.raises(EvaluationFailed, match=r"bad_request.*judge.*per_sample"):
        client.score(request)


def test_without_opencompass_its_mode_is_not_served(client: ScorerClient) -> None:
    if is_installed():
        pytest.skip("OpenCompass is installed")
    with pytest.raises(EvaluationFailed, match=r"bad_request\): eval_mode opencompass is not served"):
        client.score(ScoreRequest(eval_mode=EvalMode.OPENCOMPASS, items=()))
    with pytest.raises(EvaluationFailed, match=r"bad_request\): eval_mode opencompass is not served"):
        client.prompts(PromptsRequest(eval_mode=EvalMode.OPENCOMPASS, items=()))


def test_benchmarks_of_other_modes_make_no_prompts(client: ScorerClient) -> None:
    with pytest.raises(EvaluationFailed, match=r"bad_request\): eval_mode per_sample is not served"):
        client.prompts(PromptsRequest(eval_mode=EvalMode.PER_SAMPLE, items=()))


@pytest.fixture
def spec(tmp_path: Path) -> WorkerSpec:
    (tmp_path / "eval.py").write_text("import os\ndef evaluate(*_): raise KeyError(os.getpid())\n")
    return WorkerSpec(tmp_path / "eval.py")


def pid_of(reply: ScoreReply | ErrorReply) -> int:
    assert isinstance(reply, ErrorReply)
    return int(reply.detail.rpartition("KeyError: ")[2].split(".")[0])


ONE = ScoreRequest(
    eval_mode=EvalMode.PER_SAMPLE, items=(ScoreItem(item_id="a", question="q", reference="r", answer="a"),)
)


def test_a_process_that_waits_serves_once(spec: WorkerSpec) -> None:
    workers = Workers(spec, is_ahead=True)
    workers.prepare()
    pids = []
    for _ in range(3):
        with workers.fresh() as worker:
            pids.append(pid_of(worker.score(ONE)))
    assert len(set(pids)) == 3
    workers.close()


def test_a_process_that_died_while_it_waited_is_replaced(spec: WorkerSpec) -> None:
    workers = Workers(spec, is_ahead=True)
    with workers.fresh() as worker:
        worker.end()
    waiting = workers._waiting
    assert waiting is not None
    waiting.end()
    with workers.fresh() as worker:
        assert worker is not waiting
        assert pid_of(worker.score(ONE))
    workers.close()


def test_a_process_goes_when_its_service_does(spec: WorkerSpec) -> None:
    worker = Worker(spec)
    process = worker._process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 0
    worker.end()

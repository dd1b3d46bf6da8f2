"""The executor as a process of its own: what is right passes, what is wrong is told, its death is never a score."""

from __future__ import annotations

import os
import signal
import socket
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from executor_process import executor_process, executors
from served import wait_until

from harness.errors import EvaluationFailed
from harness.executor.__main__ import EXIT_SESSION_OVER
from harness.executor.client import CandidateFailed, ExecutorGone, Session, answers, open_session
from harness.executor.frames import VERSION, Frame, Kind
from harness.executor.literals import NotLiteral
from harness.executor.service import MAX_CANDIDATES
from harness.scorer.evaluators.code import Code
from harness.scorer.wire import ItemVerdict, ScoreItem

Call = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


@pytest.fixture
def session(path: Path) -> Iterator[Session]:
    with executor_process(path), open_session(path, 30) as session:
        yield session


@pytest.fixture
def call(session: Session) -> Call:
    def run(source: str, *args: object, **kwargs: object) -> Any:
        candidate = session.load(textwrap.dedent(source))
        try:
            return candidate.function("f")(*args, **kwargs)
        finally:
            candidate.close()

    return run


def test_values_go_there_and_back(call: Call) -> None:
    values = [1, {"a": (2.5, None)}, {3}, b"x", "\ud800", 10**50, [True, frozenset([1])]]
    assert call("def f(*args, last): return [*args, last]", *values, last="end") == [*values, "end"]


def test_a_program_keeps_its_state_and_shares_none(session: Session) -> None:
    one, other = (session.load("n = 0\ndef f():\n    global n\n    n += 1\n    return n") for _ in range(2))
    assert [one.function("f")(), one.function("f")(), other.function("f")()] == [1, 2, 1]


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasync def g():\n    await asyncio.sleep(0.01)\n    return 5\ndef f(): return asyncio.run(g())",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: 'int' = 5\ndef f(): return A().x",
        "from functools import cache\n@cache\ndef g(n): return 5 if n < 1 else g(n - 1)\ndef f(): return g(400)",
        "import hashlib\ndef f(): return 5 if hashlib.md5(b'').hexdigest()[:4] == 'd41d' else 0",
        "print('loading', flush=True)\ndef f():\n    print('x' * 10**6)\n    return 5",
        "if __name__ == '__main__':\n    raise SystemExit\ndef f(): return 5",
        "import sys\nsys.setrecursionlimit(20_000)\ndef g(n): return n and g(n - 1)\ndef f(): return 5 + g(15_000)",
        "import time\ndef f():\n    time.sleep(0.5)\n    return 5",
        "import string, collections, itertools, re, math, decimal, zoneinfo\ndef f(): return 5",
        "class Stack:\n    def f(self): return 5\nf = Stack().f",
    ],
)
def test_ordinary_programs_run(call: Call, source: str) -> None:
    assert call(source) == 5


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(): return 1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(x): return x", "TypeError"),
        ("def g(): return 1", "KeyError: 'f'"),
        ("def f(:", "SyntaxError"),
        ("def f(x: Undefined = 1): return x", "NameError"),
        ("x = \x00", "ValueError|SyntaxError"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("def f(): raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import os\ndef f(): os._exit(0)", r"ended \(status 0\)"),
        ("def f():\n    while True: pass", "1 s of processor time"),
        ("def f(): return object()", "type object is no literal"),
        ("def f(): return 'x' * 2**21", "larger than"),
        ("def f(): return bytearray(2**30)", "MemoryError"),
        ("import os\ndef f(): os.write(3, b'\\0\\0\\0\\2{}'); return 1", "more than one reply|token"),
        ("import os\nos.write(3, bytes(4))\ndef f(): return 1", "more than one|without being asked|token"),
        ("import os\ndef f(): os.close(3)", "ended"),
    ],
)
def test_what_is_wrong_is_told(path: Path, source: str, words: str) -> None:
    with executor_process(path, "--cpu-s", "1"), open_session(path, 30) as session:
        with pytest.raises(CandidateFailed, match=words):
            session.load(source).function("f")()
        assert session.load("def f(): return 5").function("f")() == 5


def test_waiting_has_a_limit_of_its_own(path: Path) -> None:
    with executor_process(path, "--idle-s", "0.5"), open_session(path, 30) as session:
        start = time.monotonic()
        with pytest.raises(CandidateFailed, match=r"waited longer than 0\.5 s"):
            session.load("import time\ntime.sleep(100)")
        assert time.monotonic() - start < 20


def test_time_between_calls_is_the_checks_own(path: Path) -> None:
    with executor_process(path, "--idle-s", "0.5"), open_session(path, 30) as session:
        candidate = session.load("def f(): return 5")
        time.sleep(1.2)
        assert candidate.function("f")() == 5


def test_who_waits_for_a_processor_does_not_lose_time(path: Path) -> None:
    # Many more than there are processors, each with less to do than its limit; all together take much longer.
    work = "from time import process_time\ndef f():\n    while process_time() < 0.3: pass\n    return 5"
    n = 10 * (os.cpu_count() or 1)
    with executor_process(path, "--idle-s", "1"), open_session(path, 30) as session, ThreadPoolExecutor(n) as pool:
        assert list(pool.map(lambda _: session.load(work).function("f")(), range(n))) == [5] * n


def test_a_failure_cannot_be_overlooked(session: Session) -> None:
    candidate = session.load("def f(x): return 1 / x")
    function = candidate.function("f")
    with pytest.raises(CandidateFailed):
        function(0)
    with pytest.raises(CandidateFailed, match="failed before"):
        function(1)
    assert candidate.has_failed
    assert not issubclass(CandidateFailed, Exception)


def test_an_argument_that_is_no_literal_is_the_checks_mistake(session: Session) -> None:
    with pytest.raises(NotLiteral):
        session.load("def f(x): return x").function("f")(object())


def test_equal_programs_behave_equally(path: Path) -> None:
    source = "import random\ndef f(): return [random.random(), list({'a', 'b', 'c', 'd'}), hash('x')]"
    seen = []
    with executors(path):
        for _ in range(2):
            with open_session(path, 30) as session:
                seen += [session.load(source).function("f")() for _ in range(2)]
    assert seen == [seen[0]] * 4


def test_one_session_then_the_end(path: Path) -> None:
    with executor_process(path) as process:
        wait_until(lambda: answers(path))
        # Who only looks ends nothing.
        assert answers(path)
        with open_session(path, 30) as session:
            session.load("def f(): return 5")
            assert not answers(path)
            with pytest.raises(ExecutorGone), open_session(path, 0.3):
                pass
        assert process.wait(30) == EXIT_SESSION_OVER


def test_nothing_of_it_is_left_when_the_scorer_dies(path: Path) -> None:
    with executor_process(path) as process:
        wait_until(lambda: answers(path))
        with socket.socket(socket.AF_UNIX) as scorer:
            scorer.connect(str(path))
            scorer.sendall(Frame(Kind.HELLO, 0, VERSION).pack())
            source = b'{"token": "t", "source": "while True: pass"}'
            scorer.sendall(Frame(Kind.PROGRAM, 1, source).pack())
            wait_until(lambda: bool(children_of(process.pid)))
            (child,) = children_of(process.pid)
        assert process.wait(30) == EXIT_SESSION_OVER
        assert not Path(f"/proc/{child}").exists()


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", b"", b"H" * 18, os.urandom(18)])
def test_strangers_start_no_session(path: Path, noise: bytes) -> None:
    with executor_process(path):
        wait_until(lambda: answers(path))
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(path))
            stranger.sendall(noise)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
        with open_session(path, 30) as session:
            assert session.load("def f(): return 5").function("f")() == 5


def test_its_death_fails_the_evaluation_and_no_candidate(path: Path) -> None:
    with executor_process(path) as process, open_session(path, 30) as session:
        threading.Timer(0.5, process.send_signal, (signal.SIGKILL,)).start()
        with pytest.raises(ExecutorGone, match="broke off"):
            session.load("import time\ntime.sleep(100)")
        with pytest.raises(ExecutorGone):
            session.load("def f(): return 5")


def test_a_process_that_cannot_be_started_now_is_started_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.executor.client.START_PAUSE_S", 0.1)
    with executor_process(path), open_session(path, 30) as session:
        full = [session.load("pass") for _ in range(MAX_CANDIDATES)]
        threading.Timer(0.3, full[0].close).start()
        assert session.load("def f(): return 5").function("f")() == 5
        with pytest.raises(ExecutorGone, match="could not start a process"):
            session.load("pass")


def test_a_link_in_its_folder_is_not_followed(path: Path, tmp_path: Path) -> None:
    with executor_process(tmp_path / "other.sock"):
        wait_until(lambda: answers(tmp_path / "other.sock"))
        path.symlink_to(tmp_path / "other.sock")
        assert not answers(path)
        with pytest.raises(ExecutorGone, match="no executor answered"), open_session(path, 0.3):
            pass


EVAL = """
def program(question, model_answer, **extra):
    return model_answer or None

def check(candidate, question, reference, **extra):
    f = candidate.function("f")
    {check}
"""
RIGHT, WRONG = "def f(x): return x + 1", "def f(x): return None"


def judged(path: Path, check: str, *sources: str) -> list[ItemVerdict]:
    file = path.with_name("eval.py")
    file.write_text(EVAL.replace("{check}", textwrap.indent(textwrap.dedent(check), "    ").strip()))
    items = [ScoreItem(item_id=str(k), question="q", reference="2", answer=source) for k, source in enumerate(sources)]
    with executors(path, "--cpu-s", "1"):
        return Code(file, path).run(items)


def scores(path: Path, check: str, *sources: str) -> list[float]:
    return [verdict.score for verdict in judged(path, check, *sources)]


def test_a_check_that_raises_nothing_or_gives_a_score(path: Path) -> None:
    assert scores(path, "assert f(1) == 2", RIGHT, WRONG, "def f(:", "") == [1, 0, 0, 0]
    assert scores(path, "return 0.25 if f(1) == 2 else 0", RIGHT, WRONG) == [0.25, 0]


def test_an_answer_without_a_program_is_not_extracted(path: Path) -> None:
    assert [verdict.is_extracted for verdict in judged(path, "assert f(1)", RIGHT, WRONG, "")] == [True, True, False]


def test_what_a_check_makes_of_a_strange_value_is_the_candidates_doing(path: Path) -> None:
    assert scores(path, "assert abs(f(1) - 2) < 1", RIGHT, WRONG) == [1, 0]
    assert scores(path, "assert len(f(1) + [0]) == 1", "def f(x): return []", RIGHT) == [1, 0]


def test_a_value_that_is_too_large_to_be_an_argument_again_costs_its_item_only(path: Path) -> None:
    deep = "def f(x):\n    y = 2\n    for _ in range(64): y = [y]\n    return y if x == 1 else x"
    wide = "def f(x): return [0] * 49_999 if x == 1 else x"
    assert scores(path, "assert f([f(1)]) == [2]", "def f(x): return 2 if x == 1 else x", deep, wide) == [1, 0, 0]


def test_a_check_that_swallows_failures_does_not_make_them_pass(path: Path) -> None:
    check = "try:\n    f(1)\nexcept BaseException:\n    pass"
    assert scores(path, check, RIGHT, "def f(x): raise ValueError", "def f(x): exit(0)") == [1, 0, 0]


def test_a_value_that_keeps_a_check_busy_costs_its_item_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.scorer.evaluators.code.CHECK_CPU_S", 0.5)
    check = "for k in range(f(1)):\n    pass"
    assert scores(path, check, RIGHT, "def f(x): return 10**18", RIGHT) == [1, 0, 1]


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("1 / 0", "item 0: check.. raised ZeroDivisionError"),
        ("f(1); undefined", "NameError"),
        ("f(object())", "NotLiteral"),
        ("f(1); f(object())", "NotLiteral"),
        ("f([0] * 100_000)", "TooLarge"),
        ("f(1); raise SystemExit", "SystemExit"),
        ("f(1); return 7", r"check.. returned 7\.0"),
        ("f(1); return 'yes'", "check.. returned str"),
    ],
)
def test_a_benchmark_whose_check_is_broken_fails_the_evaluation(path: Path, check: str, words: str) -> None:
    with pytest.raises(EvaluationFailed, match=words):
        scores(path, check, RIGHT)


def test_without_an_executor_there_is_no_score(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.scorer.evaluators.code.open_session", partial(open_session, patience_s=0.3))
    file = path.with_name("eval.py")
    file.write_text(EVAL.replace("{check}", "pass"))
    item = ScoreItem(item_id="0", question="q", reference="2", answer=RIGHT)
    with pytest.raises(EvaluationFailed, match="no executor answered"):
        Code(file, path).run([item])

"""The scorer image, started as a run starts it, on the shipped benchmarks' own evaluators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from built_images import ROOT, built_image
from served import wait_until

from harness.domain.specs import EvalMode
from harness.errors import EvaluationFailed
from harness.home import Home
from harness.scorer.client import ScorerClient
from harness.scorer.wire import ScoreItem, ScoreRequest

RUN_ID = "20260101T000000_scorer_0000"

pytestmark = pytest.mark.docker


@contextmanager
def scorer_of(benchmark: Path, home: Home) -> Iterator[ScorerClient]:
    from harness.sandbox.containers import remove_container
    from harness.sandbox.engine import connect
    from harness.sandbox.owner import current_owner
    from harness.sandbox.services import scorer_service, start_services

    service = scorer_service(home, RUN_ID, current_owner(), built_image("scorer"), benchmark)
    engine = connect()
    try:
        (started,) = start_services(engine, home, [service], timeout_s=60)
        try:
            client = ScorerClient(started.socket)
            wait_until(client.is_ready)
            yield client
        finally:
            remove_container(engine, started.container_id)
    finally:
        engine.close()


def scores(client: ScorerClient, reference: str, *answers: str, timeout_s: float = 60) -> list[float]:
    items = tuple(
        ScoreItem(item_id=str(k), question="q", reference=reference, answer=answer) for k, answer in enumerate(answers)
    )
    request = ScoreRequest(eval_mode=EvalMode.PER_SAMPLE, items=items, timeout_s=timeout_s)
    return [verdict.score for verdict in client.score(request).verdicts]


def test_gsm8k_is_scored_in_the_image(home: Home) -> None:
    with scorer_of(ROOT / "benchmarks" / "gsm8k", home) as client:
        assert scores(client, "9 * 2 = 18\n#### 18", "so it is #### 18", "it is 18.", "17", "") == [1, 1, 0, 0]


def test_an_evaluator_that_eats_memory_goes_and_the_service_stays(home: Home, tmp_path: Path) -> None:
    benchmark = tmp_path / "greedy"
    benchmark.mkdir()
    # Below the limit of address space, above the container's memory.
    code = (
        "def evaluate(question, answer, reference):\n"
        "    if answer == 'eat':\n"
        "        kept = [bytearray(b'x' * 2**24) for _ in range(300)]\n"
        "    return 1.0\n"
    )
    (benchmark / "eval.py").write_text(code)
    with scorer_of(benchmark, home) as client:
        with pytest.raises(EvaluationFailed):
            scores(client, "r", "eat")
        assert scores(client, "r", "fine") == [1]


def test_an_evaluator_reaches_nothing_but_its_benchmark(home: Home, tmp_path: Path) -> None:
    benchmark = tmp_path / "curious"
    benchmark.mkdir()
    (benchmark / "eval.py").write_text(
        "import os, pathlib, socket\n"
        "def evaluate(question, answer, reference):\n"
        "    if sorted(os.listdir('/sys/class/net')) != ['lo'] or os.getuid() == 0:\n"
        "        return 0.0\n"
        "    for place in ('/benchmark/x', '/opt/x', '/x'):\n"
        "        try:\n"
        "            pathlib.Path(place).write_text('x')\n"
        "            return 0.25\n"
        "        except OSError:\n"
        "            pass\n"
        "    try:\n"
        "        socket.create_connection(('1.1.1.1', 53), timeout=1)\n"
        "        return 0.5\n"
        "    except OSError:\n"
        "        return 1.0\n"
    )
    with scorer_of(benchmark, home) as client:
        assert scores(client, "r", "a") == [1]

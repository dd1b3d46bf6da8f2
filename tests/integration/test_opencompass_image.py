"""eval_mode opencompass in its image, held against OpenCompass's own pipeline there, which runs without our code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from built_images import ROOT, built_image
from opencompass_golden import golden, golden_of, prepared
from served import wait_until

from harness.domain.specs import EvalMode
from harness.errors import EvaluationFailed
from harness.home import Home
from harness.scorer.client import ScorerClient
from harness.scorer.wire import AskedItem, PromptsReply, PromptsRequest, ScoreItem, ScoreReply, ScoreRequest

CONFIG = "gsm8k_gen_1d7fe4"

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def image() -> str:
    return built_image("opencompass")


@pytest.fixture(scope="module")
def report(image: str) -> dict[str, Any]:
    """What OpenCompass asks and how it judges, by itself."""
    import docker

    client = docker.from_env(timeout=600)
    command = ["python", "/tests/opencompass_pipeline.py", CONFIG, "/tests/data/gsm8k_answers.jsonl"]
    mounts = [docker.types.Mount("/tests", str(ROOT / "tests"), type="bind", read_only=True)]
    try:
        output = client.containers.run(image, command, mounts=mounts, network_mode="none", remove=True, stderr=False)
    finally:
        client.close()
    told: dict[str, Any] = json.loads(output.decode().splitlines()[-1])
    return told


@contextmanager
def serving(image: str, benchmark: str, folder: Path, *, has_executor: bool) -> Iterator[ScorerClient]:
    """The scorer of a run on a shipped benchmark, started as a run starts it."""
    from harness.sandbox.containers import remove_container
    from harness.sandbox.engine import connect
    from harness.sandbox.owner import current_owner
    from harness.sandbox.services import executor_service, scorer_service, start_services

    home, owner, path = Home(folder / "home"), current_owner(), ROOT / "benchmarks" / benchmark
    run_id = f"20260101T000000_opencompass-{benchmark}_0000"
    home.create()
    services = [scorer_service(home, run_id, owner, image, path, has_executor=has_executor)]
    if has_executor:
        services.insert(0, executor_service(home, run_id, owner, built_image("executor")))
    engine = connect()
    try:
        started = start_services(engine, home, services, timeout_s=120)
        try:
            client = ScorerClient(started[-1].socket)
            wait_until(client.is_ready)
            yield client
        finally:
            for service in started:
                remove_container(engine, service.container_id)
    finally:
        engine.close()


@pytest.fixture(scope="module")
def client(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScorerClient]:
    with serving(image, "gsm8k", tmp_path_factory.mktemp("opencompass"), has_executor=False) as client:
        yield client


def asked(client: ScorerClient, *, chat: bool) -> PromptsReply:
    items = tuple(AskedItem(item_id=row["id"], question=row["question"]) for row in prepared())
    return client.prompts(
        PromptsRequest(eval_mode=EvalMode.OPENCOMPASS, opencompass_dataset=CONFIG, chat=chat, items=items)
    )


def scored(client: ScorerClient, rows: list[dict[str, str]], dataset: str | None = CONFIG) -> ScoreReply:
    items = tuple(
        ScoreItem(item_id=row["id"], question=row["question"], reference=row["reference"], answer=row["answer"])
        for row in rows
    )
    return client.score(ScoreRequest(eval_mode=EvalMode.OPENCOMPASS, opencompass_dataset=dataset, items=items))


def test_the_image_is_a_scorer_like_the_others(image: str) -> None:
    import docker

    client = docker.from_env(timeout=600)
    script = (
        "id -u; ls -d /wheelhouse; ls /usr/local/share/ca-certificates; env | grep -i pip_; /opt/venv/bin/pip check"
    )
    try:
        output = client.containers.run(image, ["sh", "-c", script], network_mode="none", remove=True)
    finally:
        client.close()
    assert output.decode().splitlines() == ["65532", "No broken requirements found."]


def test_a_chat_model_is_asked_what_opencompass_would_ask_it(client: ScorerClient, report: dict[str, Any]) -> None:
    reply = asked(client, chat=True)
    assert [[m.model_dump() for m in prompt.messages or ()] for prompt in reply.prompts] == report["chat"]
    assert [prompt.plain for prompt in reply.prompts] == report["base"]


def test_a_base_model_is_asked_what_opencompass_would_ask_it(client: ScorerClient, report: dict[str, Any]) -> None:
    reply = asked(client, chat=False)
    assert [prompt.text for prompt in reply.prompts] == report["base"]
    assert {prompt.messages for prompt in reply.prompts} == {None}


def test_answers_are_as_long_as_opencompass_lets_them_be(client: ScorerClient, report: dict[str, Any]) -> None:
    reply = asked(client, chat=True)
    assert reply.max_tokens == report["options"]["max_new_tokens"] == 512
    assert reply.stop == ()


def test_every_answer_is_judged_as_by_opencompass_itself(client: ScorerClient, report: dict[str, Any]) -> None:
    rows = prepared()
    assert len(rows) >= 60
    verdicts = scored(client, rows).verdicts
    own = golden_of(report)
    ours = {verdict.item_id: (verdict.score, verdict.is_extracted) for verdict in verdicts}
    assert ours == {
        item_id: (float(theirs["right"]), theirs["found"] != "NULL") for item_id, theirs in own["verdicts"].items()
    }
    assert 100 * sum(verdict.score for verdict in verdicts) / len(rows) == pytest.approx(own["accuracy"])


def test_the_stored_verdicts_are_opencompasss_own(report: dict[str, Any]) -> None:
    assert golden_of(report) == golden()


def test_an_item_that_opencompass_cannot_read_fails_the_evaluation(client: ScorerClient) -> None:
    rows = prepared()[:2]
    with pytest.raises(EvaluationFailed, match=r"evaluator\): scoring: OpenCompass raised IndexError"):
        scored(client, [rows[0], {**rows[1], "reference": "18, but without a mark"}])
    assert len(scored(client, rows).verdicts) == 2


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ("gsm8k_gen_1d7fe", "no dataset config `gsm8k_gen_1d7fe`.*gsm8k_gen_1d7fe4"),
        ("bbh_gen_4a31fa", "describes 27 datasets"),
        ("gsm8k_agent_gen_c3dff3", "Gsm8kAgentEvaluator"),
    ],
)
def test_what_is_not_served_is_named(client: ScorerClient, dataset: str | None, words: str) -> None:
    with pytest.raises(EvaluationFailed, match=words):
        scored(client, prepared()[:1], dataset)


def test_hostile_answers_are_only_wrong(client: ScorerClient) -> None:
    row = prepared()[0]
    hostile = ["\x00", "\ud800", "9" * 100_000, "-" * 100_000, "1e999", "__import__('os')._exit(0)", "{answer} {}"]
    verdicts = scored(client, [{**row, "id": str(k), "answer": answer} for k, answer in enumerate(hostile)]).verdicts
    assert [verdict.score for verdict in verdicts] == [0.0] * len(hostile)


PROMPT = 'def add(a, b):\n    """The sum."""\n'
TEST = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
PROGRAMS = {
    "a block with the whole function": ("Here:\n```python\ndef add(a, b):\n    return a + b\n```\nDone.", 1.0),
    "a wrong one": ("```python\ndef add(a, b):\n    return a - b\n```", 0.0),
    "the whole function without a block": ("def add(a, b):\n    return a + b\n", 1.0),
    # OpenCompass strips the first line's indentation, and so do we in this mode.
    "a body": ("    return a + b\n", 0.0),
    "an exit": ("```python\nimport os\nos._exit(0)\n```", 0.0),
    "nothing": ("", 0.0),
}


def test_programs_are_read_by_opencompass_and_run_in_the_executor(image: str, tmp_path: Path) -> None:
    extra = {"entry_point": "add", "test": TEST}
    items = tuple(
        ScoreItem(item_id=kind, question=PROMPT, reference="", answer=answer, extra=extra)
        for kind, (answer, _) in PROGRAMS.items()
    )
    dataset = "humaneval_gen_8e312c"
    with serving(image, "humaneval", tmp_path, has_executor=True) as client:
        made = client.prompts(
            PromptsRequest(
                eval_mode=EvalMode.OPENCOMPASS,
                opencompass_dataset=dataset,
                items=(AskedItem(item_id="1", question=PROMPT, extra=extra),),
            )
        )
        reply = client.score(ScoreRequest(eval_mode=EvalMode.OPENCOMPASS, opencompass_dataset=dataset, items=items))
    (prompt,) = made.prompts
    assert PROMPT.strip() in str(prompt.plain)
    assert {verdict.item_id: verdict.score for verdict in reply.verdicts} == {k: s for k, (_, s) in PROGRAMS.items()}
    assert [verdict.item_id for verdict in reply.verdicts if not verdict.is_extracted] == ["nothing"]

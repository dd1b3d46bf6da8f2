"""The executor's real container: hostile answers fail, hurt nobody, and leave nothing for the next evaluation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from built_images import ROOT, built_image
from hostile_programs import ATTEMPTS, ENTRY_POINT, HOSTILE, QUESTION, RIGHT, TEST
from served import wait_until

from harness.domain.specs import EvalMode
from harness.errors import ServiceUnavailable
from harness.executor.client import CandidateFailed, Session, open_session
from harness.home import Home
from harness.scorer.client import ScorerClient
from harness.scorer.evaluators.eval_file import EvalFile
from harness.scorer.wire import ItemVerdict, ScoreItem, ScoreRequest

RUN_ID = "20260101T000000_executor_0000"
HUMANEVAL = ROOT / "benchmarks" / "humaneval"
EXTRA = {"entry_point": ENTRY_POINT, "test": TEST}
# What a right answer may say too much, or in another form.
RIGHT_FORMS = (
    RIGHT,
    "return sum(numbers)",
    f"Here it is:\n```python\n{QUESTION}{RIGHT}```\nIt adds them up.",
    f"{QUESTION}{RIGHT}\nThis adds them up.",
)

pytestmark = pytest.mark.docker


class Containers:
    """One executor and one scorer beside it, started as a run starts them."""

    def __init__(self, home: Home, run_id: str = RUN_ID) -> None:
        from harness.sandbox.engine import connect
        from harness.sandbox.owner import current_owner
        from harness.sandbox.services import executor_service, scorer_service, start_services, stop_services

        self.client = connect()
        self.home, self.run_id = home, run_id
        self._stop = stop_services
        owner = current_owner()
        executor = executor_service(home, run_id, owner, built_image("executor"))
        scorer = scorer_service(home, run_id, owner, built_image("scorer"), HUMANEVAL, has_executor=True)
        started = start_services(self.client, home, [executor, scorer], timeout_s=60)
        self.executor, self.executor_socket = started[0].container_id, started[0].socket
        self.scorer = ScorerClient(started[1].socket)

    def stop(self) -> None:
        self._stop(self.client, self.home, self.run_id)
        self.client.close()

    def state(self) -> dict[str, Any]:
        return dict(self.client.api.inspect_container(self.executor))

    def score(self, items: list[ScoreItem]) -> dict[str, ItemVerdict]:
        request = ScoreRequest(eval_mode=EvalMode.CODE, items=tuple(items), timeout_s=540)
        return {verdict.item_id: verdict for verdict in self.scorer.score(request).verdicts}


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.create()
    containers = Containers(home)
    try:
        wait_until(containers.scorer.is_ready)
        yield containers
    finally:
        containers.stop()


def task(item_id: str, answer: str) -> ScoreItem:
    return ScoreItem(item_id=item_id, question=QUESTION, reference=RIGHT, answer=answer, extra=EXTRA)


@contextmanager
def sequential_checks(containers: Containers) -> Iterator[Any]:
    """A function that says whether an answer passes, each in a process of its own in one and the same executor."""
    file = EvalFile(HUMANEVAL / "eval.py")
    program, check = file.function("program", ()), file.function("check", ())

    def passes(session: Session, answer: str) -> bool:
        try:
            candidate = session.load(program(QUESTION, answer, extra=EXTRA) or "")
            check(candidate, QUESTION, RIGHT, extra=EXTRA)
            candidate.close()
        except (AssertionError, TypeError, CandidateFailed):
            return False
        return True

    with open_session(containers.executor_socket) as session:
        yield lambda answer: passes(session, answer)


def test_there_are_more_than_enough() -> None:
    assert len(HOSTILE) >= 25


def test_each_hostile_answer_fails_and_a_right_one_passes_after_it(containers: Containers) -> None:
    with sequential_checks(containers) as passes:
        assert passes(RIGHT)
        for name, answer in HOSTILE.items():
            assert not passes(answer), name
            assert passes(RIGHT), f"after {name}"


def test_a_mixed_batch_gives_exactly_the_right_verdicts(containers: Containers) -> None:
    items, expected = [], {}
    for number, (name, answer) in enumerate(HOSTILE.items()):
        items += [task(f"hostile {name}", answer), task(f"right {number}", RIGHT_FORMS[number % len(RIGHT_FORMS)])]
        expected |= {f"hostile {name}": 0.0, f"right {number}": 1.0}
    verdicts = containers.score(items)
    assert {name: verdict.score for name, verdict in verdicts.items()} == expected


def test_every_evaluation_has_a_new_executor(containers: Containers) -> None:
    def wait_started_after(then: str) -> str:
        wait_until(lambda: containers.state()["State"]["StartedAt"] != then and containers.state()["State"]["Running"])
        return str(containers.state()["State"]["StartedAt"])

    started = containers.state()["State"]["StartedAt"]
    for _ in range(2):
        verdicts = containers.score([task("right", RIGHT), task("wrong", "    return 0\n"), task("none", "")])
        assert [(v.score, v.is_extracted) for v in verdicts.values()] == [(1.0, True), (0.0, True), (0.0, False)]
        started = wait_started_after(started)


def test_hundred_sleepers_cost_their_own_time_only(containers: Containers) -> None:
    sleeper = task("sleeper", HOSTILE["sleep"])
    start = time.monotonic()
    verdicts = containers.score(
        [sleeper.model_copy(update={"item_id": f"s{k}"}) for k in range(100)]
        + [task(f"r{k}", RIGHT) for k in range(20)]
    )
    assert {verdict.score for name, verdict in verdicts.items() if name.startswith("s")} == {0.0}
    assert {verdict.score for name, verdict in verdicts.items() if name.startswith("r")} == {1.0}
    # One after the other they would take 300 s.
    assert time.monotonic() - start < 90


def test_the_container_is_locked_down(containers: Containers) -> None:
    config = containers.state()["HostConfig"]
    assert config["NetworkMode"] == "none"
    assert config["ReadonlyRootfs"]
    assert config["CapDrop"] == ["ALL"]
    assert config["SecurityOpt"] == ["no-new-privileges:true"]
    assert not config.get("Tmpfs")
    mounts = containers.state()["Mounts"]
    assert [(m["Destination"], m["RW"]) for m in mounts] == [("/sock", True)]
    assert Path(mounts[0]["Source"]) == containers.executor_socket.parent
    assert containers.state()["Config"]["User"] not in ("", "0", "0:0", "root")


@pytest.fixture
def own_containers(home: Home) -> Iterator[Containers]:
    """A pair that a test may break."""
    containers = Containers(home, RUN_ID.replace("0000", "0001"))
    try:
        wait_until(containers.scorer.is_ready)
        yield containers
    finally:
        containers.stop()


def test_a_scorer_is_not_ready_without_its_executor(own_containers: Containers) -> None:
    own_containers.client.api.kill(own_containers.executor)
    wait_until(lambda: not own_containers.state()["State"]["Running"])
    assert not own_containers.scorer.is_ready()


def test_an_executor_that_crashes_is_there_again(own_containers: Containers) -> None:
    before = own_containers.state()["State"]
    # From inside, as a crash or the kernel's lack of memory would end it: Docker restarts what nobody stopped.
    inside = own_containers.client.api.exec_create(own_containers.executor, ["pkill", "-9", "python3"])
    own_containers.client.api.exec_start(inside["Id"])
    wait_until(lambda: own_containers.state()["State"]["StartedAt"] != before["StartedAt"])
    wait_until(own_containers.scorer.is_ready)
    assert own_containers.score([task("right", RIGHT)])["right"].score == 1


def test_all_is_removed_also_while_docker_restarts_it(own_containers: Containers) -> None:
    from harness.sandbox import reaper

    # Short sessions, so that Docker pauses before it starts the next.
    for _ in range(3):
        with open_session(own_containers.executor_socket) as session:
            session.load("pass")
    found = reaper.remove_run_objects(own_containers.client, own_containers.home, own_containers.run_id)
    assert len(found.containers) == 2
    assert not reaper.list_objects(own_containers.client, own_containers.home)
    assert not own_containers.executor_socket.parent.exists()


def test_an_executor_that_cannot_start_is_told(home: Home) -> None:
    from harness.sandbox.engine import connect
    from harness.sandbox.owner import current_owner
    from harness.sandbox.services import executor_service, start_services

    service = executor_service(home, RUN_ID.replace("0000", "0002"), current_owner(), built_image("executor"))
    broken = service.model_copy(update={"command": ("python3", "-c", "raise SystemExit('no such thing')")})
    client = connect()
    try:
        with pytest.raises(ServiceUnavailable, match="no such thing"):
            start_services(client, home, [broken], timeout_s=60)
        assert not client.api.containers(all=True, filters={"label": f"harness.run={service.run_id}"})
    finally:
        client.close()


def test_attempts_are_attempts() -> None:
    """What the container refuses is possible elsewhere: the hostile programs would pass where nothing stops them."""
    program = EvalFile(HUMANEVAL / "eval.py").function("program", ())
    source = program(QUESTION, ATTEMPTS["one fork"], extra=EXTRA)
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    assert namespace["total"]([1, 2]) == 3
    os.waitpid(-1, 0)


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    root = Path(os.environ.get("TEST_DATA_DIR", ROOT.parent / "shared" / "data")) / "humaneval"
    if not (root / "HumanEval.jsonl.gz").is_file():
        pytest.skip(f"no HumanEval.jsonl.gz in {root}; set TEST_DATA_DIR")
    target = tmp_path_factory.mktemp("humaneval")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("DATA_DIR", str(root))
        EvalFile(HUMANEVAL / "data.py").function("download_eval_data", ())(target, extra={})
    return [json.loads(line) for line in (target / "test.jsonl").read_text().splitlines()]


def humaneval(problem: dict[str, str], answer: str) -> ScoreItem:
    extra = {name: problem[name] for name in EXTRA}
    return ScoreItem(
        item_id=problem["id"], question=problem["question"], reference=problem["answer"], answer=answer, extra=extra
    )


def test_canonical_solutions_score_everything(containers: Containers, problems: list[dict[str, str]]) -> None:
    verdicts = containers.score([humaneval(problem, problem["answer"]) for problem in problems])
    assert [verdict.score for verdict in verdicts.values()] == [1.0] * 82


def test_empty_answers_score_nothing(containers: Containers, problems: list[dict[str, str]]) -> None:
    verdicts = containers.score([humaneval(problem, "") for problem in problems])
    assert [verdict.score for verdict in verdicts.values()] == [0.0] * 82


def test_bodies_that_do_nothing_score_nothing(containers: Containers, problems: list[dict[str, str]]) -> None:
    verdicts = containers.score([humaneval(problem, "    pass\n") for problem in problems])
    assert [verdict.score for verdict in verdicts.values()] == [0.0] * 82

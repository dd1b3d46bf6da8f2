"""The inference client and server, joined by a real unix socket; the engine is a fake that implements the interface."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from fastapi import FastAPI, Response
from served import served, wait_until

from harness.domain.prompts import Prompt
from harness.domain.specs import EngineSpec
from harness.errors import (
    MEANINGS,
    EngineBroken,
    EvaluationFailed,
    LoadFailed,
    NoGpuMemory,
    ServiceUnavailable,
    TooSlow,
    UsageError,
    meaning_of,
)
from harness.inference import client as client_module
from harness.inference.client import InferenceClient
from harness.inference.engines.base import build_engine
from harness.inference.server import create_app
from harness.inference.wire import Completion, EngineInfo, GenerateRequest, LoadRequest, Sampling

SPEC = EngineSpec(image="harness-inference:0", device="cpu")
REQUEST = GenerateRequest(prompts=(Prompt(text="a"), Prompt(text="bc")), sampling=Sampling(max_tokens=4))


class EchoEngine:
    """Answers with the prompt; folders whose name says `bad` cannot be loaded."""

    released = threading.Event()

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._folder: Path | None = None
        self._is_used = threading.Lock()

    def info(self) -> EngineInfo:
        return EngineInfo(spec=self._spec, versions={"echo": "1"}, device_name="none")

    def load(self, folder: Path) -> bool:
        if folder.name == "bad":
            raise LoadFailed("tensor x is missing")
        if folder.name == "large":
            raise NoGpuMemory(free_bytes=3 * 2**30, needed_bytes=8 * 2**30)
        if folder.name == "untrusted":
            raise EngineBroken("the canary died")
        is_reused, self._folder = folder == self._folder, folder
        return is_reused

    def sleep(self) -> None:
        self._folder = None

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        if self._folder is None:
            raise UsageError("no weights are loaded")
        if prompts[0].text == "forever":
            self.released.wait(10)
        if prompts[0].text == "boom":
            raise RuntimeError("the device is gone")
        assert self._is_used.acquire(blocking=False), "two requests have the engine"
        try:
            return [Completion(text=str(p.text), prompt_tokens=1, output_tokens=1, is_truncated=False) for p in prompts]
        finally:
            self._is_used.release()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[InferenceClient]:
    with served(create_app(SPEC, EchoEngine), tmp_path / "s.sock"):
        yield InferenceClient(tmp_path / "s.sock", timeout_s=10)


def test_info_load_and_generate(client: InferenceClient) -> None:
    assert client.info().spec == SPEC
    assert client.is_ready()
    assert [client.load(LoadRequest(path="/good")).is_reused for _ in range(2)] == [False, True]
    assert [completion.text for completion in client.generate(REQUEST).completions] == ["a", "bc"]


def test_a_checkpoint_that_cannot_be_loaded_is_the_agents_own(client: InferenceClient) -> None:
    with pytest.raises(LoadFailed, match="tensor x is missing") as caught:
        client.load(LoadRequest(path="/bad"))
    assert meaning_of(caught.value) == MEANINGS[LoadFailed]
    assert (meaning_of(caught.value).verdict, meaning_of(caught.value).is_retried) == ("agent_failed", False)
    assert not client.load(LoadRequest(path="/good")).is_reused


def test_generating_without_weights_is_no_evaluation(client: InferenceClient) -> None:
    with pytest.raises(EvaluationFailed, match="bad_request"):
        client.generate(REQUEST)


# The server keeps the traceback of what it did not expect, and uvicorn raises it again in its own thread.
def test_an_engine_error_fails_the_evaluation_and_the_service_lives_on(client: InferenceClient) -> None:
    client.load(LoadRequest(path="/good"))
    with pytest.raises(EvaluationFailed, match="the device is gone"):
        client.generate(REQUEST.model_copy(update={"prompts": (Prompt(text="boom"),)}))
    assert client.generate(REQUEST).completions[0].text == "a"


def test_one_request_at_a_time_has_the_engine(client: InferenceClient) -> None:
    client.load(LoadRequest(path="/good"))
    failures: list[BaseException] = []

    def call() -> None:
        try:
            client.generate(REQUEST)
        except EvaluationFailed as error:
            failures.append(error)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


ENDLESS = GenerateRequest(prompts=(Prompt(text="forever"),), sampling=Sampling(max_tokens=4), limit_s=0.1)


@pytest.fixture
def overrunning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[InferenceClient, threading.Event]]:
    """A service whose engine is let go when it ends itself, as a process is with all its threads."""
    monkeypatch.setattr(EchoEngine, "released", threading.Event())
    with served(create_app(SPEC, EchoEngine, give_up=EchoEngine.released.set), tmp_path / "s.sock"):
        yield InferenceClient(tmp_path / "s.sock", timeout_s=10), EchoEngine.released


def test_an_engine_that_overruns_its_limit_ends_its_service(overrunning) -> None:
    """It can be stopped in no other way, and whoever comes next would wait for it."""
    client, has_given_up = overrunning
    client.load(LoadRequest(path="/good"))
    client.generate(ENDLESS)
    assert has_given_up.is_set()


def test_a_request_that_is_answered_in_time_ends_nothing(overrunning) -> None:
    client, has_given_up = overrunning
    client.load(LoadRequest(path="/good", limit_s=0.2))
    client.generate(REQUEST.model_copy(update={"limit_s": 0.2}))
    assert not has_given_up.wait(0.4)


def test_no_answer_within_the_limit_is_too_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "GRACE_S", 0.1)
    monkeypatch.setattr(EchoEngine, "released", threading.Event())
    with served(create_app(SPEC, EchoEngine, give_up=lambda: None), tmp_path / "s.sock"):
        client = InferenceClient(tmp_path / "s.sock", timeout_s=10)
        client.load(LoadRequest(path="/good"))
        with pytest.raises(TooSlow):
            client.generate(ENDLESS)
        EchoEngine.released.set()


def test_a_service_that_breaks_off_before_the_limit_is_not_too_slow(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable) as caught:
        InferenceClient(tmp_path / "s.sock").generate(REQUEST)
    assert not isinstance(caught.value, TooSlow)


def test_health_answers_while_the_engine_is_built(tmp_path: Path) -> None:
    gate = threading.Event()

    def slow_build(spec: EngineSpec) -> EchoEngine:
        gate.wait(10)
        return EchoEngine(spec)

    with served(create_app(SPEC, slow_build), tmp_path / "s.sock"):
        client = InferenceClient(tmp_path / "s.sock", timeout_s=10)
        assert not client.is_ready()
        threading.Timer(0.1, gate.set).start()
        # Waits for the engine instead of failing.
        assert not client.load(LoadRequest(path="/good")).is_reused
        wait_until(client.is_ready)


def test_an_engine_that_cannot_be_built_is_said_to_every_caller(tmp_path: Path) -> None:
    def no_build(spec: EngineSpec) -> EchoEngine:
        raise EvaluationFailed("torch finds no GPU")

    with served(create_app(SPEC, no_build), tmp_path / "s.sock"):
        client = InferenceClient(tmp_path / "s.sock", timeout_s=10)
        with pytest.raises(EvaluationFailed, match="torch finds no GPU"):
            client.info()
        assert not client.is_ready()


def test_an_engine_whose_libraries_are_not_installed_says_so() -> None:
    if find_spec("vllm") is not None:
        pytest.skip("vllm is installed here")
    with pytest.raises(EvaluationFailed, match="vllm needs the package"):
        build_engine(SPEC.model_copy(update={"engine": "vllm"}))


def test_sleep_reaches_the_engine_and_a_load_wakes_it(client: InferenceClient) -> None:
    client.load(LoadRequest(path="/models/a"))
    assert client.sleep().sleep_seconds >= 0
    client.sleep()
    with pytest.raises(EvaluationFailed, match="no weights are loaded"):
        client.generate(REQUEST)
    client.load(LoadRequest(path="/models/a"))
    assert len(client.generate(REQUEST).completions) == 2


def test_too_little_memory_is_told_with_its_numbers(client: InferenceClient) -> None:
    with pytest.raises(
        NoGpuMemory, match=r"needs 8\.0 GiB of GPU memory, 3\.0 GiB are free, 5\.0 GiB are missing"
    ) as raised:
        client.load(LoadRequest(path="/models/large"))
    assert (raised.value.free_bytes, raised.value.needed_bytes) == (3 * 2**30, 8 * 2**30)


def test_a_service_ends_with_an_engine_that_cannot_be_trusted(tmp_path: Path) -> None:
    ended = threading.Event()
    path = tmp_path / "s.sock"
    with served(create_app(SPEC, EchoEngine, ended.set), path):
        client = InferenceClient(path, timeout_s=10)
        with pytest.raises(EvaluationFailed, match="the canary died"):
            client.load(LoadRequest(path="/models/untrusted"))
        assert ended.is_set()


def _lying(path: Path, body: str) -> FastAPI:
    app = FastAPI()
    app.post("/generate")(lambda: Response(body, media_type="application/json"))
    return app


LIES: dict[str, Callable[[], str]] = {
    "too few": lambda: '{"completions": [], "generate_seconds": 1}',
    "over the cap": lambda: (
        '{"completions": ['
        + ",".join(['{"text": "", "prompt_tokens": 1, "output_tokens": 5, "is_truncated": false}'] * 2)
        + '], "generate_seconds": 1}'
    ),
    "unknown field": lambda: '{"completions": [], "generate_seconds": 1, "score": 100}',
    "no JSON": lambda: "<html>",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_reply_that_does_not_fit_is_not_believed(lie: str, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with served(_lying(path, LIES[lie]()), path), pytest.raises(ServiceUnavailable):
        InferenceClient(path, timeout_s=10).generate(REQUEST)


def test_nobody_there_is_not_ready(tmp_path: Path) -> None:
    assert not InferenceClient(tmp_path / "s.sock").is_ready()

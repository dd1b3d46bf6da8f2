"""The engine contract on a service process of this machine, and the engine against transformers' own `generate`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import tiny_model
from engine_contract import PROMPTS, EngineContract, ServedModels
from served import service_process, wait_until

from harness.domain.prompts import Prompt
from harness.domain.specs import EngineSpec
from harness.errors import TooSlow
from harness.inference.client import InferenceClient
from harness.inference.ending import END_EXIT_CODE
from harness.inference.wire import GenerateRequest, LoadRequest, Sampling

SPEC = EngineSpec(image="none", device="cpu", batch_size=4)

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    # In a process of its own: what the libraries warn of is not this suite's.
    subprocess.run([sys.executable, tiny_model.__file__, str(root)], check=True, capture_output=True)
    return root


@pytest.fixture(scope="module")
def service(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModels]:
    path = tmp_path_factory.mktemp("service") / "s.sock"
    client = InferenceClient(path, timeout_s=120)
    with ExitStack() as stack:

        def start() -> None:
            stack.enter_context(service_process("harness.inference", path, "--spec", SPEC.model_dump_json()))
            wait_until(client.is_ready, timeout_s=120)

        def restart() -> None:
            stack.pop_all().close()
            start()

        start()
        yield ServedModels(client=client, models=str(models), restart=restart)


class TestTransformersEngine(EngineContract):
    """`transformers` on the CPU."""


def test_answers_are_those_of_generate(service: ServedModels, models: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    service.load("base")
    texts = [prompt for prompt in PROMPTS if prompt.text]
    ours = {prompt: answer.text for prompt, answer in zip(texts, service.answers(texts), strict=True)}
    model = AutoModelForCausalLM.from_pretrained(models / "base")
    tokenizer = AutoTokenizer.from_pretrained(models / "base")

    def theirs(prompt: Prompt) -> str:
        ids = tokenizer(prompt.text, return_tensors="pt")["input_ids"]
        drawn = model.generate(input_ids=ids, max_new_tokens=16, do_sample=False)
        return str(tokenizer.decode(drawn[0, ids.shape[1] :], skip_special_tokens=True))

    assert ours == {prompt: theirs(prompt) for prompt in texts}


def test_an_engine_that_runs_into_its_limit_ends_its_process(models: Path, tmp_path: Path) -> None:
    """Only so can the harness start one that answers the next request."""
    path = tmp_path / "s.sock"
    client = InferenceClient(path, timeout_s=120)
    request = GenerateRequest(prompts=(Prompt(text="1+1="),) * 500, sampling=Sampling(max_tokens=500), limit_s=0.01)
    with service_process("harness.inference", path, "--spec", SPEC.model_dump_json()) as process:
        wait_until(client.is_ready, timeout_s=120)
        client.load(LoadRequest(path=str(models / "base")))
        with pytest.raises(TooSlow):
            client.generate(request)
        assert process.wait(30) == END_EXIT_CODE

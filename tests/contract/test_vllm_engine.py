"""The engine contract on vLLM.

`make test-vllm-cpu` runs it on vLLM's CPU build. On a host with a GPU and vLLM:
`VLLM_PYTHON=/path/to/python VLLM_DEVICE=gpu:1 pytest tests/contract/test_vllm_engine.py`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import tiny_model
from engine_contract import EngineContract, ServedModels
from served import ROOT, service_process, wait_until

from harness.domain.engines import engine_environment
from harness.domain.specs import EngineSpec
from harness.errors import EvaluationFailed
from harness.inference.client import InferenceClient

PYTHON = os.environ.get("VLLM_PYTHON", "")
DEVICE = os.environ.get("VLLM_DEVICE", "cpu")
SPEC = EngineSpec(
    engine="vllm",
    image="none",
    device=DEVICE,
    dtype="float32" if DEVICE == "cpu" else "bfloat16",
    batch_size=4,
    kv_cache_blocks=64,
)
START_TIMEOUT_S = 300
CALL_TIMEOUT_S = 300

pytestmark = pytest.mark.skipif(not PYTHON, reason="VLLM_PYTHON is not set; `make test-vllm-cpu` sets it")


def _environment(folder: Path) -> dict[str, str]:
    found_in = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**engine_environment(SPEC), "VLLM_CACHE_ROOT": str(folder / "cache"), "PYTHONPATH": found_in}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    subprocess.run([PYTHON, tiny_model.__file__, str(root)], check=True, capture_output=True, timeout=300)
    return root


@pytest.fixture(scope="module")
def service(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModels]:
    path = tmp_path_factory.mktemp("service") / "s.sock"
    client = InferenceClient(path, timeout_s=CALL_TIMEOUT_S)
    environment = _environment(path.parent)
    with ExitStack() as stack:

        def start() -> None:
            options = ("--spec", SPEC.model_dump_json())
            stack.enter_context(
                service_process("harness.inference", path, *options, python=PYTHON, environment=environment)
            )
            wait_until(client.is_ready, timeout_s=START_TIMEOUT_S)

        def restart() -> None:
            stack.pop_all().close()
            start()

        start()
        yield ServedModels(client=client, models=str(models), restart=restart, has_one_setup=DEVICE != "cpu")


class TestVllmEngine(EngineContract):
    """`vllm` on the CPU in float32, on a GPU in bfloat16."""

    def test_info_names_vllm_and_what_decides_answers_beside_the_spec(self, service: ServedModels) -> None:
        info = service.client.info()
        assert "vllm" in info.versions
        assert {"max_num_batched_tokens", "enable_prefix_caching", "block_size"} <= info.settings.keys()


CORRUPTION = """
import sys
from pathlib import Path
import torch
from harness.domain.specs import EngineSpec
from harness.errors import EngineBroken
from harness.inference.engines.vllm import VllmEngine
from harness.inference.engines.weight_files import tensor_places

def spoil(worker, name):
    with torch.inference_mode():
        worker.get_model().get_parameter(name).view(-1)[0] += 1

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    engine = VllmEngine(EngineSpec.model_validate_json(sys.argv[1]))
    for name in ("model.embed_tokens.weight", "model.norm.weight", "model.layers.1.input_layernorm.weight"):
        engine.load(folder / "other")
        engine.load(folder / "base")
        engine._frame.llm.collective_rpc(spoil, args=(name,))
        try:
            engine._compare(tensor_places(folder / "base"))
        except EngineBroken as error:
            assert name in str(error), error
        else:
            raise AssertionError(f"{name} is spoiled, and nobody noticed")
    real, other = engine._reload, folder / "other"
    engine._reload = lambda folder, places: real(other, tensor_places(other))
    try:
        engine._check_canary(folder / "base", tensor_places(folder / "base"))
    except EngineBroken as error:
        assert "canary" in str(error), error
    else:
        raise AssertionError("the canary lived on other weights")
"""


def test_weights_that_are_not_the_files_are_noticed(models: Path, tmp_path: Path) -> None:
    command = [PYTHON, "-c", CORRUPTION, SPEC.model_dump_json(), str(models)]
    ended = subprocess.run(command, env=_environment(tmp_path), capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr[-4_000:]


def test_a_service_that_would_leave_the_process_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    client = InferenceClient(path, timeout_s=CALL_TIMEOUT_S)
    environment = _environment(tmp_path) | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    options = ("--spec", SPEC.model_dump_json())
    with service_process("harness.inference", path, *options, python=PYTHON, environment=environment):
        wait_until(lambda: path.exists(), timeout_s=START_TIMEOUT_S)
        with pytest.raises(EvaluationFailed, match="VLLM_ENABLE_V1_MULTIPROCESSING=0"):
            client.info()

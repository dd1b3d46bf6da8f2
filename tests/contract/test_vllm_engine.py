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


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    subprocess.run([PYTHON, tiny_model.__file__, str(root)], check=True, capture_output=True, timeout=300)
    return root


@pytest.fixture(scope="module")
def service(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModels]:
    path = tmp_path_factory.mktemp("service") / "s.sock"
    client = InferenceClient(path, timeout_s=CALL_TIMEOUT_S)
    found_in = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    caches = {"VLLM_CACHE_ROOT": str(path.parent / "cache")}
    environment = {**engine_environment(SPEC), **caches, "PYTHONPATH": found_in}
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
        yield ServedModels(client=client, models=str(models), restart=restart)


class TestVllmEngine(EngineContract):
    """`vllm` on the CPU in float32, on a GPU in bfloat16."""

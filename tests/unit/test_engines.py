"""Which engine a plan names on which hardware, and what its process and container get."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.domain.engines import engine_environment
from harness.domain.runs import Owner
from harness.domain.specs import EngineSpec
from harness.home import Home
from harness.runner.engines import (
    LARGE_GPU,
    MAX_MODEL_LEN,
    SMALL_GPU,
    GpuSizes,
    Hardware,
    engine_spec,
    gpu_sizes,
    hardware_of,
    tensor_parallel,
)
from harness.sandbox.gpus import Gpu, GpuUse, chosen, parse_gpus, parse_use
from harness.sandbox.hardening import Isolation, gpu_requests
from harness.sandbox.services import inference_memory_mb, inference_service

GB = 10**9
BLOCK_TOKENS = 16
TABLE = """0, GPU-aaaa, 143771, NVIDIA H200
1, GPU-bbbb, 143771, NVIDIA H200
2, GPU-cccc, [N/A], NVIDIA Odd, One
garbage
"""
H200 = Gpu(index="0", uuid="GPU-aaaa", memory_mb=143_771, name="NVIDIA H200")


def _on_gpus(n_gpus: int, model_bytes: int = GB) -> EngineSpec:
    hardware = Hardware(device=f"gpu:{n_gpus} x NVIDIA H200", n_gpus=n_gpus, gpu_memory_mb=143_771)
    return engine_spec("harness-inference:0", hardware, model_bytes)


def test_the_drivers_table_is_read_without_what_is_not_whole() -> None:
    gpus = parse_gpus(TABLE)
    assert [gpu.uuid for gpu in gpus] == ["GPU-aaaa", "GPU-bbbb"]
    assert gpus[0] == H200


@pytest.mark.parametrize("names", [("GPU-aaaa",), ("0",)])
def test_a_gpu_is_named_by_uuid_or_index(names: tuple[str, ...]) -> None:
    assert chosen(parse_gpus(TABLE), names) == (H200,)


def test_hardware_says_which_gpus_scores_are_made_on() -> None:
    both = parse_gpus(TABLE)
    assert hardware_of(("0", "1"), both).device == "gpu:2 x NVIDIA H200"
    assert hardware_of(("0",), ()).device == "gpu:1 x unknown"
    assert hardware_of((), both).device.startswith("cpu:")


def test_gpus_mean_vllm_with_fixed_sizes_and_a_cpu_means_transformers() -> None:
    spec = _on_gpus(1)
    assert (spec.engine, spec.dtype, spec.max_model_len) == ("vllm", "bfloat16", MAX_MODEL_LEN)
    assert spec.kv_cache_blocks is not None
    on_cpu = engine_spec("i", hardware_of((), ()), GB)
    assert (on_cpu.engine, on_cpu.kv_cache_blocks, on_cpu.tensor_parallel) == ("transformers", None, 1)


def test_the_same_hardware_and_model_give_the_same_engine() -> None:
    assert _on_gpus(1).hash() == _on_gpus(1).hash() != _on_gpus(2).hash()


@pytest.mark.parametrize("sizes", [*LARGE_GPU, *SMALL_GPU])
def test_one_answer_of_full_length_fits_into_every_cache(sizes: GpuSizes) -> None:
    assert sizes.kv_cache_blocks * BLOCK_TOKENS >= MAX_MODEL_LEN


def test_larger_models_and_smaller_gpus_run_fewer_sequences() -> None:
    batches = [gpu_sizes(size, 143_771).batch_size for size in (GB, 15 * GB, 140 * GB)]
    assert batches == sorted(batches, reverse=True)
    assert gpu_sizes(GB, 24_000).batch_size < batches[0]
    assert gpu_sizes(GB, 0) == gpu_sizes(GB, 24_000)


@pytest.mark.parametrize(
    ("model_gb", "n_gpus", "expected"), [(1, 8, 1), (15, 4, 1), (140, 1, 1), (140, 2, 2), (140, 3, 2), (140, 8, 8)]
)
def test_large_models_are_divided_among_the_leased_gpus(model_gb: int, n_gpus: int, expected: int) -> None:
    assert tensor_parallel(model_gb * GB, n_gpus) == expected


def test_vllm_stays_in_its_process_and_tells_nobody() -> None:
    environment = engine_environment(_on_gpus(1))
    assert environment["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert environment["VLLM_NO_USAGE_STATS"] == environment["DO_NOT_TRACK"] == environment["HF_HUB_OFFLINE"] == "1"
    assert environment["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    # The container can write, and run what it wrote, in /tmp alone.
    for name in ("VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME"):
        assert environment[name].startswith("/tmp/")
    assert "VLLM_CACHE_ROOT" not in engine_environment(EngineSpec(image="i", device="cpu:x"))


def test_the_inference_container_gets_the_leased_gpus_and_room(tmp_path: Path) -> None:
    owner = Owner(pid=1, started_ticks=1, boot_id="b", host="h")
    isolation = Isolation(gpus=("GPU-aaaa",), has_cdi_only=True)
    memory_mb = inference_memory_mb(GB, has_gpus=True)
    service = inference_service(Home(tmp_path), "r", owner, _on_gpus(1), memory_mb, isolation=isolation)
    (request,) = gpu_requests(service.isolation)
    assert request["DeviceIDs"] == ["nvidia.com/gpu=GPU-aaaa"]
    assert service.isolation.network == "none"
    plain = inference_service(Home(tmp_path), "r", owner, EngineSpec(image="i", device="cpu:x"), 4_000)
    assert gpu_requests(plain.isolation) == []
    assert service.resources.shm_mb > plain.resources.shm_mb
    assert service.resources.memory_mb > plain.resources.memory_mb
    assert (service.tmp_mb or 0) > (plain.tmp_mb or 0)


USE = "0, GPU-a, 1000, 7\n1, GPU-b, 24, 93\n2, GPU-c, [N/A], 0\n"


def test_use_of_gpus_is_told_for_all_of_a_run_together() -> None:
    assert parse_use(USE, ["GPU-a", "1"]) == GpuUse(memory_mb=1024 * 2**20 / 1e6, busy_pct=93)


@pytest.mark.parametrize("names", [["GPU-a", "GPU-x"], ["GPU-c"]])
def test_use_of_a_gpu_that_says_nothing_is_not_guessed(names: list[str]) -> None:
    assert parse_use(USE, names) is None

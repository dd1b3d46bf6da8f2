"""Which engine scores a model on which hardware, and in what fixed sizes: scores of other sizes are no repeats."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from harness.domain.base import Frozen
from harness.domain.specs import EngineSpec, ModelRef
from harness.home import Home
from harness.inference.engines.vllm_memory import BYTES, memory_need
from harness.sandbox.gpus import Gpu

# Below this size the Python overhead per step dominates: a few wide batches (docs/performance.md).
TINY_MODEL_BYTES = 100 * 2**20
TINY_BATCH, ORDINARY_BATCH = 128, 32
# Tokens of prompt and answer together: no benchmark here comes near it, and one answer must fit into the cache.
MAX_MODEL_LEN = 16_384
GB = 10**9
# Smaller models gain nothing of a second GPU.
DIVIDED_FROM_BYTES = 20 * GB
LARGE_GPU_MB = 70_000
# They read and check weights; no answer depends on them.
GPU_HOST_THREADS = 8


class GpuSizes(Frozen):
    """Sequences at a time, and blocks of the KV cache (16 tokens each), for models up to `model_bytes`."""

    model_bytes: int
    batch_size: int
    kv_cache_blocks: int


# By bytes of the weights on disk (two a weight). A block of a 7B model takes 0.9 MiB, of a 135M one 0.35 MiB.
# For a small model a step costs more than what is in it: 1,024 at a time take half as long as 256.
LARGE_GPU = (
    GpuSizes(model_bytes=4 * GB, batch_size=1_024, kv_cache_blocks=40_960),
    GpuSizes(model_bytes=8 * GB, batch_size=256, kv_cache_blocks=24_576),
    GpuSizes(model_bytes=20 * GB, batch_size=128, kv_cache_blocks=16_384),
    GpuSizes(model_bytes=2**63, batch_size=64, kv_cache_blocks=8_192),
)
SMALL_GPU = (
    GpuSizes(model_bytes=4 * GB, batch_size=64, kv_cache_blocks=6_144),
    GpuSizes(model_bytes=2**63, batch_size=32, kv_cache_blocks=3_072),
)


class Hardware(Frozen):
    """What scores are made on: float results differ between processors."""

    device: str
    n_gpus: int = 0
    gpu_memory_mb: int = 0


def hardware_of(names: Sequence[str], gpus: Sequence[Gpu]) -> Hardware:
    """The hardware of a run that names these GPUs; `gpus` are those of them that the host's driver tells of."""
    if not names:
        return Hardware(device=f"cpu:{_processor()}")
    models = ", ".join(sorted({gpu.name for gpu in gpus})) or "unknown"
    return Hardware(
        device=f"gpu:{len(names)} x {models}",
        n_gpus=len(names),
        gpu_memory_mb=min((gpu.memory_mb for gpu in gpus), default=0),
    )


def engine_spec(image: str, hardware: Hardware, model_bytes: int) -> EngineSpec:
    """How a model of this size is scored there: vLLM on GPUs, transformers on a CPU."""
    common = {"image": image, "device": hardware.device}
    if hardware.n_gpus:
        sizes = gpu_sizes(model_bytes, hardware.gpu_memory_mb)
        return EngineSpec(
            **common,
            engine="vllm",
            dtype="bfloat16",
            batch_size=sizes.batch_size,
            kv_cache_blocks=sizes.kv_cache_blocks,
            max_model_len=MAX_MODEL_LEN,
            tensor_parallel=tensor_parallel(model_bytes, hardware.n_gpus),
            threads=GPU_HOST_THREADS,
        )
    if model_bytes < TINY_MODEL_BYTES:
        return EngineSpec(**common, dtype="float32", batch_size=TINY_BATCH, threads=1)
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    return EngineSpec(**common, dtype="bfloat16", batch_size=ORDINARY_BATCH, threads=threads)


def engine_bytes(spec: EngineSpec, model: ModelRef, home: Home) -> int | None:
    """About what the engine takes of each of its GPUs; None without GPUs, or where the model's config does not tell."""
    if spec.engine != "vllm":
        return None
    try:
        raw = json.loads((home.path / model.path / "config.json").read_bytes())
        text = SimpleNamespace(**raw.get("text_config", raw))
        config = SimpleNamespace(get_text_config=lambda: text)
        return memory_need(spec, model.size_bytes // BYTES[spec.dtype], config).to_build
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def gpu_sizes(model_bytes: int, gpu_memory_mb: int) -> GpuSizes:
    """The table's row; a GPU that nothing is known of counts as a small one."""
    table = LARGE_GPU if gpu_memory_mb >= LARGE_GPU_MB else SMALL_GPU
    return next(sizes for sizes in table if model_bytes <= sizes.model_bytes)


def tensor_parallel(model_bytes: int, n_gpus: int) -> int:
    """Over how many of the GPUs the model is divided: a power of two, which divides its attention heads."""
    return 1 if model_bytes < DIVIDED_FROM_BYTES else 1 << (n_gpus.bit_length() - 1)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()

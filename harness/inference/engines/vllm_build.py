"""One vLLM engine in this process: how it is set up, so that nothing but the spec decides how answers are batched."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import vllm.envs
from vllm import LLM
from vllm.platforms import current_platform

from harness.domain.specs import EngineSpec
from harness.errors import EvaluationFailed
from harness.inference.engines.setup import Setup
from harness.inference.engines.vllm_memory import BLOCK_TOKENS

# Tokens of one step; vLLM's own default differs from GPU to GPU.
STEP_TOKENS = 8_192
# The kernels of vLLM and its libraries as they are, in captured graphs: compiled ones are chosen by timing them at
# each start, take most of a minute, and need their cache kept.
GPU_SETTINGS: dict[str, Any] = {
    "compilation_config": {"mode": 0, "cudagraph_mode": "FULL"},
    "enable_flashinfer_autotune": False,
    # Whether a prefix is computed for all at once depends on who is in the batch.
    "disable_cascade_attn": True,
    "block_size": BLOCK_TOKENS,
    "enable_sleep_mode": True,
}
CPU_SETTINGS: dict[str, Any] = {"enforce_eager": True, "block_size": 32}
# vLLM refuses a start below this share of free memory. The real check is `check_free`, which knows what is needed.
SMALLEST_SHARE = 0.01


def check_surroundings(spec: EngineSpec) -> None:
    """Raises EvaluationFailed where this process cannot run what `spec` asks for."""
    if vllm.envs.VLLM_ENABLE_V1_MULTIPROCESSING:
        raise EvaluationFailed(
            "vLLM would run in another process, where equal requests have different answers",
            "Start the service with VLLM_ENABLE_V1_MULTIPROCESSING=0.",
        )
    if current_platform.is_cpu() != is_cpu(spec):
        raise EvaluationFailed(f"the engine is to run on {spec.device}, but this vLLM is built for another device")
    if spec.kv_cache_blocks is None:
        raise EvaluationFailed("kv_cache_blocks is not fixed, so free memory would decide how answers are batched")


def is_cpu(spec: EngineSpec) -> bool:
    """Whether `spec` asks for no GPU."""
    return spec.device.startswith("cpu")


def settings_of(spec: EngineSpec) -> dict[str, Any]:
    """What decides answers beside the spec; it goes into the record."""
    common = {"max_num_batched_tokens": max(STEP_TOKENS, spec.batch_size), "enable_prefix_caching": True}
    return common | (CPU_SETTINGS if is_cpu(spec) else GPU_SETTINGS)


def context_of(spec: EngineSpec, setup: Setup) -> int | None:
    """Tokens of prompt and answer together; None leaves it to vLLM, where neither spec nor model says."""
    limits = [limit for limit in (spec.max_model_len, setup.max_positions) if limit is not None]
    return min(limits, default=None)


def open_llm(spec: EngineSpec, folder: Path, kv_cache_bytes: int, context: int | None) -> LLM:
    """A new engine with the weights in `folder`."""
    return LLM(
        model=str(folder),
        tokenizer=str(folder),
        load_format="safetensors",
        trust_remote_code=False,
        # End tokens are ours to say; nothing else of that file counts.
        generation_config="vllm",
        dtype=spec.dtype,
        seed=spec.seed,
        tensor_parallel_size=spec.tensor_parallel,
        max_model_len=context,
        max_num_seqs=spec.batch_size,
        num_gpu_blocks_override=spec.kv_cache_blocks,
        # Given, vLLM does not measure free memory, which others change meanwhile; the blocks above are what counts.
        kv_cache_memory_bytes=kv_cache_bytes,
        gpu_memory_utilization=SMALLEST_SHARE,
        use_tqdm_on_load=False,
        disable_log_stats=True,
        **settings_of(spec),
    )


def close_llm(llm: LLM) -> None:
    """Ends an engine, so that another can be opened in this process. The caller keeps no reference to it."""
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    llm.llm_engine.engine_core.shutdown()
    del llm
    cleanup_dist_env_and_memory()
    gc.collect()

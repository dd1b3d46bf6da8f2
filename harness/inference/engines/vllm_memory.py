"""How much GPU memory a vLLM engine needs, and whether it is free: checked before it is built or woken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from harness.domain.base import Frozen
from harness.domain.specs import EngineSpec
from harness.errors import NoGpuMemory

# Tokens of one block of the KV cache on a GPU; `kv_cache_blocks` counts these.
BLOCK_TOKENS = 16
# Context of CUDA and NCCL, activations of one step, captured graphs.
BUILD_MARGIN = 4 * 2**30
# What is not given up in sleep stays allocated; only transient copies come on top.
WAKE_MARGIN = 2**30
# Padding, and the layer that is being read beside the one that it replaces.
TRANSIENT_SHARE = 0.1
BYTES = {"float32": 4, "bfloat16": 2}


class MemoryNeed(Frozen):
    """Bytes on each GPU of the engine."""

    weights: int
    kv_cache: int

    @property
    def to_build(self) -> int:
        return math.ceil(self.weights * (1 + TRANSIENT_SHARE)) + self.kv_cache + BUILD_MARGIN

    @property
    def to_wake(self) -> int:
        return math.ceil(self.weights * (1 + TRANSIENT_SHARE)) + self.kv_cache + WAKE_MARGIN


def memory_need(spec: EngineSpec, n_weights: int, config: Any) -> MemoryNeed:
    """What a model of so many weights takes in the set-up of `spec`."""
    weights = n_weights * BYTES[spec.dtype] // spec.tensor_parallel
    return MemoryNeed(weights=weights, kv_cache=kv_cache_bytes(spec, config))


def kv_cache_bytes(spec: EngineSpec, config: Any) -> int:
    """Bytes of all KV blocks on one GPU: a key and a value for each token, layer, head and dimension."""
    text = config.get_text_config()
    heads = int(getattr(text, "num_key_value_heads", None) or text.num_attention_heads)
    dimension = int(getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)
    local_heads = max(1, heads // spec.tensor_parallel)
    per_token = 2 * int(text.num_hidden_layers) * local_heads * dimension * BYTES[spec.dtype]
    return (spec.kv_cache_blocks or 0) * BLOCK_TOKENS * per_token


def free_bytes(gpu: int) -> int:
    """What the GPU of this number has free."""
    import torch

    return int(torch.cuda.mem_get_info(gpu)[0])


def check_free(n_gpus: int, needed: int, free_of: Callable[[int], int] = free_bytes) -> None:
    """Raises NoGpuMemory where one of the first `n_gpus` GPUs has less than `needed` bytes free."""
    free = min(free_of(gpu) for gpu in range(n_gpus))
    if free < needed:
        raise NoGpuMemory(free_bytes=free, needed_bytes=needed)

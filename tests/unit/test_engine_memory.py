"""How much GPU memory a vLLM engine asks for, against known models, and the refusal where it is not free."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.domain.specs import EngineSpec
from harness.errors import NoGpuMemory
from harness.inference.engines.vllm_memory import BLOCK_TOKENS, check_free, kv_cache_bytes, memory_need

GIB = 2**30


def _spec(**values: Any) -> EngineSpec:
    return EngineSpec(
        **{"engine": "vllm", "image": "i", "device": "gpu:1", "dtype": "bfloat16", "kv_cache_blocks": 1_000, **values}
    )


def _config(**values: Any) -> Any:
    text = SimpleNamespace(**values)
    return SimpleNamespace(get_text_config=lambda: text)


SMOLLM2 = {"num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576}
QWEN3_8B = {
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4_096,
    "head_dim": 128,
}


def test_a_token_takes_a_key_and_a_value_of_each_layer_and_head() -> None:
    # 2 x 30 layers x 3 heads x 64 dimensions x 2 bytes.
    assert kv_cache_bytes(_spec(kv_cache_blocks=1), _config(**SMOLLM2)) == 23_040 * BLOCK_TOKENS
    assert kv_cache_bytes(_spec(kv_cache_blocks=1), _config(**QWEN3_8B)) == 147_456 * BLOCK_TOKENS


def test_gpus_share_weights_and_heads_but_a_head_is_not_divided() -> None:
    one, four = (memory_need(_spec(tensor_parallel=n), 8_000_000_000, _config(**QWEN3_8B)) for n in (1, 4))
    assert (four.weights, four.kv_cache) == (one.weights // 4, one.kv_cache // 4)
    three = kv_cache_bytes(_spec(tensor_parallel=9), _config(**SMOLLM2))
    assert three == kv_cache_bytes(_spec(), _config(**SMOLLM2)) // 3


def test_building_takes_more_than_waking() -> None:
    need = memory_need(_spec(), 135_000_000, _config(**SMOLLM2))
    assert need.weights + need.kv_cache < need.to_wake < need.to_build


def test_the_fullest_gpu_decides() -> None:
    free = [9 * GIB, 3 * GIB]
    check_free(1, 4 * GIB, free.__getitem__)
    with pytest.raises(NoGpuMemory, match=r"1\.0 GiB are missing"):
        check_free(2, 4 * GIB, free.__getitem__)

"""The base model in the repository, and the oracle's weights for it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from types import ModuleType

import pytest
from standalone import loaded

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "benchmarks" / "arithmetic" / "models" / "tiny-arith"
ORACLE = ROOT / "agents" / "oracle" / "checkpoints" / "arithmetic"


def shapes(weights: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Tensor name -> dtype and shape, from a safetensors header."""
    data = weights.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    return {name: (t["dtype"], tuple(t["shape"])) for name, t in header.items() if name != "__metadata__"}


def test_folder_is_small_and_complete() -> None:
    files = list(BASE.iterdir())
    assert sum(path.stat().st_size for path in files) < 2_600_000
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {p.name for p in files}


def test_oracle_weights_fit_the_base_model_and_are_others() -> None:
    base, oracle = BASE / "model.safetensors", ORACLE / "model.safetensors"
    assert shapes(base) == shapes(oracle)
    assert base.read_bytes() != oracle.read_bytes()
    assert sum(a * (b[0] if b else 1) for _, (a, *b) in shapes(base).values()) == 606_976


@pytest.mark.torch
@pytest.mark.parametrize(("weights", "low", "high"), [(BASE, 25, 45), (ORACLE, 99, 100)])
def test_accuracy_is_what_the_documentation_says(weights: Path, low: float, high: float) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(BASE, local_files_only=True, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(BASE, local_files_only=True)
    model.load_state_dict(load_file(weights / "model.safetensors"), strict=False)
    pairs = _data().hidden_pairs()[:200]
    chats = [[{"role": "user", "content": f"{a}+{b}="}] for a, b in pairs]
    texts = tokenizer.apply_chat_template(chats, add_generation_prompt=True, tokenize=False)
    batch = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    output = model.generate(**batch, max_new_tokens=8, do_sample=False)
    answers = tokenizer.batch_decode(output[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    right = sum(answer == str(a + b) for answer, (a, b) in zip(answers, pairs, strict=True))
    assert low <= 100 * right / len(pairs) <= high


def _data() -> ModuleType:
    return loaded(ROOT / "benchmarks" / "arithmetic" / "data.py")

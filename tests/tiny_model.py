"""Tiny Llamas with random weights, a character tokenizer and a chat template, and broken ones, for tests of engines.

`python tiny_model.py FOLDER` writes all of them below FOLDER; it needs torch and transformers, nothing of the harness.
"""

from __future__ import annotations

import json
import shutil
import string
import sys
from pathlib import Path
from typing import Any

BEGIN, END, PAD, UNKNOWN = "<|begin|>", "<|end|>", "<|pad|>", "<|unknown|>"
MAX_POSITIONS = 96
CHARACTERS = string.ascii_letters + string.digits + " .,:;?!+-*/=#'\n"
TEMPLATE = (
    "{% for m in messages %}{{ '<|begin|>' + m['role'] + ':' + m['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|begin|>assistant:' }}{% endif %}"
)
HEAD, EMBEDDING, NORM = "lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"


def write_model(folder: Path, seed: int, is_tied: bool = True) -> None:
    """An ordinary Hugging Face folder; `seed` decides the weights and nothing else."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer()
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=is_tied,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        # Wide enough for answers that differ from prompt to prompt.
        initializer_range=0.6,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_moe(folder: Path, seed: int) -> None:
    """A model whose tensors are stored under other names than it runs with."""
    import torch
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    tokenizer = _tokenizer()
    torch.manual_seed(seed)
    config = Qwen2MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        max_position_embeddings=MAX_POSITIONS,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.6,
    )
    Qwen2MoeForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tokenizer() -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate([PAD, BEGIN, END, UNKNOWN, *CHARACTERS])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    raw.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token=PAD, bos_token=BEGIN, eos_token=END, unk_token=UNKNOWN
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def write_all(root: Path) -> None:
    """`base`, `other` (its weights differ), three folders equal to `base`, and one folder for each way to be broken."""
    import torch
    from safetensors.torch import load_file

    write_model(root / "base", seed=0)
    write_model(root / "other", seed=1)
    write_model(root / "untied", seed=2, is_tied=False)
    tensors = load_file(root / "base" / "model.safetensors")
    tensors.pop(HEAD, None)
    embedding = tensors[EMBEDDING]
    _variant(root, "same", tensors)
    _variant(root, "with_head", {**tensors, HEAD: embedding.clone()})
    names = sorted(tensors)
    halves = [{name: tensors[name] for name in part} for part in (names[::2], names[1::2])]
    _variant(root, "sharded", *halves)
    write_moe(root / "experts", seed=3)
    write_moe(root / "other_experts", seed=4)
    _variant(root, "bad_missing", {k: v for k, v in tensors.items() if k != NORM})
    _variant(root, "bad_unknown", {**tensors, "model.extra": torch.ones(2)})
    _variant(root, "bad_shape", {**tensors, NORM: torch.ones(7)})
    _variant(root, "bad_nan", {**tensors, NORM: tensors[NORM] * float("nan")})
    _variant(root, "bad_head", {**tensors, HEAD: embedding + 1})
    _variant(root, "bad_twice", tensors, {NORM: tensors[NORM]})
    _variant(root, "bad_empty")
    _variant(root, "bad_truncated", tensors)
    file = root / "bad_truncated" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1_000])
    _variant(root, "bad_garbage", tensors)
    (root / "bad_garbage" / "model.safetensors").write_bytes(b"\xff" * 5_000)


def _variant(root: Path, name: str, *shards: dict[str, Any]) -> None:
    from safetensors.torch import save_file

    folder = root / name
    shutil.copytree(root / "base", folder, ignore=shutil.ignore_patterns("*.safetensors"))
    files = ["model.safetensors"] if len(shards) == 1 else [f"model-0000{k + 1}-of-00002.safetensors" for k in range(2)]
    for file, shard in zip(files, shards, strict=False):
        save_file(shard, folder / file, metadata={"format": "pt"})
    if len(shards) > 1:
        places = {tensor: file for file, shard in zip(files, shards, strict=True) for tensor in shard}
        index = {"metadata": {"total_size": 0}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))

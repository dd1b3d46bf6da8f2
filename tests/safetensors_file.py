"""Safetensors files and model folders as a test wants them, right or wrong; written without the code under test."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Tensors = Mapping[str, tuple[str, tuple[int, ...], bytes]]

HIDDEN, VOCABULARY = 4, 8
EMBEDDING = "model.embed_tokens.weight"
NORM = "model.norm.weight"
LAYER = "model.layers.0.mlp.weight"
CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "tie_word_embeddings": True}


def floats(*values: float) -> bytes:
    """F32 bytes."""
    return struct.pack(f"<{len(values)}f", *values)


def header_of(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The header's document for `tensors`, whose bytes follow in this order."""
    document: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    reached = 0
    for name, (dtype, shape, data) in tensors.items():
        end = reached + len(data)
        document[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [reached, end]}
        reached = end
    return document


def with_header(header: bytes, data: bytes, length: int | None = None) -> bytes:
    """A file of this header and data; `length` to lie about the header's."""
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def safetensors(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """A right file."""
    header = json.dumps(header_of(tensors, metadata)).encode()
    return with_header(header, b"".join(data for _, _, data in tensors.values()))


def model_tensors(value: float = 0.5, *, with_head: bool = False) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """A tiny model in F32 with tied embeddings; `value` tells models apart."""
    table = floats(*[value] * (HIDDEN * VOCABULARY))
    tensors = {
        EMBEDDING: ("F32", (VOCABULARY, HIDDEN), table),
        LAYER: ("F32", (HIDDEN, HIDDEN), floats(*[value] * (HIDDEN * HIDDEN))),
        NORM: ("F32", (HIDDEN,), floats(*[1.0] * HIDDEN)),
    }
    if with_head:
        tensors["lm_head.weight"] = ("F32", (VOCABULARY, HIDDEN), table)
    return tensors


def write_model(folder: Path, tensors: Tensors, config: Mapping[str, Any] = CONFIG) -> Path:
    """A model folder with one weight file and what save_pretrained leaves beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(safetensors(tensors, {"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text('{"eos_token_id": 1}')
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 1000000000000000019884624838656}')
    return folder

"""Small models as NumPy arrays, changed the ways that fine-tuning, blending and hiding change weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors_file import EMBEDDING, write_model

from harness.checkpoint.fingerprint import Fingerprint, fingerprint_of
from harness.checkpoint.known_models import KnownModel

Weights = dict[str, NDArray[np.float32]]
NORM = "model.norm.weight"
MATRICES = [f"model.layers.{n}.mlp.weight" for n in range(8)]


def base_weights(seed: int = 0) -> Weights:
    """An embedding, eight matrices of 96 by 80, a norm; values as a bf16 file would hold them."""
    random = np.random.default_rng(seed)
    shapes = {EMBEDDING: (128, 80), **dict.fromkeys(MATRICES, (96, 80))}
    made = {name: 0.02 * random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    return {name: as_bf16(value) for name, value in {**made, NORM: np.ones(80, dtype=np.float32)}.items()}


def trained(weights: Weights, seed: int, relative: float = 0.05) -> Weights:
    """Another checkpoint, each tensor moved by that part of its length: low rank plus noise, unevenly over tensors."""
    random = np.random.default_rng(seed)
    moved = {}
    for name, value in weights.items():
        change = random.standard_normal(value.shape)
        if value.ndim == 2:
            change += 30 * np.outer(random.standard_normal(value.shape[0]), random.standard_normal(value.shape[1])) / 10
        size = relative * (0.5 + random.random()) * np.linalg.norm(value) / np.linalg.norm(change)
        moved[name] = (value + size * change).astype(np.float32)
    return moved


def blend(first: Weights, second: Weights, part: float) -> Weights:
    """`part` of the way from the first to the second."""
    return {name: (value + part * (second[name] - value)).astype(np.float32) for name, value in first.items()}


def as_bf16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rounded to the nearest BF16, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF_0000)).view(np.float32)


def raw(values: NDArray[np.float32], dtype: str) -> bytes:
    """As a file holds them."""
    if dtype == "BF16":
        return (as_bf16(values).view(np.uint32) >> 16).astype("<u2").tobytes()
    return values.astype({"F32": "<f4", "F16": "<f2", "F64": "<f8"}[dtype]).tobytes()


def save(folder: Path, weights: Mapping[str, NDArray[np.float32]], dtype: str = "BF16") -> Path:
    """A model folder."""
    return write_model(folder, {name: (dtype, value.shape, raw(value, dtype)) for name, value in weights.items()})


def fingerprint(folder: Path, weights: Weights, dtype: str = "BF16") -> Fingerprint:
    """Of a folder that is written for it."""
    return fingerprint_of(save(folder, weights, dtype))


def sibling(base: Fingerprint, name: str, own: Fingerprint) -> KnownModel:
    return KnownModel(name=name, source="test", base=base.tree_hash, fingerprint=own)

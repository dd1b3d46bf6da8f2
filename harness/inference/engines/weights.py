"""Weights of a Hugging Face folder into a model that exists already: strict, in place, tied weights included."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from harness.errors import LoadFailed

WEIGHTS = "*.safetensors"
NOT_SETUP = (".safetensors", ".safetensors.index.json", ".md", ".txt.license", ".gitattributes")


def setup_digest(folder: Path) -> str:
    """Hash of the files that decide everything but the weights: config, tokenizer, template, generation config."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.endswith(NOT_SETUP):
            content = file.read_bytes()
            digest.update(f"{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def weights_identity(folder: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Name, size, inode and time of each weight file: equal as long as nobody has put others in their place."""
    stats = [(file.name, file.stat()) for file in sorted(folder.glob(WEIGHTS))]
    return tuple((name, stat.st_size, stat.st_ino, stat.st_mtime_ns) for name, stat in stats)


def copy_weights(model: Any, folder: Path) -> None:
    """Overwrites every parameter of `model` with the folder's tensors, cast to the model's dtype.

    Raises:
        LoadFailed: a tensor is missing, unknown, of another shape, in two files, or not finite.
    """
    files = sorted(folder.glob(WEIGHTS))
    if not files:
        raise LoadFailed(f"no {WEIGHTS} in the checkpoint")
    targets = dict(model.state_dict(keep_vars=True))
    places = _places(model, files)
    _check_names(targets, places, model)
    done: dict[int, str] = {}
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open has no __iter__
                if places.get(name) == file:
                    _copy(targets[name], tensors.get_tensor(name), name, done)
    for name, target in targets.items():
        if not torch.isfinite(target).all():
            raise LoadFailed(f"tensor {name} is not finite in {target.dtype}")


def _places(model: Any, files: list[Path]) -> dict[str, Path]:
    ignored = [re.compile(pattern) for pattern in getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()]
    places: dict[str, Path] = {}
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open has no __iter__
                if any(pattern.search(name) for pattern in ignored):
                    continue
                if name in places:
                    raise LoadFailed(f"tensor {name} is in {places[name].name} and in {file.name}")
                places[name] = file
    return places


def _check_names(targets: dict[str, Any], places: dict[str, Path], model: Any) -> None:
    unknown = sorted(places.keys() - targets.keys())
    if unknown:
        raise LoadFailed(f"{type(model).__name__} has no tensor {unknown[0]} ({len(unknown)} unknown)")
    shared = defaultdict(list)
    for name, target in targets.items():
        shared[target.data_ptr()].append(name)
    for names in shared.values():
        if not any(name in places for name in names):
            raise LoadFailed(f"tensor {names[0]} is missing")


def _copy(target: Any, source: Any, name: str, done: dict[int, str]) -> None:
    if target.shape != source.shape:
        raise LoadFailed(f"tensor {name} has shape {tuple(source.shape)}, not {tuple(target.shape)}")
    source = source.to(device=target.device, dtype=target.dtype)
    twin = done.get(target.data_ptr())
    if twin is not None and not torch.equal(target, source):
        raise LoadFailed(f"tensor {name} differs from {twin}, to which the model ties it")
    with torch.no_grad():
        target.copy_(source)
    done[target.data_ptr()] = name

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


def names_fit(model: Any, folder: Path) -> bool:
    """Whether the folder's tensor names are those of `model` (tied ones may be left out).

    Some architectures are stored under other names than they run with; transformers converts those itself.

    Raises:
        LoadFailed: no weights, or a tensor is in two files.
    """
    targets = _targets(model)
    places = _places(model, folder)
    return not _unknown(targets, places) and not _missing(targets, places)


def copy_weights(model: Any, folder: Path) -> None:
    """Overwrites every parameter of `model` with the folder's tensors, cast to the model's dtype.

    Raises:
        LoadFailed: a tensor is missing, unknown, of another shape, in two files, or not finite.
    """
    targets, places = _targets(model), _places(model, folder)
    if unknown := _unknown(targets, places):
        raise LoadFailed(f"{type(model).__name__} has no tensor {unknown[0]} ({len(unknown)} unknown)")
    if missing := _missing(targets, places):
        raise LoadFailed(f"tensor {missing[0]} is missing ({len(missing)} missing)")
    done: dict[int, str] = {}
    for file in sorted(set(places.values())):
        with safe_open(file, framework="pt") as tensors:
            for name in (name for name, place in places.items() if place == file):
                _copy(targets[name], tensors.get_tensor(name), name, done)
    check_finite(model)


def check_finite(model: Any) -> None:
    """Raises LoadFailed where a weight of `model` is NaN or infinite."""
    for name, target in _targets(model).items():
        if not torch.isfinite(target).all():
            raise LoadFailed(f"tensor {name} is not finite in {target.dtype}")


def _targets(model: Any) -> dict[str, Any]:
    return dict(model.state_dict(keep_vars=True))


def _places(model: Any, folder: Path) -> dict[str, Path]:
    """Tensor name -> the file that holds it, without what the architecture says is left over from older versions."""
    files = sorted(folder.glob(WEIGHTS))
    if not files:
        raise LoadFailed(f"no {WEIGHTS} in the checkpoint")
    known = _targets(model).keys()
    ignored = [re.compile(pattern) for pattern in getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()]
    places: dict[str, Path] = {}
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            names = list(tensors.keys())
        for name in names:
            if name in places:
                raise LoadFailed(f"tensor {name} is in {places[name].name} and in {file.name}")
            if name in known or not any(pattern.search(name) for pattern in ignored):
                places[name] = file
    return places


def _unknown(targets: dict[str, Any], places: dict[str, Path]) -> list[str]:
    return sorted(places.keys() - targets.keys())


def _missing(targets: dict[str, Any], places: dict[str, Path]) -> list[str]:
    """Names of weights of which the files hold neither the tensor nor one that it is tied to."""
    shared = defaultdict(list)
    for name, target in targets.items():
        shared[target.data_ptr()].append(name)
    return sorted(names[0] for names in shared.values() if not any(name in places for name in names))


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

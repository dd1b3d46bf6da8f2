"""Weights of a Hugging Face folder into a model that exists already: strict, in place, tied weights included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from harness.errors import LoadFailed
from harness.inference.engines.weight_files import (
    check_names,
    check_shape,
    expected_of,
    is_finite,
    opened,
    tensor_places,
)


def names_fit(model: Any, folder: Path) -> bool:
    """Whether the folder's tensor names are those of `model` (tied ones may be left out).

    Some architectures are stored under other names than they run with; transformers converts those itself.

    Raises:
        LoadFailed: no weights, or a tensor is in two files.
    """
    expected = expected_of(model)
    places = tensor_places(folder, expected)
    return not expected.unknown(places) and not expected.missing(places)


def copy_weights(model: Any, folder: Path) -> None:
    """Overwrites every parameter of `model` with the folder's tensors, cast to the model's dtype.

    Raises:
        LoadFailed: a tensor is missing, unknown, of another shape, in two files, or not finite.
    """
    targets, expected = _targets(model), expected_of(model)
    places = tensor_places(folder, expected)
    check_names(expected, places, type(model).__name__)
    done: dict[int, str] = {}
    for name, file in opened(places):
        _copy(targets[name], file.get_tensor(name), name, done)
    check_finite(model)


def check_finite(model: Any) -> None:
    """Raises LoadFailed where a weight of `model` is NaN or infinite."""
    for name, target in _targets(model).items():
        if not is_finite(target):
            raise LoadFailed(f"tensor {name} is not finite in {target.dtype}")


def _targets(model: Any) -> dict[str, Any]:
    return dict(model.state_dict(keep_vars=True))


def _copy(target: Any, source: Any, name: str, done: dict[int, str]) -> None:
    check_shape(name, source.shape, target.shape)
    source = source.to(device=target.device, dtype=target.dtype)
    twin = done.get(target.data_ptr())
    if twin is not None and not torch.equal(target, source):
        raise LoadFailed(f"tensor {name} differs from {twin}, to which the model ties it")
    with torch.no_grad():
        target.copy_(source)
    done[target.data_ptr()] = name

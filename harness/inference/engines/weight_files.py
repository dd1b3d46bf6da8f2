"""Weight files of a Hugging Face folder: where each tensor is, and whether they are what an architecture asks for."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from harness.errors import LoadFailed

WEIGHTS = "*.safetensors"
INDEX = "model.safetensors.index.json"
NOT_SETUP = (".safetensors", ".safetensors.index.json", ".md", ".txt.license", ".gitattributes")

Places = dict[str, Path]


@dataclass(frozen=True)
class Expected:
    """What an architecture asks of its files: `shapes` by tensor name; `twins` are names of one and the same tensor.

    `is_renamed`: it is stored under other names than it runs with, and a first folder of it was made the measure.
    """

    shapes: Mapping[str, tuple[int, ...]]
    twins: tuple[tuple[str, ...], ...] = ()
    ignored: tuple[str, ...] = ()
    is_renamed: bool = False

    def twins_of(self) -> dict[str, tuple[str, ...]]:
        """Names of the same tensor, for each name that is not the only one."""
        return {name: names for names in self.twins for name in names}

    def unknown(self, places: Places) -> list[str]:
        """Names in the files that the architecture does not have."""
        return sorted(places.keys() - self.shapes.keys())

    def missing(self, places: Places) -> list[str]:
        """Names of which the files hold neither the tensor nor a twin of it."""
        tied = self.twins_of()
        groups = {tied.get(name, (name,)) for name in self.shapes}
        return sorted(names[0] for names in groups if not any(name in places for name in names))


def expected_of(model: Any) -> Expected:
    """What `model` (it may be on the meta device) asks of its files."""
    tensors = dict(model.state_dict(keep_vars=True))
    names = defaultdict(list)
    for name, tensor in tensors.items():
        names[id(tensor)].append(name)
    return Expected(
        shapes={name: tuple(tensor.shape) for name, tensor in tensors.items()},
        twins=tuple(tuple(group) for group in names.values() if len(group) > 1),
        ignored=tuple(getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()),
    )


def expected_of_files(folder: Path) -> Expected:
    """What the folder itself holds, as a measure for others of the same set-up."""
    places = tensor_places(folder)
    return Expected(shapes={name: shape for name, shape, _ in _headers(places)}, is_renamed=True)


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


def tensor_places(folder: Path, expected: Expected | None = None) -> Places:
    """Tensor name -> the file that holds it, without what the architecture says is left over from older versions.

    Raises:
        LoadFailed: no weights, or a tensor is in two files.
    """
    files = sorted(folder.glob(WEIGHTS))
    if not files:
        raise LoadFailed(f"no {WEIGHTS} in the checkpoint")
    ignored = [re.compile(pattern) for pattern in (expected.ignored if expected else ())]
    places: Places = {}
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            names = list(tensors.keys())
        for name in names:
            if name in places:
                raise LoadFailed(f"tensor {name} is in {places[name].name} and in {file.name}")
            is_left_over = any(pattern.search(name) for pattern in ignored)
            if not is_left_over or (expected is not None and name in expected.shapes):
                places[name] = file
    return places


def check_names(expected: Expected, places: Places, architecture: str) -> None:
    """Raises LoadFailed where a tensor is missing or unknown."""
    if unknown := expected.unknown(places):
        raise LoadFailed(f"{architecture} has no tensor {unknown[0]} ({len(unknown)} unknown)")
    if missing := expected.missing(places):
        raise LoadFailed(f"tensor {missing[0]} is missing ({len(missing)} missing)")


def check_shape(name: str, found: Iterable[int], expected: Iterable[int]) -> None:
    """Raises LoadFailed where the shapes differ."""
    if tuple(found) != tuple(expected):
        raise LoadFailed(f"tensor {name} has shape {tuple(found)}, not {tuple(expected)}")


def check_index(folder: Path) -> None:
    """Raises LoadFailed where the index, which some readers go by, does not list the weight files that are there."""
    index = folder / INDEX
    if not index.is_file():
        return
    try:
        listed = set(json.loads(index.read_text())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoadFailed(f"{INDEX} lists no files: {type(error).__name__}") from error
    if listed != {file.name for file in folder.glob(WEIGHTS)}:
        raise LoadFailed(f"{INDEX} does not list the weight files that are there")


def check_values(expected: Expected, places: Places, dtype: Any) -> None:
    """Reads every tensor once.

    Raises:
        LoadFailed: one is of another shape, not finite in `dtype`, or differs from a twin of it.
    """
    tied = expected.twins_of()
    for name, file in opened(places):
        tensor = file.get_tensor(name)
        check_shape(name, tensor.shape, expected.shapes[name])
        tensor = tensor.to(dtype)
        if not is_finite(tensor):
            raise LoadFailed(f"tensor {name} is not finite in {dtype}")
        for twin in tied.get(name, ()):
            if twin < name and twin in places and not torch.equal(tensor, read(places, twin).to(dtype)):
                raise LoadFailed(f"tensor {name} differs from {twin}, to which the model ties it")


def is_finite(tensor: Any) -> bool:
    """Whether no element is NaN or infinite; such an element makes the sum so, and a sum takes one pass only."""
    return bool(torch.isfinite(tensor.sum(dtype=torch.float32))) or bool(torch.isfinite(tensor).all())


def opened(places: Places) -> Iterator[tuple[str, Any]]:
    """Each tensor's name with the open file that holds it; every file is opened once."""
    for path in sorted(set(places.values())):
        with safe_open(path, framework="pt") as file:
            for name in (name for name, place in places.items() if place == path):
                yield name, file


def read(places: Places, name: str) -> Any:
    """One tensor, mapped from its file."""
    with safe_open(places[name], framework="pt") as tensors:
        return tensors.get_tensor(name)


def n_weights(places: Places) -> int:
    """Elements of all tensors together."""
    return sum(numel for _, _, numel in _headers(places))


def _headers(places: Places) -> Iterable[tuple[str, tuple[int, ...], int]]:
    for name, file in opened(places):
        shape = tuple(file.get_slice(name).get_shape())
        yield name, shape, torch.Size(shape).numel()

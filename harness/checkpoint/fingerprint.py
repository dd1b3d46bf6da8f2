"""What is kept of a checkpoint to tell others from it: hash and sketch of every tensor, a few megabytes in all.

Fingerprints of known siblings are shared as files, so a file is read as strictly as if an agent had written it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from harness.checkpoint.header import DTYPE_BYTES, MAX_NAME_CHARACTERS, MAX_RANK, Placement, TensorInfo
from harness.checkpoint.sketch import MAX_WIDTH, Sketcher, sketch_length, width_for
from harness.checkpoint.tree import HEAD, HashedTensor, combined_hash, read_header, tensor_chunks, weight_files
from harness.domain.base import Frozen
from harness.errors import PrerequisiteError

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0, lt=2**63)]
TensorName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARACTERS)]


class Portable(Frozen):
    """A frozen model that goes to a JSON file and back, bytes as base64."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class TensorPrint(Portable):
    """A tensor's kind, the SHA-256 of its bytes, and its sketch as F32; empty where none could be made."""

    name: TensorName
    dtype: str
    shape: Annotated[tuple[Size, ...], Field(max_length=MAX_RANK)]
    sha256: Sha256
    sketch: bytes = b""

    @model_validator(mode="after")
    def _is_a_tensor(self) -> Self:
        if self.dtype not in DTYPE_BYTES or not self.name.isprintable():
            raise ValueError("no such dtype, or a name that is not printable")
        if len(self.sketch) % 4 or not np.isfinite(self.numbers).all():
            raise ValueError("a sketch that is not made of finite numbers")
        return self

    @property
    def info(self) -> TensorInfo:
        return TensorInfo(self.dtype, self.shape)

    @property
    def hashed(self) -> HashedTensor:
        return HashedTensor(self.info, self.sha256)

    @property
    def numbers(self) -> NDArray[np.float32]:
        return np.frombuffer(self.sketch, dtype="<f4")


class Fingerprint(Portable):
    """The tensors of a checkpoint in the order of their names; a head that repeats the embedding is among them."""

    version: Literal[1] = 1
    width: int = Field(gt=0, le=MAX_WIDTH)
    tensors: tuple[TensorPrint, ...]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        names = [tensor.name for tensor in self.tensors]
        if not names or names != sorted(set(names)):
            raise ValueError("no tensors, or not in the order of their names, each once")
        if self.width != width_of(names):
            raise ValueError("a width that does not follow from the number of tensors")
        if any(len(t.sketch) not in (0, 4 * sketch_length(t.info, self.width)) for t in self.tensors):
            raise ValueError("a sketch of another length than its tensor's")
        return self

    @cached_property
    def by_name(self) -> dict[str, TensorPrint]:
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def tree_hash(self) -> str:
        return combined_hash({tensor.name: tensor.hashed for tensor in self.tensors})


def width_of(names: list[str] | dict[str, TensorInfo]) -> int:
    """The sketch width of a checkpoint with these tensors: the same whether or not it holds a tied head."""
    return width_for(sum(name != HEAD for name in names))


class FingerprintMaker:
    """Hashes and sketches tensors chunk by chunk, in any order; the caller may have the hash made elsewhere."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._sketcher = Sketcher(width)
        self._prints: list[TensorPrint] = []

    def begin(self, place: Placement) -> None:
        """The bytes that follow are of this tensor."""
        self._sketcher.begin(place.name, place.info)

    def add(self, chunk: memoryview) -> bool:
        """Sketches the next bytes; True if they are known to hold finite numbers only."""
        return self._sketcher.add(chunk)

    def end(self, place: Placement, sha256: str) -> None:
        """The tensor is complete, and this is its hash."""
        info, sketch = place.info, self._sketcher.end()
        self._prints.append(
            TensorPrint(name=place.name, dtype=info.dtype, shape=info.shape, sha256=sha256, sketch=sketch)
        )

    def fingerprint(self) -> Fingerprint:
        """Of everything that was added."""
        return Fingerprint(width=self._width, tensors=tuple(sorted(self._prints, key=lambda tensor: tensor.name)))


def fingerprint_of(folder: Path, on_progress: Callable[[int], None] = lambda _: None) -> Fingerprint:
    """The fingerprint of a trusted `folder`; one pass over its weights. `on_progress` is told bytes read.

    Raises:
        PrerequisiteError: no safetensors weights there, or broken ones.
    """
    headers = {}
    for path in weight_files(folder):
        with path.open("rb") as file:
            headers[path] = read_header(file, path)
    names = [place.name for header in headers.values() for place in header.placements]
    if len(set(names)) != len(names) or not names:
        raise PrerequisiteError(f"broken model: {folder} holds no tensors, or one of them twice", "Fetch it again.")
    maker = FingerprintMaker(width_of(names))
    for path, header in headers.items():
        with path.open("rb") as file:
            file.seek(header.data_start)
            for place in header.placements:
                maker.begin(place)
                digest = hashlib.sha256()
                for chunk in tensor_chunks(file, place, path):
                    digest.update(chunk)
                    maker.add(memoryview(chunk))
                    on_progress(len(chunk))
                maker.end(place, digest.hexdigest())
    return maker.fingerprint()

"""The tree hash of a checkpoint: which tensors with which bytes, however they are sharded, named or described.

`tree_hash` is the canonical hash of the sorted (name, dtype, shape, SHA-256 of the bytes). A `lm_head` that equals the
embedding is left out, because whether a tied head is written to disk is a matter of the library's version.
The folders read here are trusted (base models); an agent's folder goes through `harness.grader.admission`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from harness.checkpoint.header import LENGTH_BYTES, Header, Placement, TensorInfo, header_length, parse_header
from harness.checkpoint.strict_json import parse_json
from harness.domain.base import canonical_hash
from harness.errors import Inadmissible, PrerequisiteError

HEAD = "lm_head.weight"
EMBEDDING_ENDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight")
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
CHUNK_BYTES = 4 * 2**20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HashedTensor:
    """A tensor and the SHA-256 (hex) of its bytes."""

    info: TensorInfo
    sha256: str


def tree_hash(folder: Path, count: Callable[[int], None] = lambda n_bytes: None) -> str:
    """The tree hash of the safetensors weights in a trusted `folder`; one pass over their bytes, told to `count`.

    Raises:
        PrerequisiteError: no safetensors weights there, or broken ones.
    """
    tensors: dict[str, HashedTensor] = {}
    for path in weight_files(folder):
        with path.open("rb") as file:
            header = read_header(file, path)
            file.seek(header.data_start)
            for place in header.placements:
                _add(tensors, place.name, HashedTensor(place.info, _sha256(file, place, path, count)), path)
    return combined_hash(tensors)


def tensors_of(folder: Path) -> dict[str, TensorInfo]:
    """Every tensor of a trusted `folder` by name, from the headers alone; a tied `lm_head` is in it if it is on disk.

    Raises:
        PrerequisiteError: no safetensors weights there, or broken ones.
    """
    tensors: dict[str, TensorInfo] = {}
    for path in weight_files(folder):
        with path.open("rb") as file:
            for place in read_header(file, path).placements:
                _add(tensors, place.name, place.info, path)
    return tensors


def combined_hash(tensors: Mapping[str, HashedTensor]) -> str:
    """The tree hash of `tensors`; a head that equals the embedding does not count."""
    counted = {name for name in tensors if not (name == HEAD and is_tied_head(tensors))}
    rows = [[n, tensors[n].info.dtype, list(tensors[n].info.shape), tensors[n].sha256] for n in sorted(counted)]
    return canonical_hash(rows)


def is_tied_head(tensors: Mapping[str, HashedTensor]) -> bool:
    """Whether the `lm_head` in `tensors` is the embedding once more."""
    embedding = embedding_name(tensors)
    return HEAD in tensors and embedding is not None and tensors[HEAD] == tensors[embedding]


def embedding_name(names: Iterable[str]) -> str | None:
    """The name of the token embedding, if there is exactly one."""
    found = [name for name in names if name.endswith(EMBEDDING_ENDINGS)]
    return found[0] if len(found) == 1 else None


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files that a loader would read from a trusted `folder`: the index's, the single one, or all.

    Raises:
        PrerequisiteError: there are none.
    """
    if (folder / INDEX).is_file():
        return tuple(folder / name for name in sorted(set(_indexed(folder / INDEX))))
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    found = tuple(sorted(folder.glob("*.safetensors"))) if folder.is_dir() else ()
    if not found:
        raise PrerequisiteError(
            f"no safetensors weights in {folder}", "Use a revision of the model with model.safetensors, or convert it."
        )
    return found


def read_header(file: BinaryIO, path: Path) -> Header:
    """The verified header of a trusted file.

    Raises:
        PrerequisiteError: the file is broken.
    """
    size = path.stat().st_size
    try:
        length = header_length(file.read(LENGTH_BYTES), file=path.name, file_bytes=size)
        return parse_header(file.read(length), file=path.name, data_bytes=size - LENGTH_BYTES - length)
    except Inadmissible as error:
        raise PrerequisiteError(f"broken model in {path.parent}: {error.what}", "Fetch the model again.") from error


def _indexed(index: Path) -> Iterator[str]:
    try:
        names = list(parse_json(index.read_bytes())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PrerequisiteError(f"broken index {index}: {error}", "Fetch the model again.") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not (index.parent / name).is_file():
            raise PrerequisiteError(f"{index} names {name!r}, which is not there", "Fetch the model again.")
        yield name


def _add(tensors: dict[str, T], name: str, value: T, path: Path) -> None:
    if name in tensors:
        raise PrerequisiteError(f"broken model: {path} holds {name}, which another file holds too", "Fetch it again.")
    tensors[name] = value


def tensor_chunks(file: BinaryIO, place: Placement, path: Path) -> Iterator[bytes]:
    """The bytes of the tensor at which the trusted `file` (of `path`) stands.

    Raises:
        PrerequisiteError: the file ends before it.
    """
    left = place.end - place.begin
    while left:
        chunk = file.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise PrerequisiteError(f"{path} ends inside {place.name}", "Fetch the model again.")
        left -= len(chunk)
        yield chunk


def _sha256(file: BinaryIO, place: Placement, path: Path, count: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    for chunk in tensor_chunks(file, place, path):
        digest.update(chunk)
        count(len(chunk))
    return digest.hexdigest()

"""The header of a safetensors file, verified strictly from untrusted bytes.

The format (https://github.com/huggingface/safetensors#format): 8 bytes, the header's length N, little-endian; N bytes
of JSON, beginning with `{`, maybe padded with spaces; then the tensors' bytes without holes. Everything a loader relies
on is checked here, so that a later loader has nothing left to trip over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

from harness.checkpoint.strict_json import parse_json
from harness.domain.text import shown
from harness.errors import ErrorClass, Inadmissible

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 32 * 2**20
MAX_NAME_CHARACTERS = 512
MAX_RANK = 16
MAX_INTEGER = 2**63 - 1
METADATA_KEY = "__metadata__"
RESAVE = "Save the checkpoint again with save_pretrained() and submit it once saving is done."

DTYPE_BYTES: Mapping[str, int] = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E5M2": 1,
    "F8_E4M3": 1,
    "U16": 2,
    "I16": 2,
    "F16": 2,
    "BF16": 2,
    "U32": 4,
    "I32": 4,
    "F32": 4,
    "U64": 8,
    "I64": 8,
    "F64": 8,
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a tensor is, without its bytes."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        return self.n_elements * DTYPE_BYTES[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Placement:
    """One tensor of a file: its bytes are [begin, end) after the header."""

    name: str
    info: TensorInfo
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """A verified header: placements in the order of their bytes, which begin at byte `data_start` of the file."""

    placements: tuple[Placement, ...]
    data_start: int


def header_length(prefix: bytes, *, file: str, file_bytes: int, limit: int = MAX_HEADER_BYTES) -> int:
    """The header's length in bytes, from the first 8 bytes of a file.

    Raises:
        Inadmissible: a file of fewer than 8 bytes, or a header longer than the file or than `limit`.
    """
    if len(prefix) < LENGTH_BYTES or file_bytes < LENGTH_BYTES:
        raise _refused(file, f"has only {file_bytes} bytes: the header's length is missing")
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if length > limit:
        raise _refused(file, f"says that its header has {length} bytes; at most {limit} are accepted here")
    if length > file_bytes - LENGTH_BYTES:
        raise _refused(file, f"is cut off: its header has {length} bytes, the whole file has {file_bytes}")
    return length


def parse_header(raw: bytes, *, file: str, data_bytes: int) -> Header:
    """The verified header `raw` of a file that has `data_bytes` bytes after it.

    Raises:
        Inadmissible: anything that is not exactly as the format says; names `file` and the tensor.
    """
    if not raw.startswith(b"{"):
        raise _refused(file, "has a header that does not begin with '{'")
    try:
        document = parse_json(raw)
    except ValueError as error:
        raise _refused(file, f"has a header that cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise _refused(file, "has a header that is not a JSON object")
    _check_metadata(document.pop(METADATA_KEY, {}), file)
    placements = sorted(
        (_placement(name, value, file) for name, value in document.items()), key=lambda p: (p.begin, p.end, p.name)
    )
    _check_coverage(placements, file, data_bytes)
    return Header(tuple(placements), LENGTH_BYTES + len(raw))


def encode_header(placements: Sequence[Placement]) -> bytes:
    """The length and header for a file with these tensors; says `format: pt` and nothing else, 8-byte aligned."""
    document: dict[str, Any] = {METADATA_KEY: {"format": "pt"}}
    for place in placements:
        document[place.name] = {
            "dtype": place.info.dtype,
            "shape": list(place.info.shape),
            "data_offsets": [place.begin, place.end],
        }
    raw = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    raw += b" " * (-len(raw) % LENGTH_BYTES)
    return len(raw).to_bytes(LENGTH_BYTES, "little") + raw


def _refused(file: str, reason: str) -> Inadmissible:
    return Inadmissible(f"{shown(file)} {reason}", RESAVE, error_class=ErrorClass.BAD_SAFETENSORS)


def _check_metadata(metadata: Any, file: str) -> None:
    if not isinstance(metadata, dict) or not all(_is_text(text) for item in metadata.items() for text in item):
        raise _refused(file, f"has a {METADATA_KEY} that is not a map of strings to strings")


def _is_text(value: Any) -> bool:
    """A string that can be written as UTF-8: JSON can escape half a surrogate pair, which no loader reads."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _placement(name: str, value: Any, file: str) -> Placement:
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise _refused(file, f"names a tensor {shown(name)}: empty, too long, or not printable")
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise _refused(file, f"describes {shown(name)} by other keys than dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise _refused(file, f"gives {shown(name)} the unknown dtype {shown(str(dtype))}")
    if not _are_sizes(shape) or len(shape) > MAX_RANK:
        raise _refused(file, f"gives {shown(name)} a shape that is not a list of up to {MAX_RANK} sizes")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise _refused(file, f"gives {shown(name)} data_offsets that are not two sizes")
    info = TensorInfo(dtype, tuple(shape))
    if _overflows(info):
        raise _refused(file, f"gives {shown(name)} a shape of more elements than can be counted")
    begin, end = offsets
    if end - begin != info.n_bytes:
        raise _refused(
            file, f"gives {shown(name)} {end - begin} bytes, but {info.dtype} of that shape takes {info.n_bytes}"
        )
    return Placement(name, info, begin, end)


def _are_sizes(value: Any) -> bool:
    # `type` and not isinstance: true and false are integers to Python.
    return isinstance(value, list) and all(type(item) is int and 0 <= item <= MAX_INTEGER for item in value)


def _overflows(info: TensorInfo) -> bool:
    """As loaders multiply, from left to right: a 0 that comes too late does not help them."""
    bits = 8 * DTYPE_BYTES[info.dtype]
    return any(product * bits > MAX_INTEGER for product in accumulate(info.shape, mul))


def _check_coverage(placements: Sequence[Placement], file: str, data_bytes: int) -> None:
    reached = 0
    for place in placements:
        if place.begin != reached:
            fault = "overlap" if place.begin < reached else "leave a hole"
            raise _refused(file, f"is inconsistent: the bytes of {shown(place.name)} {fault} at byte {reached}")
        reached = place.end
    if reached > data_bytes:
        raise _refused(file, f"is cut off: its tensors take {reached} bytes, {data_bytes} follow the header")
    if reached < data_bytes:
        raise _refused(file, f"has {data_bytes - reached} bytes that belong to no tensor")

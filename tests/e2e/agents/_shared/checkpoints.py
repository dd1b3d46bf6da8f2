"""Checkpoints, honest and broken, written byte by byte with the standard library."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

BASE = Path(os.environ["MODEL_PATH"])
OUTPUT = Path(os.environ["OUTPUT_DIR"])
WEIGHTS = "model.safetensors"
METADATA = "__metadata__"

Header = dict[str, Any]


def read_weights(path: Path = BASE / WEIGHTS) -> tuple[Header, bytearray]:
    """Header and tensor bytes of a safetensors file."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        return header, bytearray(file.read())


def write_weights(folder: Path, header: Header | bytes, data: bytes, *, name: str = WEIGHTS, length: int = -1) -> None:
    """Any header with any bytes behind it; `length` is what the file says of its header, if that is to be a lie."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(raw) if length < 0 else length) + raw + data)


def copy_of_base(folder: Path) -> Path:
    """An honest folder with the base model's own weights."""
    folder.mkdir(parents=True)
    for path in BASE.iterdir():
        shutil.copyfile(path, folder / path.name)
    return folder


def changed_base(folder: Path, number: int) -> Path:
    """An honest folder whose weights are the base model's but for one number."""
    copy_of_base(folder)
    header, data = read_weights()
    set_float(header, data, number, 0.01)
    write_weights(folder, header, bytes(data))
    return folder


def set_float(header: Header, data: bytearray, index: int, value: float) -> None:
    """Sets one number of the first F32 tensor."""
    begin = first_tensor(header)["data_offsets"][0] + 4 * index
    data[begin : begin + 4] = struct.pack("<f", value)


def first_tensor(header: Header) -> Header:
    return next(entry for name, entry in header.items() if name != METADATA and entry["dtype"] == "F32")


def last_tensor_name(header: Header) -> str:
    names = [name for name in header if name != METADATA]
    return max(names, key=lambda name: header[name]["data_offsets"][1])

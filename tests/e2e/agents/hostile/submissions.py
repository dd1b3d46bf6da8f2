"""Checkpoints that must not be accepted: one function each, which puts one (or something else) where it is told."""

import json
import os
import pickle
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from checkpoints import (
    METADATA,
    WEIGHTS,
    copy_of_base,
    first_tensor,
    last_tensor_name,
    read_weights,
    set_float,
    write_weights,
)

TEN_MILLION, TERABYTE = 10_000_000, 10**12
HIDDEN = "/var/lib/harness/eval"
Build = Callable[[Path], object]


def symlink_weights(folder: Path) -> None:
    weights = copy_of_base(folder) / WEIGHTS
    weights.rename(folder.with_suffix(".aside"))
    weights.symlink_to(folder.with_suffix(".aside"))


def symlink_config_to_hidden(folder: Path) -> None:
    _replace(copy_of_base(folder) / "config.json", lambda path: path.symlink_to(f"{HIDDEN}/arithmetic/test.jsonl"))


def symlink_folder(folder: Path) -> None:
    folder.symlink_to(copy_of_base(folder.with_suffix(".real")))


def symlink_to_root(folder: Path) -> None:
    folder.symlink_to("/")


def fifo_weights(folder: Path) -> None:
    _replace(copy_of_base(folder) / WEIGHTS, os.mkfifo)


def fifo_config(folder: Path) -> None:
    _replace(copy_of_base(folder) / "config.json", os.mkfifo)


def fifo_folder(folder: Path) -> None:
    os.mkfifo(folder)


def socket_config(folder: Path) -> None:
    def make(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))

    _replace(copy_of_base(folder) / "config.json", make)


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


class Opener:
    """What unpickling runs."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch /tmp/pickled",)


def pickle_only(folder: Path) -> None:
    (copy_of_base(folder) / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Opener()))


def pickle_beside(folder: Path) -> None:
    (copy_of_base(folder) / "training_args.bin").write_bytes(pickle.dumps(Opener()))


def python_file(folder: Path) -> None:
    (copy_of_base(folder) / "modeling_mine.py").write_text("import os\nos.system('id')\n")


def auto_map(folder: Path) -> None:
    _edit(copy_of_base(folder) / "config.json", auto_map={"AutoModelForCausalLM": "modeling_mine.Model"})


def auto_map_in_tokenizer(folder: Path) -> None:
    _edit(copy_of_base(folder) / "tokenizer_config.json", auto_map={"AutoTokenizer": ["mine.Tokenizer", None]})


def _edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def adapter_only(folder: Path) -> None:
    (copy_of_base(folder) / WEIGHTS).rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text("{}")


def nan_weights(folder: Path) -> None:
    _with_number(folder, float("nan"))


def infinite_weights(folder: Path) -> None:
    _with_number(folder, float("-inf"))


def _with_number(folder: Path, value: float) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    set_float(header, data, 77, value)
    write_weights(folder, header, bytes(data))


def weights_that_overflow(folder: Path) -> None:
    """Finite, but nothing that is computed with them is."""
    copy_of_base(folder)
    header, data = read_weights()
    begin, end = first_tensor(header)["data_offsets"]
    data[begin:end] = struct.pack("<f", 3.0e38) * ((end - begin) // 4)
    write_weights(folder, header, bytes(data))


def truncated_data(folder: Path) -> None:
    path = copy_of_base(folder) / WEIGHTS
    os.truncate(path, path.stat().st_size - 1000)


def truncated_header(folder: Path) -> None:
    os.truncate(copy_of_base(folder) / WEIGHTS, 1000)


def truncated_length(folder: Path) -> None:
    os.truncate(copy_of_base(folder) / WEIGHTS, 5)


def lying_length(folder: Path) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    write_weights(folder, header, bytes(data), length=2**62)


def lying_short_length(folder: Path) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    write_weights(folder, header, bytes(data), length=100)


def overlapping_offsets(folder: Path) -> None:
    _with_tensor(folder, lambda entry: entry["data_offsets"].__setitem__(0, 0))


def offsets_outside(folder: Path) -> None:
    _with_tensor(folder, lambda entry: entry["data_offsets"].__setitem__(1, 2**40))


def negative_offsets(folder: Path) -> None:
    _with_tensor(folder, lambda entry: entry["data_offsets"].__setitem__(0, -4))


def lying_shape(folder: Path) -> None:
    _with_tensor(folder, lambda entry: entry["shape"].__setitem__(0, 2**40))


def lying_dtype(folder: Path) -> None:
    _with_tensor(folder, lambda entry: entry.update(dtype="I32"))


def _with_tensor(folder: Path, change: Callable[[dict], object]) -> None:
    """The last tensor's entry in the header changed, the bytes as they were."""
    copy_of_base(folder)
    header, data = read_weights()
    change(header[last_tensor_name(header)])
    write_weights(folder, header, bytes(data))


def hole_between_tensors(folder: Path) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    entry = header[last_tensor_name(header)]
    begin = entry["data_offsets"][0]
    entry["data_offsets"] = [offset + 64 for offset in entry["data_offsets"]]
    write_weights(folder, header, bytes(data[:begin] + b"\0" * 64 + data[begin:]))


def same_key_twice(folder: Path) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    name = last_tensor_name(header)
    raw = json.dumps(header)[:-1] + f', "{name}": {json.dumps(header[name])}}}'
    write_weights(folder, raw.encode(), bytes(data))


def missing_tensor(folder: Path) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    begin, _ = header.pop(last_tensor_name(header))["data_offsets"]
    write_weights(folder, header, bytes(data[:begin]))


def extra_tensor(folder: Path) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    header["backdoor.weight"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]}
    write_weights(folder, header, bytes(data) + b"\0" * 4)


def tensor_in_two_shards(folder: Path) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    name = last_tensor_name(header)
    begin, end = header[name]["data_offsets"]
    second = {name: {**header[name], "data_offsets": [0, end - begin]}}
    (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
    write_weights(folder, second, bytes(data[begin:end]), name="model-00002-of-00002.safetensors")


def ten_million_tensors(folder: Path) -> None:
    """A header that takes seconds and gigabytes to parse."""
    _only_a_header(folder, ten_million_json())


def three_million_tensors(folder: Path) -> None:
    """No more bytes than a checkpoint may have."""
    _only_a_header(folder, ten_million_json()[:33_000_000].rpartition(b",")[0] + b"}")


def _only_a_header(folder: Path, raw: bytes) -> None:
    (copy_of_base(folder) / WEIGHTS).write_bytes(struct.pack("<Q", len(raw)) + raw)


def ten_million_keys_in_config(folder: Path) -> None:
    (copy_of_base(folder) / "config.json").write_bytes(ten_million_json())


def ten_million_keys_in_tokenizer(folder: Path) -> None:
    (copy_of_base(folder) / "tokenizer.json").write_bytes(ten_million_json())


def ten_million_json() -> bytes:
    """An object with so many keys; made once."""
    keys = Path("/tmp/ten_million.json")
    if not keys.exists():
        with keys.open("wb") as file:
            file.write(b'{"a":0')
            for begin in range(0, TEN_MILLION, 100_000):
                file.write(b"".join(b',"%d":0' % number for number in range(begin, begin + 100_000)))
            file.write(b"}")
    return keys.read_bytes()


def sparse_terabyte(folder: Path) -> None:
    os.truncate(copy_of_base(folder) / WEIGHTS, TERABYTE)


def sparse_terabyte_of_config(folder: Path) -> None:
    os.truncate(copy_of_base(folder) / "config.json", TERABYTE)


def sparse_terabyte_of_one_tensor(folder: Path) -> None:
    copy_of_base(folder)
    header, data = read_weights()
    entry = header[last_tensor_name(header)]
    entry["data_offsets"][1] = TERABYTE
    entry["shape"] = [(TERABYTE - entry["data_offsets"][0]) // 4]
    write_weights(folder, header, bytes(data))
    raw_bytes = len(json.dumps(header).encode())
    os.truncate(folder / WEIGHTS, 8 + raw_bytes + TERABYTE)


def many_entries(folder: Path) -> None:
    copy_of_base(folder)
    for number in range(5000):
        (folder / f"{number}.md").touch()


def nested_folder(folder: Path) -> None:
    copy_of_base(copy_of_base(folder) / "checkpoint-1")


def names_that_are_no_text(folder: Path) -> None:
    copy_of_base(folder)
    for name in (b"\xff\xfe.safetensors", b"a\nb\x1b[2J.safetensors"):
        shutil.copyfile(folder / WEIGHTS, os.fsencode(folder) + b"/" + name)


def empty_folder(folder: Path) -> None:
    folder.mkdir()


def nothing(folder: Path) -> None:
    """The folder is not there at all."""


def file_as_folder(folder: Path) -> None:
    folder.write_text("no folder")


def unreadable_weights(folder: Path) -> None:
    (copy_of_base(folder) / WEIGHTS).chmod(0)


def lying_index(folder: Path) -> None:
    """The index is made anew from the headers, whatever this one says."""
    names = [name for name in read_weights()[0] if name != METADATA]
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, "../../../../var/lib/harness/db/harness.db")}
    (copy_of_base(folder) / "model.safetensors.index.json").write_text(json.dumps(index))


# Submitted, and recorded: all but the last as rejected.
SUBMITTED: tuple[Build, ...] = (
    symlink_weights,
    symlink_config_to_hidden,
    symlink_folder,
    fifo_weights,
    fifo_folder,
    pickle_only,
    pickle_beside,
    auto_map,
    nan_weights,
    truncated_data,
    truncated_header,
    lying_length,
    overlapping_offsets,
    lying_shape,
    tensor_in_two_shards,
    ten_million_tensors,
    three_million_tensors,
    ten_million_keys_in_config,
    sparse_terabyte,
    sparse_terabyte_of_one_tensor,
    weights_that_overflow,
)
# Validated, which takes the same way but for the record: a run may be rejected only so many times an hour.
VALIDATED: tuple[Build, ...] = (
    fifo_config,
    socket_config,
    python_file,
    auto_map_in_tokenizer,
    adapter_only,
    infinite_weights,
    truncated_length,
    lying_short_length,
    offsets_outside,
    negative_offsets,
    lying_dtype,
    hole_between_tensors,
    same_key_twice,
    missing_tensor,
    extra_tensor,
    ten_million_keys_in_tokenizer,
    sparse_terabyte_of_config,
    many_entries,
    nested_folder,
    names_that_are_no_text,
    empty_folder,
    nothing,
    file_as_folder,
    unreadable_weights,
    lying_index,
)
# model_path as it is sent; none of these is a folder of a checkpoint below the workspace.
PATHS: dict[str, object] = {
    "path_absolute": "/etc",
    "path_hidden": HIDDEN,
    "path_dotdot": "../../var/lib/harness/eval",
    "path_dotdot_inside": "/workspace/output/../../etc",
    "path_proc": "/proc/self/root/workspace/output/honest",
    "path_workspace": "/workspace",
    "path_empty": "",
    "path_dots": "./././",
    "path_nul": "output/honest\0.png",
    "path_newline": "output/honest\n",
    "path_long": "a/" * 2000,
    "path_long_name": "output/" + "a" * 300,
    "path_deep": "output" + "/a" * 100,
    "path_of_model_mount": "models",
    "path_of_train_mount": "data",
    "path_number": 7,
    "path_list": ["output/honest"],
    "path_null": None,
}

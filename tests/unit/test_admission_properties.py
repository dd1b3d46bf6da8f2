"""What holds for every checkpoint, every mutation of one, and every folder: properties of admission."""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors_file import CONFIG, header_of, safetensors, with_header, write_model

from harness.checkpoint import tensors_of, tree_hash
from harness.errors import RequestError
from harness.grader.admission import AdmissionLimits, Admitted, admit
from harness.grader.base_model import BaseModelInfo
from harness.grader.snapshots import SnapshotStore

Tensor = tuple[str, tuple[int, ...], bytes]
Tensors = dict[str, Tensor]
WIDTHS = {"F32": 4, "BF16": 2, "F16": 2, "F64": 8}
# A number in each type whose bits are all finite, and one that is not.
FINITE = {"F32": "<f", "F64": "<d", "F16": "<e"}
NOT_FINITE = {"F32": b"\x00\x00\x80\x7f", "BF16": b"\x80\xff", "F16": b"\x00\x7e", "F64": b"\x00" * 6 + b"\xf8\x7f"}
MAX_SECONDS = 20

NAMES = st.text(st.characters(categories=("L", "N"), include_characters="._-"), min_size=1, max_size=20)
SHAPES = st.lists(st.integers(1, 5), min_size=0, max_size=3).map(tuple)


def numbers(draw: st.DrawFn, dtype: str, count: int) -> bytes:
    """Raw finite numbers."""
    values = draw(st.lists(st.floats(-100, 100, width=16), min_size=count, max_size=count))
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{count}{FINITE[dtype][1]}", *values)


@st.composite
def models(draw: st.DrawFn) -> Tensors:
    """A base model's tensors, up to six."""
    names = draw(
        st.lists(
            NAMES.filter(lambda n: n not in ("__metadata__", "lm_head.weight")), min_size=1, max_size=6, unique=True
        )
    )
    tensors = {}
    for name in names:
        dtype, shape = draw(st.sampled_from(sorted(WIDTHS))), draw(SHAPES)
        tensors[name] = (dtype, shape, numbers(draw, dtype, math.prod(shape)))
    return tensors


@st.composite
def checkpoints(draw: st.DrawFn, base: Tensors) -> Tensors:
    """Other values for the same tensors, each in a type of its own, in an order of its own."""
    return {
        name: (dtype, base[name][1], numbers(draw, dtype, math.prod(base[name][1])))
        for name in draw(st.permutations(sorted(base)))
        for dtype in [draw(st.sampled_from(sorted(WIDTHS)))]
    }


@dataclass
class Layout:
    """How tensors lie in files: the shard of each, the shards' names, metadata, padding after the header."""

    shards: dict[str, int]
    names: list[str]
    metadata: dict[str, str] = field(default_factory=dict)
    padding: int = 0

    def write(self, folder: Path, tensors: Tensors) -> None:
        for number, name in enumerate(self.names):
            own = {tensor: tensors[tensor] for tensor in tensors if self.shards[tensor] == number}
            raw = safetensors(own, self.metadata or None)
            length = int.from_bytes(raw[:8], "little")
            header = raw[8 : 8 + length] + b" " * self.padding
            (folder / f"{name}.safetensors").write_bytes(with_header(header, raw[8 + length :]))


@st.composite
def layouts(draw: st.DrawFn, tensors: Tensors) -> Layout:
    n_shards = draw(st.integers(1, 4))
    names = draw(
        st.lists(
            NAMES.filter(lambda n: not n.startswith(".")), min_size=n_shards, max_size=n_shards, unique_by=str.casefold
        )
    )
    shards = {tensor: draw(st.integers(0, n_shards - 1)) for tensor in tensors}
    metadata = draw(st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"), max_size=8), max_size=2))
    return Layout(shards, names, metadata, draw(st.integers(0, 9)))


class Place:
    """A base model, a workspace and a store."""

    def __init__(self, root: Path, base: Tensors) -> None:
        folder = write_model(root / "base", base, {**CONFIG, "tie_word_embeddings": False})
        self.model = root / "workspace" / "v1"
        self.model.mkdir(parents=True)
        (root / "snapshots").mkdir()
        self.store = SnapshotStore(root / "snapshots")
        self.base = BaseModelInfo.load(folder, tree_hash(folder))

    def admit(self, model_path: str = "v1") -> Admitted:
        workspace_fd = os.open(self.model.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with in_time():
                return admit(workspace_fd, model_path, self.base, self.store, AdmissionLimits(), lambda: None)
        finally:
            os.close(workspace_fd)

    def refused(self, model_path: str = "v1") -> RequestError:
        """The refusal, which has left nothing behind."""
        before = sorted(self.store.root.rglob("*"))
        with pytest.raises(RequestError) as caught:
            self.admit(model_path)
        assert 400 <= caught.value.status < 500, caught.value
        assert caught.value.what
        assert len(str(caught.value).encode()) < 4000
        assert sorted(self.store.root.rglob("*")) == before
        return caught.value


@contextmanager
def place(base: Tensors) -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as root:
        yield Place(Path(root), base)


@contextmanager
def in_time() -> Iterator[None]:
    """Whatever hangs, such as opening a FIFO, ends here."""

    def late(*_: object) -> None:
        raise AssertionError(f"not done within {MAX_SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(MAX_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Checkpoints


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_every_way_to_write_the_same_tensors_is_the_same_checkpoint(data: st.DataObject):
    base = data.draw(models())
    tensors = data.draw(checkpoints(base))
    with place(base) as there:
        (there.model / "whole.safetensors").write_bytes(safetensors(tensors))
        whole = there.admit()
        (there.model / "whole.safetensors").unlink()
        layout = data.draw(layouts(tensors))
        layout.write(there.model, dict(data.draw(st.permutations(list(tensors.items())))))
        again = there.admit()
        assert again.tree_hash == whole.tree_hash == tree_hash(again.snapshot_path)
        assert again.fingerprint == whole.fingerprint
        assert len(list(there.store.root.iterdir())) == 1
        assert {n: (i.dtype, i.shape) for n, i in tensors_of(again.snapshot_path).items()} == {
            name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()
        }


@given(st.data())
@settings(max_examples=10, deadline=None)
def test_other_values_are_another_checkpoint(data: st.DataObject):
    base = data.draw(models())
    tensors = data.draw(checkpoints(base))
    name = data.draw(st.sampled_from(sorted(tensors)))
    dtype, shape, raw = tensors[name]
    at = data.draw(st.integers(0, len(raw) // WIDTHS[dtype] - 1)) * WIDTHS[dtype]
    # The lowest bit of a number: it stays finite.
    changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
    with place(base) as there:
        (there.model / "m.safetensors").write_bytes(safetensors(tensors))
        first = there.admit()
        (there.model / "m.safetensors").write_bytes(safetensors({**tensors, name: (dtype, shape, changed)}))
        assert there.admit().tree_hash != first.tree_hash


# Mutations: each takes tensors, one of their names and something drawn, and writes a wrong folder.


def renamed(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    new = drawn if drawn not in tensors else drawn + "x"
    written(folder, {new if key == name else key: value for key, value in tensors.items()})


def missing(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    written(folder, {key: value for key, value in tensors.items() if key != name})


def extra(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    written(folder, {**tensors, f"extra.{drawn}": tensors[name]})


def reshaped(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    dtype, shape, raw = tensors[name]
    written(folder, {**tensors, name: (dtype, (1, *shape), raw)})


def resized(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    dtype, shape, raw = tensors[name]
    written(folder, {**tensors, name: (dtype, (2, *shape), raw * 2)})


def retyped(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    dtype, shape, raw = tensors[name]
    written(folder, {**tensors, name: ({8: "I64", 4: "I32", 2: "I16"}[WIDTHS[dtype]], shape, raw)})


def twice_in_shards(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    written(folder, tensors)
    (folder / "z.safetensors").write_bytes(safetensors({name: tensors[name]}))


def twice_in_a_header(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    raw = safetensors(tensors)
    length = int.from_bytes(raw[:8], "little")
    inner = safetensors({name: tensors[name]})
    again = inner[8 : 8 + int.from_bytes(inner[:8], "little")]
    header = again[:-1] + b"," + raw[9 : 8 + length]
    (folder / "m.safetensors").write_bytes(with_header(header, raw[8 + length :]))


def shifted(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    document = header_of(tensors)
    document[name]["data_offsets"] = [number + 1 for number in document[name]["data_offsets"]]
    lying(folder, tensors, document)


def overlapping(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    document = header_of({**tensors, "zz": tensors[name]})
    document["zz"]["data_offsets"] = document[name]["data_offsets"]
    lying(folder, tensors, document)


def too_long(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    (folder / "m.safetensors").write_bytes(safetensors(tensors) + drawn.encode())


def too_short(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    raw = safetensors(tensors)
    (folder / "m.safetensors").write_bytes(raw[: -1 - len(drawn) % len(raw[8:])])


def long_header(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    raw = safetensors(tensors)
    length = int.from_bytes(raw[:8], "little") + 1 + len(drawn)
    (folder / "m.safetensors").write_bytes(length.to_bytes(8, "little") + raw[8:])


def not_finite(folder: Path, tensors: Tensors, name: str, drawn: str) -> None:
    dtype, shape, raw = tensors[name]
    width = WIDTHS[dtype]
    at = len(drawn) % (len(raw) // width) * width
    written(folder, {**tensors, name: (dtype, shape, raw[:at] + NOT_FINITE[dtype] + raw[at + width :])})


def written(folder: Path, tensors: Tensors) -> None:
    (folder / "m.safetensors").write_bytes(safetensors(tensors))


def lying(folder: Path, tensors: Tensors, document: dict[str, Any]) -> None:
    data = b"".join(raw for _, _, raw in tensors.values())
    (folder / "m.safetensors").write_bytes(with_header(json.dumps(document).encode(), data))


MUTATIONS = [
    renamed, missing, extra, reshaped, resized, retyped, twice_in_shards, twice_in_a_header, shifted, overlapping,
    too_long, too_short, long_header, not_finite,
]  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@given(st.data())
@settings(max_examples=6, deadline=None)
def test_every_single_mutation_is_refused_and_leaves_the_store_alone(
    mutation: Callable[[Path, Tensors, str, str], None], data: st.DataObject
):
    base = data.draw(models())
    tensors = data.draw(checkpoints(base))
    name = data.draw(st.sampled_from(sorted(tensors)))
    with place(base) as there:
        written(there.model, tensors)
        good = there.admit()
        (there.model / "m.safetensors").unlink()
        mutation(there.model, tensors, name, data.draw(NAMES))
        there.refused()
        for file in there.model.iterdir():
            file.unlink()
        # An honest checkpoint is taken as before.
        written(there.model, tensors)
        assert there.admit() == good


# Folders

ODD_NAMES = st.one_of(
    st.sampled_from(
        [b"model.safetensors", b"config.json", b"tokenizer.json", b"README.md", b"x.py", b"v1", b".hidden"]
    ),
    st.binary(min_size=1, max_size=30).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_")),
    st.text(min_size=1, max_size=20).map(
        lambda text: os.fsencode(text.replace("/", "_").replace("\0", "_")[:60].encode("utf-8", "replace").decode())
    ),
).filter(lambda raw: raw not in (b".", b".."))
# Where a link leads; an empty one to itself.
LINKS = {"link": "/etc/passwd", "loop": "", "device": "/dev/zero"}
KINDS = st.sampled_from(["file", "link", "loop", "device", "fifo", "folder", "sparse", "weights", "unreadable"])


def make(path: Path, kind: str, tensors: Tensors) -> None:
    """One thing of that kind, unless the name is taken."""
    if os.path.lexists(path):
        return
    if kind in LINKS:
        path.symlink_to(LINKS[kind] or path.name)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(safetensors(tensors) if kind == "weights" else b"")
        if kind == "sparse":
            os.truncate(path, 2**40)
        if kind == "unreadable":
            path.chmod(0)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_no_folder_whatever_is_in_it_crashes_or_hangs(data: st.DataObject):
    base = data.draw(models())
    with place(base) as there:
        if data.draw(st.booleans()):
            written(there.model, base)
        for raw, kind in data.draw(st.lists(st.tuples(ODD_NAMES, KINDS), max_size=5)):
            make(there.model / os.fsdecode(raw), kind, base)
        refusal, admitted = None, None
        try:
            admitted = there.admit()
        except RequestError as error:
            refusal = error
        if refusal is not None:
            assert 400 <= refusal.status < 500, refusal
            str(refusal).encode()
            assert list(there.store.root.iterdir()) == []
        if admitted is not None:
            assert admitted.is_base_copy
            assert tree_hash(admitted.snapshot_path) == there.base.tree_hash


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from(["..", ".", "", "v1", "link", "fifo", "x"]), max_size=5).map("/".join)
)
@settings(max_examples=40, deadline=None)
def test_no_path_whatever_it_is_crashes_hangs_or_leaves_the_workspace(model_path: str):
    base: Tensors = {"a": ("F32", (1,), struct.pack("<f", 1))}
    with place(base) as there:
        written(there.model, base)
        (there.model.parent / "link").symlink_to("v1")
        os.mkfifo(there.model.parent / "fifo")
        is_right = [part for part in model_path.split("/") if part not in ("", ".")] in (["v1"], ["workspace", "v1"])
        if is_right and (not model_path.startswith("/") or "workspace" in model_path):
            there.admit(model_path)
        else:
            there.refused(model_path)

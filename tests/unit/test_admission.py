"""Admission: an honest checkpoint becomes a snapshot, every hostile or broken one a refusal that says what is wrong."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors_file import (
    CONFIG,
    EMBEDDING,
    LAYER,
    NORM,
    floats,
    header_of,
    model_tensors,
    safetensors,
    with_header,
    write_model,
)

from harness.checkpoint import tensors_of, tree_hash
from harness.errors import ErrorClass, Inadmissible, PathRefused, RequestError, RunEnded, TooLarge, Unready
from harness.grader import weights
from harness.grader.admission import COPY_OF_BASE, AdmissionLimits, Admitted, admit, snapshot_key
from harness.grader.base_model import BaseModelInfo
from harness.grader.opening import opened_folder
from harness.grader.snapshots import STAGE_PREFIX, SnapshotStore

TESTS = Path(__file__).resolve().parents[1]


def nothing() -> None:
    """A deadline that never comes."""


@dataclass(frozen=True)
class Place:
    """A workspace, a store and a base model."""

    workspace: Path
    store: SnapshotStore
    base: BaseModelInfo

    @property
    def model(self) -> Path:
        return self.workspace / "output" / "v1"

    def admit(
        self,
        model_path: str = "output/v1",
        check: Callable[[], None] = nothing,
        limits: AdmissionLimits = AdmissionLimits(),
    ) -> Admitted:
        with opened(self.workspace) as workspace_fd:
            return admit(workspace_fd, model_path, self.base, self.store, limits, check)

    def refusal(self, kind: type[RequestError], error_class: ErrorClass, model_path: str = "output/v1") -> str:
        with pytest.raises(RequestError) as caught:
            self.admit(model_path)
        assert type(caught.value) is kind
        assert caught.value.error_class is error_class
        assert caught.value.fix
        str(caught.value).encode("utf-8")
        assert self.leftovers == []
        return caught.value.what

    def write(self, tensors: dict, config: dict = CONFIG) -> Path:
        return write_model(self.model, tensors, config)

    @property
    def leftovers(self) -> list[Path]:
        return list(self.store.root.iterdir())


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder_fd
    finally:
        os.close(folder_fd)


def made_place(root: Path, base_tensors: dict, config: dict = CONFIG) -> Place:
    base = write_model(root / "base", base_tensors, config)
    for folder in ("workspace/output", "snapshots"):
        (root / folder).mkdir(parents=True)
    return Place(root / "workspace", SnapshotStore(root / "snapshots"), BaseModelInfo.load(base, tree_hash(base)))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A base model with tied embeddings, and an honest submission in output/v1."""
    place = made_place(tmp_path, model_tensors())
    place.write(model_tensors(0.25))
    return place


# Honest checkpoints


def test_a_snapshot_is_a_complete_folder_with_the_base_models_files(place: Place):
    admitted = place.admit()
    snapshot = admitted.snapshot_path
    assert admitted.tree_hash == tree_hash(place.model) == tree_hash(snapshot)
    assert snapshot.name == snapshot_key(admitted.tree_hash, place.base)
    assert tensors_of(snapshot) == tensors_of(place.model)
    assert {p.name for p in snapshot.iterdir()} == {p.name for p in place.base.folder.iterdir()}
    for name in place.base.companions:
        assert (snapshot / name).read_bytes() == (place.base.folder / name).read_bytes()
    assert not admitted.is_base_copy
    assert admitted.notes == ()
    assert admitted.size_bytes == (place.model / "model.safetensors").stat().st_size


def test_a_snapshot_is_readable_by_any_uid(place: Place):
    (place.model / "model.safetensors").chmod(0o600)
    snapshot = place.admit().snapshot_path
    assert snapshot.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in snapshot.iterdir()} == {0o644}


@pytest.mark.parametrize("path", ["output/v1", "./output//v1/", "/workspace/output/v1", "/workspace/./output/v1/"])
def test_paths_below_the_workspace_are_accepted(place: Place, path: str):
    assert place.admit(path).tree_hash == tree_hash(place.model)


def test_shards_get_the_usual_names_and_an_index(place: Place):
    tensors = model_tensors(0.25)
    whole = place.admit()
    (place.model / "model.safetensors").unlink()
    for number, name in enumerate(tensors):
        (place.model / f"part{number}.safetensors").write_bytes(safetensors({name: tensors[name]}))
    (place.model / "model.safetensors.index.json").write_text("never read")
    place.store.root.joinpath(whole.snapshot_path.name).rename(place.store.root / "elsewhere")
    admitted = place.admit()
    assert admitted.tree_hash == whole.tree_hash == tree_hash(admitted.snapshot_path)
    index = json.loads((admitted.snapshot_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {
        EMBEDDING: "model-00001-of-00003.safetensors",
        LAYER: "model-00002-of-00003.safetensors",
        NORM: "model-00003-of-00003.safetensors",
    }
    assert index["metadata"]["total_size"] == sum(len(data) for _, _, data in tensors.values())


def test_nothing_of_the_submitted_header_but_its_tensors_crosses(place: Place):
    (place.model / "model.safetensors").write_bytes(safetensors(model_tensors(0.25), {"format": "tf", "x": "secret"}))
    content = (place.admit().snapshot_path / "model.safetensors").read_bytes()
    assert b"secret" not in content
    assert b'"format":"pt"' in content


def test_a_copy_of_the_base_is_noted(place: Place):
    place.write(model_tensors())
    admitted = place.admit()
    assert admitted.is_base_copy
    assert admitted.notes == (COPY_OF_BASE,)


def test_a_tied_head_is_optional(place: Place):
    expected = place.admit().tree_hash
    place.write(model_tensors(0.25, with_head=True))
    assert place.admit().tree_hash == expected


def test_an_untied_head_is_required(tmp_path: Path):
    config = {**CONFIG, "tie_word_embeddings": False}
    place = made_place(tmp_path, model_tensors(with_head=True), config)
    place.write(model_tensors(0.25), config)
    assert "lm_head.weight" in place.refusal(Inadmissible, ErrorClass.TENSOR_MISMATCH)
    place.write(model_tensors(0.25, with_head=True), config)
    place.admit()


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F64"])
def test_other_float_types_are_kept_as_they_are(place: Place, dtype: str):
    width = {"F16": 2, "BF16": 2, "F64": 8}[dtype]
    place.write({n: (dtype, s, bytes(len(d) // 4 * width)) for n, (_, s, d) in model_tensors().items()})
    snapshot = place.admit().snapshot_path
    assert {info.dtype for info in tensors_of(snapshot).values()} == {dtype}


def test_differences_of_config_tokenizer_and_template_are_noted(place: Place):
    place.write(model_tensors(0.25), {**CONFIG, "rope_theta": 7, "transformers_version": "9"})
    (place.model / "tokenizer.json").write_text('{"model": {"vocab": {"b": 0}}}')
    (place.model / "tokenizer_config.json").write_text('{"model_max_length": 7}')
    (place.model / "chat_template.jinja").write_text("{{ cheat }}")
    admitted = place.admit()
    (note,) = admitted.notes
    assert "config.json (rope_theta)" in note
    assert "tokenizer.json" in note
    assert "tokenizer_config.json (model_max_length)" in note
    assert "chat template" in note
    assert "transformers_version" not in note
    assert not (admitted.snapshot_path / "chat_template.jinja").exists()


def test_the_same_weights_on_another_tokenizer_are_another_snapshot(tmp_path: Path, place: Place):
    other = write_model(tmp_path / "other", model_tensors())
    (other / "tokenizer.json").write_text('{"model": {"vocab": {"z": 0}}}')
    first = place.admit()
    second = Place(place.workspace, place.store, BaseModelInfo.load(other, tree_hash(other))).admit()
    assert first.tree_hash == second.tree_hash
    assert first.snapshot_path != second.snapshot_path


# Paths


@pytest.mark.parametrize(
    "path", ["../x", "output/../../x", "/workspace/../etc", "/etc/passwd", "/workspacex/output", "/", "output/v1/.."]
)
def test_paths_outside_the_workspace_are_refused(place: Place, path: str):
    place.refusal(PathRefused, ErrorClass.PATH_OUTSIDE_WORKSPACE, path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "/workspace",
        "output/v1\0",
        "output/\n",
        "\ud800",
        "a" * 256,
        "ä" * 200,
        "a/" * 600,
        "a/" * 17,
        "x" * 10**6,
        "output/none",
    ],
)
def test_paths_that_cannot_be_meant_are_refused(place: Place, path: str):
    what = place.refusal(PathRefused, ErrorClass.BAD_REQUEST, path)
    assert len(what) < 300


def test_a_symlinked_folder_is_refused(place: Place):
    (place.workspace / "link").symlink_to(place.model)
    assert "symbolic link" in place.refusal(PathRefused, ErrorClass.NOT_A_REGULAR_FILE, "link")


def test_a_symlinked_parent_is_refused(place: Place):
    (place.workspace / "out").symlink_to("output")
    assert "out is a symbolic link" in place.refusal(PathRefused, ErrorClass.NOT_A_REGULAR_FILE, "out/v1")


def test_a_link_that_is_a_folder_again_when_it_is_looked_at_was_being_replaced(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    def met_a_link(*_: object, **__: object) -> int:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    with opened(place.workspace) as workspace_fd:
        monkeypatch.setattr("harness.grader.opening.os.open", met_a_link)
        with pytest.raises(Inadmissible, match="replaced") as caught, opened_folder(workspace_fd, ("output",)):
            pass
    assert caught.value.error_class is ErrorClass.CHANGED_WHILE_COPIED


def test_a_file_in_place_of_the_folder_is_refused(place: Place):
    what = place.refusal(PathRefused, ErrorClass.NOT_A_REGULAR_FILE, "output/v1/model.safetensors")
    assert "a file, not a folder" in what


def test_a_fifo_in_place_of_the_folder_is_refused(place: Place):
    os.mkfifo(place.workspace / "pipe")
    assert "a FIFO" in place.refusal(PathRefused, ErrorClass.NOT_A_REGULAR_FILE, "pipe")


# Files


def test_a_symlinked_file_is_refused(place: Place, tmp_path: Path):
    hidden = tmp_path / "hidden.json"
    hidden.write_text('{"answer": 42}')
    (place.model / "config.json").unlink()
    (place.model / "config.json").symlink_to(hidden)
    what = place.refusal(Inadmissible, ErrorClass.NOT_A_REGULAR_FILE)
    assert "config.json is a symbolic link" in what
    assert "42" not in what


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "README.md"])
def test_a_fifo_is_refused_and_never_blocks(place: Place, name: str):
    (place.model / name).unlink(missing_ok=True)
    os.mkfifo(place.model / name)
    assert f"{name} is a FIFO" in place.refusal(Inadmissible, ErrorClass.NOT_A_REGULAR_FILE)


def test_a_socket_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place.model)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("tokenizer.model")
    assert "a socket" in place.refusal(Inadmissible, ErrorClass.NOT_A_REGULAR_FILE)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "training_args.bin", "optimizer.pt", "rng_state.pth", "x.PKL", "modeling.py", "what"]
)
def test_pickles_code_and_unknown_files_are_refused_by_name(place: Place, name: str):
    (place.model / name).write_bytes(b"x")
    assert name in place.refusal(Inadmissible, ErrorClass.FORBIDDEN_FILE)


def test_every_file_to_remove_is_named_at_once(place: Place):
    for name in ("training_args.bin", "optimizer.pt"):
        (place.model / name).write_bytes(b"x")
    (place.model / "checkpoint-10").mkdir()
    what = place.refusal(Inadmissible, ErrorClass.FORBIDDEN_FILE)
    assert "checkpoint-10/, optimizer.pt, training_args.bin" in what


@pytest.mark.parametrize("name", [b"caf\xe9.json", b"\xff\xfe.safetensors", b"new\nline.safetensors"])
def test_names_that_are_not_printable_text_are_refused(place: Place, name: bytes):
    Path(os.fsdecode(bytes(place.model) + b"/" + name)).write_bytes(b"x")
    assert "not accepted" in place.refusal(Inadmissible, ErrorClass.FORBIDDEN_FILE)


def test_what_trainers_and_the_base_model_leave_is_ignored(place: Place):
    for name in ("README.md", "trainer_state.json", "LICENSE", "model.safetensors.index.json"):
        (place.model / name).write_bytes(b"x")
    place.admit()


def test_more_entries_than_the_cap_are_refused(place: Place):
    with pytest.raises(TooLarge, match="more than 3 entries"):
        place.admit(limits=AdmissionLimits(max_entries=3))


@pytest.mark.parametrize(
    ("files", "word"),
    [((), "empty"), (("config.json",), "no \\*.safetensors"), (("adapter_model.safetensors",), "adapter")],
)
def test_a_folder_without_weights_is_refused(place: Place, files: tuple[str, ...], word: str):
    folder = place.workspace / "other"
    folder.mkdir()
    for name in files:
        (folder / name).write_bytes(b"{}")
    with pytest.raises(Inadmissible, match=word) as caught:
        place.admit("other")
    assert caught.value.error_class is ErrorClass.NO_WEIGHTS


def test_a_folder_of_pickles_only_is_refused_as_such(place: Place):
    (place.model / "model.safetensors").rename(place.model / "pytorch_model.bin")
    assert "only pickles: pytorch_model.bin" in place.refusal(Inadmissible, ErrorClass.FORBIDDEN_FILE)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_auto_map_is_refused_however_deep(place: Place, name: str):
    (place.model / name).write_text('{"a": [{"b": {"auto_map": {"AutoModel": "x.Y"}}}]}')
    assert f"{name} has an auto_map" in place.refusal(Inadmissible, ErrorClass.FORBIDDEN_FILE)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 10**6, b'{"a": 1, "a": 2}'])
def test_a_config_that_is_no_json_object_is_refused(place: Place, content: bytes):
    (place.model / "config.json").write_bytes(content)
    assert "config.json" in place.refusal(Inadmissible, ErrorClass.FORBIDDEN_FILE)


def test_a_huge_config_is_refused_unread(place: Place):
    (place.model / "config.json").write_bytes(b" " * (2**20 + 1))
    assert "config.json" in place.refusal(TooLarge, ErrorClass.TOO_LARGE)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "README.md"])
def test_a_sparse_terabyte_is_refused_unread(place: Place, name: str):
    with (place.model / name).open("ab") as file:
        file.truncate(2**40)
    assert name in place.refusal(TooLarge, ErrorClass.TOO_LARGE)


# Weights


def test_ten_million_keys_in_a_header_are_refused_unread(place: Place):
    raw = b"{" + b'"a":0,' * 10_000_000 + b"}"
    (place.model / "model.safetensors").write_bytes(with_header(raw, b""))
    assert "header" in place.refusal(Inadmissible, ErrorClass.BAD_SAFETENSORS)


def test_all_shards_share_one_budget_of_header_bytes(place: Place):
    padded = b"{}".ljust(600 * 1024)
    for number in range(2):
        (place.model / f"extra{number}.safetensors").write_bytes(with_header(padded, b""))
    assert "header" in place.refusal(Inadmissible, ErrorClass.BAD_SAFETENSORS)


@pytest.mark.parametrize("cut", [1, 200, 10_000])
def test_a_truncated_file_is_refused(place: Place, cut: int):
    path = place.model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-cut])
    assert "model.safetensors" in place.refusal(Inadmissible, ErrorClass.BAD_SAFETENSORS)


def test_a_lying_header_is_refused(place: Place):
    tensors = model_tensors(0.25)
    document = header_of(tensors)
    document[NORM]["data_offsets"] = document[EMBEDDING]["data_offsets"]
    data = b"".join(data for _, _, data in tensors.values())
    (place.model / "model.safetensors").write_bytes(with_header(json.dumps(document).encode(), data))
    assert NORM in place.refusal(Inadmissible, ErrorClass.BAD_SAFETENSORS)


def test_a_tensor_in_two_shards_is_refused(place: Place):
    tensors = model_tensors(0.25)
    (place.model / "old.safetensors").write_bytes(safetensors({NORM: tensors[NORM]}))
    what = place.refusal(Inadmissible, ErrorClass.BAD_SAFETENSORS)
    assert NORM in what
    assert "old.safetensors" in what


def test_a_missing_tensor_is_refused(place: Place):
    tensors = model_tensors(0.25)
    del tensors[LAYER]
    place.write(tensors)
    assert LAYER in place.refusal(Inadmissible, ErrorClass.TENSOR_MISMATCH)


def test_an_unknown_tensor_is_refused(place: Place):
    place.write({**model_tensors(0.25), "model.extra": ("F32", (1,), floats(1))})
    assert "model.extra" in place.refusal(Inadmissible, ErrorClass.TENSOR_MISMATCH)


@pytest.mark.parametrize(
    ("prefix", "word"), [("base_model.model.", "merge"), ("module.", "unwrap"), ("_orig_mod.", "uncompiled")]
)
def test_names_of_wrappers_are_refused_with_their_remedy(place: Place, prefix: str, word: str):
    place.write({prefix + name: tensor for name, tensor in model_tensors(0.25).items()})
    with pytest.raises(Inadmissible) as caught:
        place.admit()
    assert word in caught.value.fix


def test_a_resized_vocabulary_is_refused(place: Place):
    tensors = model_tensors(0.25)
    tensors[EMBEDDING] = ("F32", (9, 4), floats(*[0.0] * 36))
    place.write(tensors)
    assert "[9, 4]" in place.refusal(Inadmissible, ErrorClass.TENSOR_MISMATCH)


def test_integers_in_place_of_floats_are_refused(place: Place):
    tensors = model_tensors(0.25)
    tensors[NORM] = ("I32", (4,), bytes(16))
    place.write(tensors)
    assert "I32" in place.refusal(Inadmissible, ErrorClass.TENSOR_MISMATCH)


def test_a_head_that_was_untied_is_refused(place: Place):
    tensors = model_tensors(0.25, with_head=True)
    tensors["lm_head.weight"] = ("F32", (8, 4), floats(*range(32)))
    place.write(tensors)
    assert "lm_head.weight" in place.refusal(Inadmissible, ErrorClass.TENSOR_MISMATCH)


BAD_NUMBERS = {
    "F32-nan": ("F32", struct.pack("<f", float("nan"))),
    "F32-inf": ("F32", struct.pack("<f", float("inf"))),
    "F32-minus-inf": ("F32", struct.pack("<f", float("-inf"))),
    "F16-nan": ("F16", struct.pack("<e", float("nan"))),
    "F16-inf": ("F16", struct.pack("<e", float("-inf"))),
    "BF16-nan": ("BF16", b"\xc0\x7f"),
    "BF16-inf": ("BF16", b"\x80\xff"),
    "F64-nan": ("F64", struct.pack("<d", float("nan"))),
    "F64-too-large-for-F32": ("F64", struct.pack("<d", 1e300)),
}


@pytest.mark.parametrize(("dtype", "number"), BAD_NUMBERS.values(), ids=BAD_NUMBERS)
def test_weights_that_are_not_finite_are_refused(place: Place, dtype: str, number: bytes):
    tensors = model_tensors(0.25)
    tensors[LAYER] = (dtype, (4, 4), bytes(len(number) * 9) + number + bytes(len(number) * 6))
    place.write(tensors)
    what = place.refusal(Inadmissible, ErrorClass.NON_FINITE_WEIGHTS)
    assert LAYER in what
    assert "element 9" in what


def test_the_largest_finite_numbers_are_accepted(place: Place):
    tensors = model_tensors(0.25)
    tensors[NORM] = ("F16", (4,), struct.pack("<4e", 65504, -65504, 6e-8, -0.0))
    tensors[LAYER] = ("BF16", (4, 4), b"\x7f\x7f\x7f\xff" * 8)
    place.write(tensors)
    place.admit()


def test_a_tensor_of_many_chunks_is_hashed_and_searched_as_a_whole(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weights, "CHUNK_BYTES", 16)
    monkeypatch.setattr(weights, "MIN_OVERLAPPED_BYTES", 8)
    assert place.admit().tree_hash == tree_hash(place.model)
    tensors = model_tensors(0.75)
    tensors[LAYER] = ("F32", (4, 4), floats(*[0.0] * 13, float("nan"), 0, 0))
    place.write(tensors)
    with pytest.raises(Inadmissible, match="element 13"):
        place.admit()


# Changes meanwhile


def append(model: Path) -> None:
    with (model / "model.safetensors").open("ab") as file:
        file.write(b"x")


def cut(model: Path) -> None:
    os.truncate(model / "model.safetensors", 300)


def overwrite(model: Path) -> None:
    with (model / "model.safetensors").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(floats(7))
    # A file system's clock may be too coarse to tell the two apart; what a change leaves is a new time.
    os.utime(model / "model.safetensors", ns=(1, 1))


def replace(model: Path) -> None:
    (model / "new").write_bytes((model / "model.safetensors").read_bytes())
    (model / "new").rename(model / "model.safetensors")


def swap_for_a_fifo(model: Path) -> None:
    (model / "model.safetensors").unlink()
    os.mkfifo(model / "model.safetensors")


def swap_for_a_link(model: Path) -> None:
    (model / "model.safetensors").rename(model.parent / "moved")
    (model / "model.safetensors").symlink_to("../moved")


def add_a_shard(model: Path) -> None:
    (model / "more.safetensors").write_bytes(b"x")


def remove_the_config(model: Path) -> None:
    (model / "config.json").unlink()


CHANGES = [append, cut, overwrite, replace, swap_for_a_fifo, swap_for_a_link, add_a_shard, remove_the_config]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_folder_that_changes_while_it_is_copied_is_refused(place: Place, change: Callable[[Path], None]):
    calls = []

    def check() -> None:
        calls.append(None)
        if len(calls) == 2:
            change(place.model)

    with pytest.raises(Inadmissible) as caught:
        place.admit(check=check)
    assert caught.value.error_class is ErrorClass.CHANGED_WHILE_COPIED
    assert len(calls) >= 2
    assert place.leftovers == []


def test_a_file_swapped_between_listing_and_opening_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch):
    read_shards = weights.read_shards

    def swapped(*args):
        swap_for_a_fifo(place.model)
        return read_shards(*args)

    monkeypatch.setattr("harness.grader.admission.read_shards", swapped)
    place.refusal(Inadmissible, ErrorClass.CHANGED_WHILE_COPIED)


def test_a_file_under_a_lease_does_not_block_the_grader(place: Place):
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    file_fd = os.open(place.model / "model.safetensors", os.O_RDWR)
    try:
        fcntl.fcntl(file_fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        place.refusal(Inadmissible, ErrorClass.CHANGED_WHILE_COPIED)
    finally:
        os.close(file_fd)
        signal.signal(signal.SIGIO, before)


# The store


def test_the_deadline_ends_a_copy_and_leaves_nothing(place: Place):
    def late() -> None:
        raise RunEnded("the run has ended", "Submit earlier.")

    with pytest.raises(RunEnded):
        place.admit(check=late)
    assert place.leftovers == []


def test_the_deadline_is_looked_at_when_the_copy_is_complete(place: Place):
    times = []
    place.admit(check=lambda: times.append(len(place.leftovers)))
    n_chunks = len(model_tensors())
    assert len(times) > n_chunks
    # The last look is at a stage that is whole but not yet committed.
    assert times[-1] == 1
    assert not place.leftovers[0].name.startswith(STAGE_PREFIX)


def test_the_same_bytes_from_many_threads_are_one_snapshot(place: Place):
    n_threads = 8
    gate = threading.Barrier(n_threads)
    results: list[Admitted] = []

    def at_once() -> None:
        passed = []

        def check() -> None:
            if not passed:
                passed.append(None)
                gate.wait(timeout=30)

        results.append(place.admit(check=check))

    threads = [threading.Thread(target=at_once) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == n_threads
    assert len(set(results)) == 1
    assert place.leftovers == [results[0].snapshot_path]
    assert tree_hash(results[0].snapshot_path) == results[0].tree_hash


def test_a_snapshot_that_is_there_already_is_left_alone(place: Place):
    first = place.admit()
    before = first.snapshot_path.stat()
    assert place.admit() == first
    after = first.snapshot_path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_full_disk_is_the_graders_trouble_and_leaves_nothing(place: Place):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        with pytest.raises(Unready) as caught:
            place.admit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.retry_after_s
    assert place.leftovers == []
    place.admit()


def test_a_copy_that_cannot_fit_is_not_begun(place: Place):
    with pytest.raises(Unready, match="No space left"), place.store.stage(2**60):
        pass
    assert place.leftovers == []


KILLED = """
import os, sys
from pathlib import Path
from harness.checkpoint import tree_hash
from harness.grader.admission import AdmissionLimits, admit
from harness.grader.base_model import BaseModelInfo
from harness.grader.snapshots import SnapshotStore
workspace, store, base = map(Path, sys.argv[1:])
calls = []
def check():
    calls.append(None)
    if len(calls) == 3:
        os.kill(os.getpid(), 9)
workspace_fd = os.open(workspace, os.O_RDONLY)
admit(workspace_fd, "output/v1", BaseModelInfo.load(base, ""), SnapshotStore(store), AdmissionLimits(), check)
"""


def test_a_killed_admission_leaves_no_snapshot_and_its_stage_is_cleaned_away(place: Place):
    command = [sys.executable, "-c", KILLED, *map(str, (place.workspace, place.store.root, place.base.folder))]
    ended = subprocess.run(command, cwd=TESTS.parent, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    (stage,) = place.leftovers
    assert stage.name.startswith(STAGE_PREFIX)
    assert place.store.clean() == 1
    assert place.leftovers == []
    place.admit()


def test_cleaning_leaves_a_living_stage_and_snapshots_alone(place: Place):
    place.admit()
    with place.store.stage(0) as stage:
        assert place.store.clean() == 0
        assert stage.path.is_dir()
    assert len(place.leftovers) == 1


def test_no_descriptor_is_left_open(place: Place):
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    place.admit()
    before = count()
    place.admit()
    append(place.model)
    with pytest.raises(Inadmissible):
        place.admit()
    with pytest.raises(PathRefused):
        place.admit("output/v1/none/at/all")
    assert count() == before

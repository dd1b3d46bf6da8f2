"""Headers of safetensors files: what is right is read, whatever is wrong is an Inadmissible that names the file."""

from __future__ import annotations

import contextlib
import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors_file import floats, header_of, model_tensors, safetensors, with_header, write_model

from harness.checkpoint import tensors_of, tree_hash
from harness.checkpoint.header import (
    DTYPE_BYTES,
    LENGTH_BYTES,
    Header,
    TensorInfo,
    encode_header,
    header_length,
    parse_header,
)
from harness.errors import ErrorClass, Inadmissible, PrerequisiteError

NAMES = st.text(st.characters(categories=("L", "N"), include_characters="._-"), min_size=1, max_size=40)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def right_tensors(draw):
    names = draw(st.lists(NAMES.filter(lambda n: n != "__metadata__"), unique=True, max_size=6))
    tensors = {}
    for name in names:
        dtype, shape = draw(st.sampled_from(sorted(DTYPE_BYTES))), draw(SHAPES)
        tensors[name] = (dtype, shape, bytes(DTYPE_BYTES[dtype] * math.prod(shape)))
    return tensors


def read(content: bytes, limit: int = 2**20) -> Header:
    length = header_length(content[:LENGTH_BYTES], file="m.safetensors", file_bytes=len(content), limit=limit)
    raw = content[LENGTH_BYTES : LENGTH_BYTES + length]
    return parse_header(raw, file="m.safetensors", data_bytes=len(content) - LENGTH_BYTES - length)


def refusal(content: bytes, limit: int = 2**20) -> str:
    with pytest.raises(Inadmissible) as caught:
        read(content, limit)
    assert caught.value.error_class is ErrorClass.BAD_SAFETENSORS
    assert "m.safetensors" in caught.value.what
    assert caught.value.fix
    return caught.value.what


def refusal_of_header(document: object, data: bytes = bytes(8)) -> str:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return refusal(with_header(raw, data))


def one(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@given(right_tensors(), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2), st.integers(0, 9))
def test_right_files_are_read(tensors, metadata, padding):
    document = json.dumps(header_of(tensors, metadata)).encode() + b" " * padding
    header = read(with_header(document, b"".join(data for _, _, data in tensors.values())))
    assert {p.name: (p.info.dtype, p.info.shape) for p in header.placements} == {
        name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()
    }
    assert header.data_start == LENGTH_BYTES + len(document)


@given(right_tensors())
def test_encoded_headers_read_back_and_are_aligned(tensors):
    header = read(safetensors(tensors))
    encoded = encode_header(header.placements)
    data = sum(len(data) for _, _, data in tensors.values())
    assert len(encoded) % LENGTH_BYTES == 0
    assert read(encoded + bytes(data)).placements == header.placements


@settings(max_examples=300)
@given(right_tensors(), st.data())
def test_mutated_files_are_read_or_refused_and_nothing_else(tensors, data):
    content = bytearray(safetensors(tensors, {"format": "pt"}))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        change = data.draw(st.sampled_from(["flip", "drop", "insert", "cut"]))
        if change == "flip":
            content[at] = data.draw(st.integers(0, 255))
        elif change == "drop" and len(content) > 1:
            del content[at]
        elif change == "insert":
            content[at:at] = data.draw(st.binary(max_size=6))
        elif at:
            del content[at:]
    try:
        header = read(bytes(content))
    except Inadmissible:
        return
    # Whatever was read covers the file exactly.
    reached = header.data_start
    for place in header.placements:
        assert header.data_start + place.begin == reached
        assert place.end - place.begin == place.info.n_bytes
        reached += place.info.n_bytes
    assert reached == len(content)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {}, optional={"dtype": JSON_VALUES, "shape": JSON_VALUES, "data_offsets": JSON_VALUES, "more": JSON_VALUES}
    )
    | JSON_VALUES
)
def test_any_json_in_place_of_a_description_is_refused(value):
    refusal_of_header({"a": value})


@given(st.binary(max_size=64))
def test_any_bytes_in_place_of_a_header_are_read_or_refused(raw):
    with contextlib.suppress(Inadmissible):
        read(with_header(raw, b""))


@pytest.mark.parametrize("content", [b"", b"\x01", b"1234567"])
def test_a_file_without_a_length_is_refused(content):
    assert "length is missing" in refusal(content)


def test_a_huge_length_is_refused_before_anything_is_read():
    assert "at most" in refusal(with_header(b"{}", b"", length=2**63))


def test_a_length_beyond_the_file_is_refused():
    assert "cut off" in refusal(with_header(b"{}", b"", length=3))


def test_ten_million_keys_are_refused_by_length_alone():
    raw = b"{" + b",".join(b'"%d":0' % i for i in range(1000)) + b"}"
    began = time.process_time()
    # 10 million keys of that kind are 108,888,891 bytes: nobody needs to have them to see that.
    assert "header" in refusal(with_header(raw, b"", length=108_888_891))
    assert time.process_time() - began < 0.5


def test_the_largest_permitted_junk_is_refused_within_a_second():
    raw = b'{"a":' + b"[" * (2**20 - 5)
    began = time.process_time()
    assert "too deeply" in refusal(with_header(raw, b""))
    refusal(with_header(b"{" + b",".join(b'"%d":0' % i for i in range(90_000)) + b"}", b""))
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b' {"a": 0}',
        b"{",
        b"{} {}",
        b'{"a\xff": 0}',
        b'{"\\ud800": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
        b'{"a": NaN}',
        b'{"__metadata__": {"a": 1}}',
        b'{"__metadata__": []}',
        b'{"__metadata__": null}',
        b'{"__metadata__": {"\\ud800": "a"}}',
        b'{"__metadata__": {"a": "\\udfff"}}',
        b'{"a": {"dtype": "F32", "shape": [2, -0], "data_offsets": [0, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [-0, 8]}}',
    ],
)
def test_headers_that_are_not_as_the_format_says_are_refused(document):
    refusal_of_header(document)


def test_the_same_name_twice_in_a_header_is_refused():
    inner = b'{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    assert "twice" in refusal_of_header(b'{"a":' + inner + b',"a":' + inner + b"}")


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (one(dtype="F31"), "dtype"),
        (one(dtype=["F32"]), "dtype"),
        (one(shape=[-2]), "shape"),
        (one(shape=[2.0]), "shape"),
        (one(shape=[True, 2]), "shape"),
        (one(shape=[1] * 17), "shape"),
        (one(shape="2"), "shape"),
        (one(shape=[2**63]), "shape"),
        (one(shape=[2**62, 2**62]), "counted"),
        (one(shape=[2**62, 2**62, 0], offsets=[0, 0]), "counted"),
        (one(shape=[2**61]), "counted"),
        (one(offsets=[0]), "data_offsets"),
        (one(offsets=[0, 8, 8]), "data_offsets"),
        (one(offsets=[8, 0]), "takes"),
        (one(offsets=[-8, 0]), "data_offsets"),
        (one(offsets=[0, 4]), "takes"),
        (one(shape=[3], offsets=[0, 12]), "cut off"),
        (one(shape=[1], offsets=[0, 4]), "belong to no tensor"),
        (one(shape=[1], offsets=[4, 8]), "hole"),
        ({"a": {**one()["a"], "more": 1}}, "other keys"),
        ({"a": None}, "other keys"),
        ({"": one()["a"]}, "names a tensor"),
        ({"a\n": one()["a"]}, "names a tensor"),
        ({"a" * 513: one()["a"]}, "names a tensor"),
    ],
)
def test_lying_descriptions_are_refused(document, word):
    assert word in refusal_of_header(document)


def test_integers_of_many_digits_are_refused():
    raw = b'{"a":{"dtype":"F32","shape":[' + b"9" * 100_000 + b'],"data_offsets":[0,8]}}'
    assert "too many digits" in refusal_of_header(raw)


def test_overlapping_tensors_are_refused():
    document = {**one(shape=[1], offsets=[0, 4]), "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    assert "overlap" in refusal_of_header(document)


def test_tensor_info_counts_without_overflow():
    assert TensorInfo("F64", (2**40, 2**40)).n_bytes == 2**83


# The tree hash of trusted folders


def test_tree_hash_does_not_depend_on_sharding_names_or_metadata(tmp_path: Path):
    tensors = model_tensors()
    whole = write_model(tmp_path / "whole", tensors)
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, name in enumerate(reversed(tensors)):
        (parts / f"part{number}.safetensors").write_bytes(safetensors({name: tensors[name]}, {"other": "x"}))
    assert tree_hash(whole) == tree_hash(parts)
    assert tensors_of(whole) == tensors_of(parts)


def test_tree_hash_leaves_out_a_head_that_repeats_the_embedding(tmp_path: Path):
    without = write_model(tmp_path / "without", model_tensors())
    tied = write_model(tmp_path / "tied", model_tensors(with_head=True))
    other = model_tensors(with_head=True)
    other["lm_head.weight"] = ("F32", (8, 4), floats(*range(32)))
    untied = write_model(tmp_path / "untied", other)
    assert tree_hash(without) == tree_hash(tied) != tree_hash(untied)


@pytest.mark.parametrize("change", ["value", "dtype", "shape", "name"])
def test_tree_hash_depends_on_everything_about_a_tensor(tmp_path: Path, change: str):
    base = {"a": ("F32", (2, 1), floats(1, 2))}
    other = {
        "value": {"a": ("F32", (2, 1), floats(1, 3))},
        "dtype": {"a": ("I32", (2, 1), floats(1, 2))},
        "shape": {"a": ("F32", (1, 2), floats(1, 2))},
        "name": {"b": ("F32", (2, 1), floats(1, 2))},
    }[change]
    assert tree_hash(write_model(tmp_path / "x", base)) != tree_hash(write_model(tmp_path / "y", other))


def test_only_the_files_of_the_index_count_in_a_trusted_folder(tmp_path: Path):
    folder = write_model(tmp_path / "m", model_tensors())
    expected = tree_hash(folder)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = {"weight_map": dict.fromkeys(model_tensors(), "model-00001-of-00001.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "consolidated.safetensors").write_bytes(safetensors(model_tensors(2.0)))
    assert tree_hash(folder) == expected


@pytest.mark.parametrize("files", [{}, {"model.safetensors": b"12345678"}, {"model.safetensors.index.json": b"{}"}])
def test_a_broken_base_model_is_a_prerequisite_error(tmp_path: Path, files: dict[str, bytes]):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PrerequisiteError) as caught:
        tree_hash(tmp_path)
    assert caught.value.fix

"""Known siblings: made from weights or from a shared file, kept for one base model, read strictly."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub.errors import HFValidationError
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_models import EMBEDDING, MATRICES, base_weights, save, trained

from harness.checkpoint.fingerprint import fingerprint_of
from harness.checkpoint.known_models import KnownModel, KnownModels, known_name, read_known_model, write_known_model
from harness.checkpoint.tree import tree_hash
from harness.cli.app import app
from harness.domain.specs import Benchmark, BenchmarkConfig
from harness.errors import PrerequisiteError, UsageError
from harness.home import Home
from harness.runner.models import prepare_model
from harness.runner.siblings import add_sibling, find_base, list_siblings, remove_sibling
from harness.settings import Settings

BASE = base_weights()


def quiet(_: str) -> None:
    """Says nothing."""


@pytest.fixture
def prepared(tmp_path: Path) -> Home:
    """A home with the base model `small` in its store."""
    home = Home(tmp_path / "home")
    home.create()
    _prepare(home, save(tmp_path / "small", BASE))
    return home


def _prepare(home: Home, folder: Path) -> None:
    benchmark = Benchmark(id="b", path=folder.parent, digest="d", config=BenchmarkConfig(name="b"))
    prepare_model(str(folder), benchmark, Settings(home=home.path), quiet)


@pytest.fixture
def instruct(tmp_path: Path) -> Path:
    return save(tmp_path / "small-instruct", trained(BASE, 1))


# Fingerprints


def test_preparing_a_model_keeps_its_fingerprint(prepared: Home, tmp_path: Path):
    (tree,) = KnownModels(prepared.lineage).bases()
    base = KnownModels(prepared.lineage).base(tree)
    assert base is not None
    assert tree == tree_hash(tmp_path / "small") == base.fingerprint.tree_hash
    assert (base.name, base.source) == ("small", "small@local")
    assert stat.S_IMODE(KnownModels(prepared.lineage).base_path(tree).stat().st_mode) == 0o644


def test_a_fingerprint_is_made_once_and_again_where_it_is_missing(prepared: Home, tmp_path: Path):
    (tree,) = KnownModels(prepared.lineage).bases()
    path = KnownModels(prepared.lineage).base_path(tree)
    before = path.stat().st_mtime_ns
    _prepare(prepared, tmp_path / "small")
    assert path.stat().st_mtime_ns == before
    path.unlink()
    _prepare(prepared, tmp_path / "small")
    assert path.is_file()


def test_a_broken_fingerprint_of_a_base_is_told_with_what_to_remove(prepared: Home):
    known = KnownModels(prepared.lineage)
    (base,) = known.bases()
    known.base_path(base).write_text("{")
    with pytest.raises(UsageError) as caught:
        known.base(base)
    assert caught.value.fix is not None
    assert str(known.base_path(base)) in caught.value.fix


def test_sharding_and_a_tied_head_do_not_change_a_width(tmp_path: Path):
    plain = fingerprint_of(save(tmp_path / "plain", BASE))
    tied = fingerprint_of(save(tmp_path / "tied", {**BASE, "lm_head.weight": BASE[EMBEDDING]}))
    assert plain.tree_hash == tied.tree_hash
    assert plain.width == tied.width
    assert set(plain.tensors) < set(tied.tensors)


def test_a_fingerprint_is_much_smaller_than_its_model(tmp_path: Path):
    large = {f"m{n}": np.zeros((1024, 1024), dtype=np.float32) for n in range(4)}
    path = tmp_path / "print.json"
    folder = save(tmp_path / "large", large)
    write_known_model(path, KnownModel(name="l", source="", base="0" * 64, fingerprint=fingerprint_of(folder)))
    assert path.stat().st_size < 50_000


# Adding


def test_a_folder_becomes_a_sibling(prepared: Home, instruct: Path):
    _, added = add_sibling(prepared, str(instruct), "small", None, quiet)
    assert (added.name, added.source) == ("small-instruct", "small-instruct@local")
    assert added.fingerprint.tree_hash == tree_hash(instruct)
    assert [sibling for _, sibling in list_siblings(prepared)] == [added]


def test_a_shared_file_becomes_the_same_sibling_elsewhere(prepared: Home, instruct: Path, tmp_path: Path):
    _, added = add_sibling(prepared, str(instruct), "small", None, quiet)
    (base, _), *_ = list_siblings(prepared)
    file = KnownModels(prepared.lineage).sibling_path(base.fingerprint.tree_hash, added.name)
    elsewhere = Home(tmp_path / "elsewhere")
    elsewhere.create()
    _prepare(elsewhere, tmp_path / "small")
    assert add_sibling(elsewhere, str(file), "small", None, quiet)[1] == added


def test_a_base_is_found_by_name_source_and_hash(prepared: Home):
    known = KnownModels(prepared.lineage)
    (tree,) = known.bases()
    assert {find_base(known, name).fingerprint.tree_hash for name in ("small", "small@local", tree, tree[:8])} == {tree}
    for name in ("large", tree[:5], ""):
        with pytest.raises(UsageError) as caught:
            find_base(known, name)
        assert "harness prepare" in caught.value.fix


def test_of_two_bases_of_one_name_the_hash_decides(prepared: Home, tmp_path: Path):
    _prepare(prepared, save(tmp_path / "other" / "small", base_weights(seed=5)))
    known = KnownModels(prepared.lineage)
    with pytest.raises(UsageError, match="2 base models"):
        find_base(known, "small")
    assert find_base(known, known.bases()[0][:12]).fingerprint.tree_hash == known.bases()[0]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda weights: weights, "base model itself"),
        (lambda weights: {n: v for n, v in weights.items() if n != MATRICES[0]}, "another architecture"),
        (lambda weights: {**weights, MATRICES[0]: weights[MATRICES[0]][:50]}, "another architecture"),
    ],
)
def test_what_is_no_sibling_is_refused(prepared: Home, tmp_path: Path, change: Callable[[Any], Any], word: str):
    folder = save(tmp_path / "x", change(BASE))
    with pytest.raises(UsageError, match=word):
        add_sibling(prepared, str(folder), "small", None, quiet)
    assert list_siblings(prepared) == []


def test_a_file_for_another_base_is_refused(prepared: Home, instruct: Path, tmp_path: Path):
    own = KnownModel(name="x", source="", base="0" * 64, fingerprint=fingerprint_of(instruct))
    write_known_model(tmp_path / "x.json", own)
    with pytest.raises(UsageError, match="another base model"):
        add_sibling(prepared, str(tmp_path / "x.json"), "small", None, quiet)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 97])
def test_a_name_never_leaves_its_folder(prepared: Home, instruct: Path, name: str):
    with pytest.raises(UsageError):
        add_sibling(prepared, str(instruct), "small", name, quiet)


@given(st.text(max_size=200))
def test_every_text_makes_a_name(text: str):
    KnownModel.__pydantic_validator__.validate_assignment(KnownModel.model_construct(), "name", known_name(text))


def test_a_hub_name_is_fetched_and_not_stored(prepared: Home, instruct: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("harness.runner.siblings.fetch_from_hub", lambda name, say: (instruct, "c0ffee"))
    _, added = add_sibling(prepared, "org/small-instruct@main", "small", None, quiet)
    assert (added.name, added.source) == ("org--small-instruct", "org/small-instruct@c0ffee")
    assert len(list(prepared.models.glob("*/config.json"))) == 1


def test_what_the_hub_does_not_know_is_refused(prepared: Home, monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object, **__: object) -> None:
        raise HFValidationError("no")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unknown)
    with pytest.raises(UsageError, match="neither a folder nor a hub name"):
        add_sibling(prepared, "no such thing", "small", None, quiet)


def test_an_empty_folder_is_refused(prepared: Home, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(PrerequisiteError, match="no safetensors"):
        add_sibling(prepared, str(tmp_path / "empty"), "small", None, quiet)


def test_removing_forgets_one(prepared: Home, instruct: Path):
    for name in ("a", "b"):
        add_sibling(prepared, str(instruct), "small", name, quiet)
    remove_sibling(prepared, "a", None)
    assert [sibling.name for _, sibling in list_siblings(prepared)] == ["b"]
    with pytest.raises(UsageError, match="no known sibling a"):
        remove_sibling(prepared, "a", None)


# Files from elsewhere


@pytest.fixture
def document(instruct: Path) -> dict[str, Any]:
    own = KnownModel(name="x", source="", base="0" * 64, fingerprint=fingerprint_of(instruct))
    return json.loads(own.model_dump_json())


def first_tensor(document: dict[str, Any]) -> dict[str, Any]:
    return document["fingerprint"]["tensors"][0]


def nan_sketch(tensor: dict[str, Any]) -> None:
    numbers = np.frombuffer(base64.urlsafe_b64decode(tensor["sketch"]), "<f4").copy()
    numbers[0] = np.nan
    tensor["sketch"] = base64.urlsafe_b64encode(numbers.tobytes()).decode()


BREAKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "version": lambda d: d["fingerprint"].update(version=2),
    "unknown key": lambda d: d.update(more=1),
    "name": lambda d: d.update(name="../../etc"),
    "no tensors": lambda d: d["fingerprint"].update(tensors=[]),
    "order": lambda d: d["fingerprint"]["tensors"].reverse(),
    "twice": lambda d: d["fingerprint"]["tensors"].insert(0, first_tensor(d)),
    "width": lambda d: d["fingerprint"].update(width=1024),
    "huge width": lambda d: d["fingerprint"].update(width=2**40),
    "dtype": lambda d: first_tensor(d).update(dtype="F31"),
    "shape": lambda d: first_tensor(d).update(shape=[-1, 2]),
    "huge shape": lambda d: first_tensor(d).update(shape=[2**64]),
    "rank": lambda d: first_tensor(d).update(shape=[1] * 17),
    "hash": lambda d: first_tensor(d).update(sha256="x" * 64),
    "short sketch": lambda d: first_tensor(d).update(sketch="AAAA"),
    "sketch that is no base64": lambda d: first_tensor(d).update(sketch="!!!!"),
    "sketch of NaN": lambda d: nan_sketch(first_tensor(d)),
    "tensor name": lambda d: first_tensor(d).update(name="\u0000"),
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS)
def test_a_broken_file_is_refused(document: dict[str, Any], tmp_path: Path, change: Callable[[Any], object]):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    read_known_model(path)
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError) as caught:
        read_known_model(path)
    assert len(caught.value.what) < 1000


@given(st.binary(max_size=200) | st.just(b"[" * 100_000) | st.just(b'{"fingerprint":' * 50_000))
@settings(max_examples=50)
def test_any_bytes_are_refused_in_words(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        read_known_model(path)


def test_a_huge_file_is_not_read(tmp_path: Path):
    with (tmp_path / "huge").open("wb") as file:
        os.truncate(file.fileno(), 2**33)
    with pytest.raises(UsageError, match="no fingerprint"):
        read_known_model(tmp_path / "huge")


@pytest.mark.timeout(10)
def test_a_pipe_among_the_siblings_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UsageError, match="no regular file"):
        read_known_model(tmp_path / "pipe.json")


# The command


def test_the_command_adds_lists_and_removes(
    prepared: Home, instruct: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("HARNESS_HOME", str(prepared.path))

    def call(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            app(["siblings", *words])
        assert ended.value.code == 0
        return "".join(capsys.readouterr())

    assert "no siblings are known" in call()
    call("add", str(instruct), "--of", "small", "--name", "later")
    (row,) = json.loads(call("list", "--json"))
    assert (row["sibling"], row["of"]) == ("later", "small@local")
    assert "removed" in call("remove", "later")
    assert json.loads(call("list", "--json")) == []
    for words in (["add"], ["remove"], ["add", str(instruct)]):
        with pytest.raises(UsageError):
            app(["siblings", *words])

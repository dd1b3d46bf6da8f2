"""What is kept of a hostile workspace."""

import os
from pathlib import Path

import pytest

from harness.runner import collect
from harness.runner.collect import collect_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "fs" / "workspace"
    (folder / "code" / "deep").mkdir(parents=True)
    (folder / "code" / "train.py").write_text("print('hi')")
    (folder / "code" / "deep" / "notes.md").write_text("x" * 10)
    return folder


def test_regular_files_are_kept_with_their_hashes(workspace: Path, tmp_path: Path) -> None:
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert sorted(a.path for a in kept.artifacts) == ["workspace/code/deep/notes.md", "workspace/code/train.py"]
    assert (tmp_path / "workspace/code/train.py").read_text() == "print('hi')"
    assert all(len(a.sha256) == 64 for a in kept.artifacts)


def test_links_are_never_followed(workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "hidden.jsonl").write_text("answer")
    (workspace / "code" / "link").symlink_to(secret / "hidden.jsonl")
    (workspace / "output").symlink_to(secret)
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert not list((tmp_path / "workspace").rglob("hidden.jsonl"))
    assert kept.left_out == 2


def test_a_fifo_does_not_block(workspace: Path, tmp_path: Path) -> None:
    os.mkfifo(workspace / "code" / "pipe")
    assert collect_workspace(workspace, tmp_path / "workspace").left_out == 1


def test_weights_and_large_files_are_left_out(workspace: Path, tmp_path: Path) -> None:
    (workspace / "code" / "model.safetensors").write_bytes(b"w")
    with (workspace / "code" / "huge.log").open("wb") as file:
        file.truncate(2**40)
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert kept.left_out == 2
    assert len(kept.artifacts) == 2


def test_the_number_of_entries_is_bounded(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (workspace / "code" / f"{number}.txt").write_text("x")
    monkeypatch.setattr(collect, "MAX_ENTRIES", 10)
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert len(kept.artifacts) < 10
    assert kept.left_out >= 1


def test_mounts_and_harness_files_are_not_the_agents(workspace: Path, tmp_path: Path) -> None:
    (workspace / "data").mkdir()
    (workspace / "data" / "train.jsonl").write_text("{}")
    (workspace / "run_meta.json").symlink_to("/run/harness/run_meta.json")
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert [a.path for a in kept.artifacts if "data" in a.path] == []
    assert kept.left_out == 0


def test_unprintable_names_are_left_out(workspace: Path, tmp_path: Path) -> None:
    (workspace / "code" / "bad\nname").write_text("x")
    (workspace / "code" / "esc\x1b[31m").write_text("x")
    assert collect_workspace(workspace, tmp_path / "workspace").left_out == 2

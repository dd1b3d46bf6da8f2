"""What is kept of a hostile workspace."""

import errno
import os
from pathlib import Path

import pytest

from harness.runner import hostile_tree
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
    monkeypatch.setattr(hostile_tree, "MAX_ENTRIES", 10)
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


def test_a_path_longer_than_the_host_allows_is_left_out(workspace: Path, tmp_path: Path) -> None:
    """Built step by step by an agent, as such a path cannot be named whole: the run must still be closed."""
    here = os.open(workspace / "code", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom.txt", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=here))
    os.close(here)
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert kept.left_out == 1
    assert len(kept.artifacts) == 2


def test_a_resumed_run_may_turn_files_into_folders(workspace: Path, tmp_path: Path) -> None:
    """Collected once when a person stopped it, and again at its end."""
    (workspace / "now_a_folder").write_text("x")
    (workspace / "now_a_file").mkdir()
    (workspace / "now_a_file" / "old.txt").write_text("x")
    collect_workspace(workspace, tmp_path / "workspace")
    (workspace / "now_a_folder").unlink()
    (workspace / "now_a_folder").mkdir()
    (workspace / "now_a_folder" / "new.txt").write_text("x")
    (workspace / "now_a_file" / "old.txt").unlink()
    (workspace / "now_a_file").rmdir()
    (workspace / "now_a_file").write_text("x")
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert kept.left_out == 0
    assert (tmp_path / "workspace" / "now_a_folder" / "new.txt").is_file()
    assert (tmp_path / "workspace" / "now_a_file").is_file()


def test_a_folder_of_very_many_names_is_not_read_whole(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links to one file cost an agent nothing but their names; all names of a folder in memory would be the host's."""
    (workspace / "many").mkdir()
    for number in range(50):
        os.link(workspace / "code" / "train.py", workspace / "many" / f"{number:02}.py")
    monkeypatch.setattr(hostile_tree, "MAX_PER_FOLDER", 10)
    monkeypatch.setattr(os, "listdir", lambda _: pytest.fail("reads a whole folder"))
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert sum("many" in artifact.path for artifact in kept.artifacts) == 10
    assert kept.left_out == 1


def test_a_full_disk_of_the_host_costs_files_and_not_the_verdict(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    kept = collect_workspace(workspace, tmp_path / "workspace")
    assert kept.artifacts == []
    assert kept.left_out == 2

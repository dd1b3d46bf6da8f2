"""The resource store: whole or not at all, and read-only."""

import os
import stat
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.runner.resources import copy_folder, freeze, staged


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with staged(tmp_path / "target") as stage:
            (stage / "half").write_text("x")
            freeze(stage)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fill()
    assert not list(tmp_path.iterdir())


def test_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    dead = tmp_path / ".target.abc"
    dead.mkdir()
    (dead / "half").write_text("x")
    freeze(dead)
    with staged(tmp_path / "target") as stage:
        (stage / "whole").write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_frozen_folders_have_no_write_bit(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("x")
    freeze(folder)
    for path in (folder, folder / "deep", folder / "deep" / "file"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o222


def test_links_of_a_hub_cache_are_copied_as_what_they_point_to(tmp_path: Path) -> None:
    blob, source, target = tmp_path / "blobs" / "abc", tmp_path / "snapshots" / "def", tmp_path / "target"
    for folder in (blob.parent, source, target):
        folder.mkdir(parents=True)
    blob.write_text("weights")
    (source / "model.safetensors").symlink_to("../../blobs/abc")
    (source / "same.safetensors").symlink_to("model.safetensors")
    copy_folder(source, target)
    for name in ("model.safetensors", "same.safetensors"):
        assert not (target / name).is_symlink()
        assert (target / name).read_text() == "weights"


@pytest.mark.parametrize("kind", ["file", "folder", "nothing", "loop", "blobs that are a link"])
def test_other_links_are_refused(tmp_path: Path, kind: str) -> None:
    source, target = tmp_path / "snapshots" / "def", tmp_path / "target"
    source.mkdir(parents=True)
    target.mkdir()
    goal = {"file": "/etc/hostname", "folder": "/etc", "nothing": "none", "loop": "link"}.get(
        kind, "../../blobs/hostname"
    )
    (tmp_path / "blobs").symlink_to("/etc")
    (source / "link").symlink_to(goal)
    with pytest.raises(UsageError, match="outside"):
        copy_folder(source, target)
    assert not list(target.iterdir())


def test_a_fifo_in_a_model_folder_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        copy_folder(source, tmp_path)

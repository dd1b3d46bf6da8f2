"""An agent's own logs are kept as they are, beside its workspace and within a cap of their own."""

import os
from pathlib import Path

import pytest

from harness.home import RunFolder
from harness.runner import collect as collecting
from harness.runner.collect import Caps, collect, collect_native
from harness.runner.hostile_tree import matches


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "r1")
    (run.workspace / "trajectory").mkdir(parents=True)
    (run.workspace / "trajectory" / "log.jsonl").write_text('{"type": "x"}\n')
    (run.workspace / "trajectory" / "notes.txt").write_text("more")
    (run.workspace / "code").mkdir()
    (run.workspace / "code" / "train.py").write_text("pass")
    return run


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("trajectory/a.jsonl", "trajectory/*.jsonl", True),
        ("trajectory/b/a.jsonl", "trajectory/*.jsonl", False),
        ("trajectory/b/a.jsonl", "trajectory/**/*.jsonl", True),
        ("trajectory/a.jsonl", "trajectory/**/*.jsonl", True),
        ("trajectory/a.jsonl", "**", True),
        ("other/trajectory/a.jsonl", "trajectory/*.jsonl", False),
        ("trajectory", "trajectory/*.jsonl", False),
        (".home/.x/y/log", ".home/.x/**", True),
    ],
)
def test_patterns(path: str, pattern: str, fits: bool) -> None:
    assert matches(Path(path), pattern) is fits


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("trajectory", "trajectory/*.jsonl", True),
        ("code", "trajectory/*.jsonl", False),
        ("trajectory/deep", "trajectory/*.jsonl", False),
        ("trajectory/deep", "trajectory/**/*.jsonl", True),
    ],
)
def test_folders_without_a_log_below_them_are_not_gone_into(path: str, pattern: str, fits: bool) -> None:
    assert matches(Path(path), pattern, is_folder=True) is fits


def test_logs_are_kept_once_and_are_artifacts(folder: RunFolder) -> None:
    kept = collect(folder, "trajectory/*.jsonl")
    assert sorted(artifact.path for artifact in kept.artifacts) == [
        "trajectory/native/trajectory/log.jsonl",
        "workspace/code/train.py",
        "workspace/trajectory/notes.txt",
    ]
    assert all((folder.path / artifact.path).is_file() for artifact in kept.artifacts)
    assert kept.left_out == 0


def test_without_a_pattern_they_are_files_of_the_workspace(folder: RunFolder) -> None:
    assert "workspace/trajectory/log.jsonl" in [artifact.path for artifact in collect(folder, None).artifacts]
    assert not folder.trajectory.exists()


def test_they_do_not_count_in_the_workspaces_cap(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.workspace / "trajectory" / "log.jsonl").write_bytes(b"x" * 1000)
    monkeypatch.setattr(collecting, "WORKSPACE_CAPS", Caps(100, 100, 10))
    kept = collect(folder, "trajectory/*.jsonl")
    assert kept.left_out == 0
    assert sum(artifact.size_bytes for artifact in kept.artifacts) == 1000 + len("more") + len("pass")


def test_of_a_long_log_the_end_is_kept(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.workspace / "trajectory" / "log.jsonl").write_bytes(b"start" + b"x" * 50 + b"end")
    monkeypatch.setattr(collecting, "NATIVE_CAPS", Caps(10, 100, 10, is_end_kept=True))
    (artifact,) = collect_native(folder.workspace, folder.native_logs, "trajectory/*.jsonl").artifacts
    assert (folder.path / artifact.path).read_bytes() == b"x" * 7 + b"end"
    assert artifact.size_bytes == 10


def test_a_hole_as_large_as_a_disk_costs_no_more_than_the_cap(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (folder.workspace / "trajectory" / "log.jsonl").open("wb") as file:
        file.truncate(2**42)
    monkeypatch.setattr(collecting, "NATIVE_CAPS", Caps(2**20, 2**22, 10, is_end_kept=True))
    (artifact,) = collect_native(folder.workspace, folder.native_logs, "trajectory/*.jsonl").artifacts
    assert artifact.size_bytes == 2**20


def test_all_logs_together_and_their_number_are_bounded(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        (folder.workspace / "trajectory" / f"{number}.jsonl").write_bytes(b"x" * 40)
    monkeypatch.setattr(collecting, "NATIVE_CAPS", Caps(40, 100, 10, is_end_kept=True))
    kept = collect_native(folder.workspace, folder.native_logs, "trajectory/*.jsonl")
    assert (len(kept.artifacts), kept.left_out) == (3, 6)
    monkeypatch.setattr(collecting, "NATIVE_CAPS", Caps(40, 2**20, 2, is_end_kept=True))
    assert len(collect_native(folder.workspace, folder.native_logs, "trajectory/*.jsonl").artifacts) == 2


def test_links_fifos_and_names_that_drive_a_terminal_are_left_out(folder: RunFolder, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.jsonl").write_text("key")
    logs = folder.workspace / "trajectory"
    (logs / "link.jsonl").symlink_to(secret / "key.jsonl")
    (logs / "folder").symlink_to(secret)
    os.mkfifo(logs / "pipe.jsonl")
    (logs / "esc\x1b[31m.jsonl").write_text("x")
    (logs / "a\nb.jsonl").write_text("x")
    (logs / "folder.jsonl").mkdir()
    (logs / "folder.jsonl" / "inside").write_text("x")
    kept = collect_native(folder.workspace, folder.native_logs, "trajectory/**")
    assert sorted(artifact.path.removeprefix("trajectory/native/trajectory/") for artifact in kept.artifacts) == [
        "folder.jsonl/inside",
        "log.jsonl",
        "notes.txt",
    ]
    assert kept.left_out == 5
    assert not list(folder.native_logs.rglob("key*"))


def test_the_logs_folder_itself_may_be_a_link(folder: RunFolder, tmp_path: Path) -> None:
    (folder.workspace / "trajectory").rename(tmp_path / "elsewhere")
    (folder.workspace / "trajectory").symlink_to(tmp_path / "elsewhere")
    kept = collect_native(folder.workspace, folder.native_logs, "trajectory/*.jsonl")
    assert kept.artifacts == []

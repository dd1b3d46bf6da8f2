"""The watched quota, the choice of a mode, and what data scripts leave."""

import os
from pathlib import Path

import pytest

from harness.errors import PrerequisiteError
from harness.sandbox import disk
from harness.sandbox.data_scripts import take_over
from harness.sandbox.disk import Quota, QuotaMode, choose_mode, folder_bytes
from harness.settings import Settings


@pytest.fixture
def quota(tmp_path: Path) -> Quota:
    quota = Quota(mode=QuotaMode.WATCH, folder=tmp_path, size_mb=1, uid=os.getuid(), gid=os.getgid())
    quota.create()
    return quota


def test_watching_counts_workspace_and_tmp_together(quota):
    (quota.run_folder.workspace / "a").write_bytes(b"x" * 600_000)
    assert not quota.is_full()
    (quota.run_folder.tmp / "b").write_bytes(b"x" * 600_000)
    assert quota.is_full()
    assert quota.usage().used_bytes >= 1_200_000


def test_a_file_with_two_names_counts_once_and_links_are_not_followed(quota):
    file = quota.run_folder.workspace / "a"
    file.write_bytes(b"x" * 600_000)
    os.link(file, quota.run_folder.workspace / "b")
    (quota.run_folder.workspace / "c").symlink_to("/usr")
    assert not quota.is_full()


def test_a_sparse_file_counts_what_it_takes(quota):
    with (quota.run_folder.workspace / "huge").open("wb") as file:
        file.truncate(10**12)
    assert not quota.is_full()


def test_empty_files_fill_a_watched_workspace_by_their_number(quota, monkeypatch):
    monkeypatch.setattr("harness.sandbox.disk._MAX_ENTRIES", 20)
    for number in range(30):
        (quota.run_folder.workspace / f"{number}").touch()
    assert quota.is_full()


def test_folders_of_any_depth_are_removed(quota):
    folder = os.open(quota.run_folder.workspace, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        child = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = child
    os.close(folder)
    quota.remove()
    assert list(quota.folder.iterdir()) == []


def test_creating_twice_keeps_what_is_there(quota):
    (quota.run_folder.workspace / "a").write_text("kept")
    quota.create()
    assert (quota.run_folder.workspace / "a").read_text() == "kept"


def test_removing_leaves_nothing(quota):
    quota.remove()
    quota.remove()
    assert list(quota.folder.iterdir()) == []


def test_a_folder_that_vanishes_is_empty(tmp_path):
    assert folder_bytes(tmp_path / "missing") == (0, 0)


def test_watch_can_be_asked_for():
    assert choose_mode(Settings(quota="watch")) is QuotaMode.WATCH


def test_loop_where_it_cannot_work_is_refused_and_auto_falls_back(monkeypatch):
    monkeypatch.setattr(disk, "_lacking_for_loop", lambda: "mounting needs root")
    assert choose_mode(Settings(quota="auto")) is QuotaMode.WATCH
    with pytest.raises(PrerequisiteError, match="needs root"):
        choose_mode(Settings(quota="loop"))


def test_an_image_larger_than_the_hosts_disk_is_refused(tmp_path):
    quota = Quota(mode=QuotaMode.LOOP, folder=tmp_path, size_mb=10**9, uid=1000, gid=1000)
    with pytest.raises(PrerequisiteError, match="does not fit"):
        quota._make_image()


def test_what_a_data_script_left_becomes_readable(tmp_path):
    (tmp_path / "sub").mkdir(mode=0o700)
    (tmp_path / "sub/train.jsonl").write_text("{}")
    (tmp_path / "sub/train.jsonl").chmod(0o600)
    take_over(tmp_path)
    assert (tmp_path / "sub").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "sub/train.jsonl").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo])
def test_a_data_script_may_leave_only_files_and_folders(tmp_path, make):
    make(tmp_path / "odd")
    with pytest.raises(PrerequisiteError, match="neither a file nor a folder"):
        take_over(tmp_path)

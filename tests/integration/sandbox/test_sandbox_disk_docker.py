"""The size limit over real file systems and in real containers."""

import subprocess
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.sandbox import disk, watch
from harness.sandbox.disk import Quota, QuotaMode, choose_mode, loop_devices
from harness.sandbox.hardening import agent_user
from harness.sandbox.mounts import is_mounted
from harness.settings import Settings

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(choose_mode(Settings(quota="auto")) is not QuotaMode.LOOP, reason="mounting needs root"),
]


@pytest.fixture
def quota(tmp_path):
    uid, gid = agent_user()
    quota = Quota(mode=QuotaMode.LOOP, folder=tmp_path, size_mb=32, uid=uid, gid=gid)
    quota.create()
    yield quota
    quota.remove()


def devices_of(quota):
    return [device for device, file in loop_devices().items() if file == quota.run_folder.image]


def test_the_limit_is_one_over_workspace_and_tmp(client, launch):
    run = launch("head -c 40000000 /dev/zero > /workspace/a && head -c 40000000 /dev/zero > /tmp/b; echo rc=$?")
    watch.wait_exit(client, run.container, 60)
    said = client.api.logs(run.container).decode()
    assert "No space left on device" in said
    sizes = [(run.spec.quota.run_folder.filesystem / name).stat().st_size for name in ("workspace/a", "tmp/b")]
    assert sizes[0] == 40_000_000
    assert sum(sizes) < run.spec.quota.limit_bytes
    assert run.spec.quota.is_full()


def test_the_blocks_are_reserved_on_the_hosts_disk(quota):
    assert quota.run_folder.image.stat().st_blocks * 512 >= quota.limit_bytes
    assert quota.run_folder.image.stat().st_mode & 0o777 == 0o600


def test_what_was_written_survives_detaching(quota):
    (quota.run_folder.workspace / "kept").write_text("x" * 1000)
    quota.detach()
    assert not is_mounted(quota.run_folder.filesystem)
    assert devices_of(quota) == []
    assert not quota.run_folder.workspace.exists()
    quota.attach()
    quota.attach()
    assert (quota.run_folder.workspace / "kept").read_text() == "x" * 1000
    assert len(devices_of(quota)) == 1


def test_set_user_id_and_devices_mean_nothing_there(quota):
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mount = next(line for line in lines if str(quota.run_folder.filesystem) in line)
    assert {"nosuid", "nodev"} <= set(mount.split()[5].split(","))


def test_a_file_system_in_use_is_detached_all_the_same(quota):
    with (quota.run_folder.workspace / "open").open("w"):
        quota.detach()
        assert not is_mounted(quota.run_folder.filesystem)
    assert devices_of(quota) == []


def test_a_file_system_is_not_mounted_twice(quota, monkeypatch):
    monkeypatch.setattr(disk, "_DEVICE_GONE_S", 0.2)
    with (quota.run_folder.workspace / "open").open("w"):
        quota.detach()
        with pytest.raises(InfrastructureError, match="still in use"):
            quota.attach()
    quota.attach()
    assert (quota.run_folder.workspace / "open").is_file()


def test_removing_leaves_neither_file_nor_device(quota):
    quota.remove()
    quota.remove()
    assert devices_of(quota) == []
    assert list(quota.folder.iterdir()) == []


def test_an_image_that_a_crash_left_unclean_is_looked_over(quota):
    quota.detach()
    subprocess.run(
        ["debugfs", "-w", "-R", "set_super_value state 2", quota.run_folder.image], check=True, capture_output=True
    )
    quota.attach()
    assert list(quota.run_folder.workspace.iterdir()) == []


def test_a_lost_image_is_said_to_be_lost(quota):
    quota.detach()
    quota.run_folder.image.unlink()
    with pytest.raises(InfrastructureError, match="is gone"):
        quota.attach()


def test_a_death_while_the_image_is_made_leaves_none(tmp_path):
    uid, gid = agent_user()
    quota = Quota(mode=QuotaMode.LOOP, folder=tmp_path, size_mb=32, uid=uid, gid=gid)
    (tmp_path / "workspace.img.part").write_bytes(b"half of it")
    assert not quota.run_folder.image.exists()
    quota.create()
    assert quota.run_folder.workspace.is_dir()
    quota.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_death_before_the_folders_were_made_is_made_good(quota):
    quota.run_folder.workspace.rmdir()
    quota.run_folder.tmp.rmdir()
    quota.attach()
    assert quota.run_folder.workspace.stat().st_uid == quota.uid
    assert quota.run_folder.tmp.stat().st_mode & 0o7777 == 0o1777

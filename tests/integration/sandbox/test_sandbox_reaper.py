"""Everything of a dead run goes; nothing of anybody else's does."""

import subprocess
import sys

import pytest
from docker.errors import NotFound

from harness.home import Home
from harness.sandbox.disk import QuotaMode, loop_devices
from harness.sandbox.engine import labels
from harness.sandbox.mounts import is_mounted
from harness.sandbox.networks import attach_grader
from harness.sandbox.owner import current_owner, start_ticks
from harness.sandbox.reaper import list_objects, orphans, remove_run_objects

pytestmark = pytest.mark.docker


@pytest.fixture
def dead_owner():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = current_owner().model_copy(update={"pid": process.pid, "started_ticks": start_ticks(process.pid)})
    return owner


@pytest.fixture
def strangers(client, home, image):
    """Containers of another home, of the same run id there, and without any label."""
    others = [labels("0" * 12, "run-a", "agent"), {"harness.run": "run-a"}, {}]
    ids = [client.api.create_container(image, ["true"], labels=marks)["Id"] for marks in others]
    yield ids
    for identity in ids:
        client.api.remove_container(identity, force=True)


def test_all_of_a_run_is_found_and_removed_and_strangers_stay(client, home, grader, launch, strangers):
    run = launch("sleep 100")
    attach_grader(client, home, run.spec.network)
    home.inference_dir("run-a").mkdir(parents=True)
    found = list_objects(client, home)["run-a"]
    assert found.containers == (run.container,)
    assert found.networks == (run.spec.network.id,)
    assert found.owners == (current_owner(),)
    assert [path.name for path in found.socket_dirs] == ["run-a"]
    if run.spec.quota.mode is QuotaMode.LOOP:
        assert found.mounts == (run.spec.quota.run_folder.filesystem,)
        assert len(found.loop_devices) == 1
    remove_run_objects(client, home, "run-a")
    assert list_objects(client, home) == {}
    with pytest.raises(NotFound):
        client.api.inspect_container(run.container)
    assert not is_mounted(run.spec.quota.run_folder.filesystem)
    assert run.spec.quota.run_folder.image not in loop_devices().values()
    for identity in (*strangers, grader):
        assert client.api.inspect_container(identity)["Id"] == identity


def test_removing_what_is_not_there_is_no_error(client, home: Home):
    assert remove_run_objects(client, home, "never-was").containers == ()


def test_only_a_run_without_a_living_owner_is_an_orphan(client, home, image, dead_owner):
    ids = [
        client.api.create_container(image, ["true"], labels=labels(home.label, run_id, "agent", owner))["Id"]
        for run_id, owner in (("dead", dead_owner), ("mine", current_owner()), ("known", dead_owner))
    ]
    try:
        assert [objects.run_id for objects in orphans(client, home, live_run_ids=["known"])] == ["dead"]
    finally:
        for identity in ids:
            client.api.remove_container(identity, force=True)

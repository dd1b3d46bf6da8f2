"""Telling a living owner from a dead one and from a recycled pid."""

import subprocess
import sys

from harness.sandbox.owner import current_owner, is_alive, start_ticks


def test_this_process_is_alive():
    assert is_alive(current_owner())


def test_another_process_with_the_same_pid_is_not_it():
    owner = current_owner()
    assert not is_alive(owner.model_copy(update={"started_ticks": owner.started_ticks - 1}))


def test_a_process_that_has_ended_is_not_alive():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = current_owner().model_copy(update={"pid": process.pid, "started_ticks": start_ticks(process.pid)})
        assert is_alive(owner)
    assert not is_alive(owner)


def test_a_zombie_is_not_alive():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = current_owner().model_copy(update={"pid": process.pid, "started_ticks": start_ticks(process.pid)})
        process.kill()
        while start_ticks(process.pid) is not None:
            pass  # Not waited for yet: it becomes a zombie.
        assert not is_alive(owner)


def test_an_owner_from_before_the_last_boot_is_dead():
    assert not is_alive(current_owner().model_copy(update={"boot_id": "another"}))


def test_an_owner_on_another_machine_counts_as_alive():
    assert is_alive(current_owner().model_copy(update={"boot_id": "another", "host": "elsewhere"}))

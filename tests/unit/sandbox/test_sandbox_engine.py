"""Engine versions, daemon errors, labels, cgroup files, the seccomp program."""

import platform

import pytest
from docker.errors import APIError, ImageNotFound
from requests import Response
from requests.exceptions import ReadTimeout

from harness.errors import InfrastructureError, PrerequisiteError
from harness.sandbox.confine_script import TABLES, program
from harness.sandbox.engine import check_version, docker_errors, is_gone, labels
from harness.sandbox.host_listener import host_addresses, host_listener
from harness.sandbox.owner import current_owner
from harness.sandbox.services import answers, inference_memory_mb, prepare_socket_dir


def api_error(status, text):
    response = Response()
    response.status_code = status
    return APIError("failed", response=response, explanation=text)


@pytest.mark.parametrize("version", ["19.03.15", "18.09", "1.13.1", "20.9"])
def test_old_engines_are_refused(version):
    with pytest.raises(PrerequisiteError, match="too old"):
        check_version(version)


@pytest.mark.parametrize("version", ["20.10.24+dfsg1", "23.0.11", "28.2.2"])
def test_newer_engines_are_taken(version):
    check_version(version)


@pytest.mark.parametrize(
    "text",
    [
        'could not select device driver "nvidia" with capabilities: [[gpu]]',
        "unknown runtime specified nvidia",
    ],
)
def test_missing_gpu_support_is_a_prerequisite_with_its_fix(text):
    with pytest.raises(PrerequisiteError, match="container toolkit"), docker_errors("starting"):
        raise api_error(500, text)


def test_a_missing_image_is_a_prerequisite():
    with pytest.raises(PrerequisiteError, match="make images"), docker_errors("creating"):
        raise ImageNotFound("no such image")


@pytest.mark.parametrize("error", [api_error(500, "broken"), ReadTimeout("slow")])
def test_anything_else_is_the_infrastructures(error):
    with pytest.raises(InfrastructureError, match="creating x"), docker_errors("creating x"):
        raise error


def test_gone_and_going_are_the_same():
    assert is_gone(api_error(404, "no such container"))
    assert is_gone(api_error(409, "removal of container x is already in progress"))
    assert not is_gone(api_error(409, "name in use"))


def test_labels_tell_home_run_zone_and_owner():
    found = labels("h", "r", "agent", current_owner())
    assert (found["harness.home"], found["harness.run"], found["harness.zone"]) == ("h", "r", "agent")
    assert str(current_owner().pid) in found["harness.owner"]


@pytest.mark.parametrize("machine", sorted(TABLES))
def test_no_jump_of_the_filter_leaves_the_program(machine):
    code = program(machine)
    for index, (_, if_true, if_false, _) in enumerate(code):
        assert index + 1 + max(if_true, if_false) <= len(code) - 1 or (if_true, if_false) == (0, 0)
    assert len(code) < 64


def test_this_machine_is_one_the_filter_knows():
    assert platform.machine() in TABLES


def test_the_hosts_listener_is_reachable_from_the_host():
    with host_listener() as port:
        assert port > 0
    assert all(not address.startswith("127.") for address in host_addresses())


def test_inference_gets_memory_for_its_model():
    assert inference_memory_mb(3_000_000) == 8_000
    assert inference_memory_mb(14_000_000_000) == 63_000


def test_a_socket_that_is_a_link_does_not_answer(tmp_path):
    (tmp_path / "s.sock").symlink_to("/dev/null")
    assert not answers(tmp_path / "s.sock")
    assert not answers(tmp_path / "missing")


def test_what_a_dead_service_left_is_removed(tmp_path):
    folder = tmp_path / "run" / "inference"
    folder.mkdir(parents=True)
    (folder / "s.sock").symlink_to("/etc/passwd")
    prepare_socket_dir(folder, 1234, 1234)
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o711

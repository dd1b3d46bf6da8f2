"""The doctor passes on this machine, is remembered, and fails where something is open."""

import pytest
from built_images import built_image

from harness.errors import InfrastructureError, IsolationError
from harness.sandbox import agent, doctor, gateway_service, reaper
from harness.sandbox.doctor import ProbedImages, examine, require_isolation
from harness.settings import Settings

pytestmark = pytest.mark.docker


@pytest.fixture
def images(image):
    return ProbedImages(agent=image, gateway=built_image("gateway"))


@pytest.fixture
def settings(home):
    return Settings(home=home.path, network_range="10.214.32.0/20")


def test_nothing_is_open_here_and_that_is_remembered(client, home, grader, images, settings, monkeypatch):
    report = examine(client, home, settings, images)
    assert [(result.name, result.detail) for result in report.failed] == []
    assert {"host_through_gateway", "host_addresses", "outside", "other_run", "hidden_data", "model_read_only"} | {
        "gateway_ports",
        "gateway_routes",
        "gateway_beyond",
    } <= {result.name for result in report.results}
    assert reaper.list_objects(client, home) == {}
    assert list(home.runs.iterdir()) == []
    monkeypatch.setattr(doctor, "examine", None)
    assert require_isolation(client, home, settings, images) == report


def test_an_open_sandbox_is_refused_by_the_name_of_what_is_open(client, home, grader, images, settings, monkeypatch):
    closed = agent.host_config

    def open_config(*args, **more):
        config = closed(*args, **more)
        config["ReadonlyRootfs"] = False
        config["CapDrop"] = []
        next(mount for mount in config["Mounts"] if mount["Target"].endswith("/model"))["ReadOnly"] = False
        return config

    command = gateway_service._command
    monkeypatch.setattr(agent, "host_config", open_config)
    monkeypatch.setattr(gateway_service, "_command", lambda network: [*command(network), "--proxy-port", "9999"])
    with pytest.raises(IsolationError, match="not tight") as caught:
        require_isolation(client, home, settings, images)
    for name in ("root_read_only", "capabilities", "model_read_only", "bytes_unchanged", "gateway_ports"):
        assert name in caught.value.what
    monkeypatch.undo()
    # A failure is not remembered as a pass.
    assert require_isolation(client, home, settings, images).ok


def test_without_a_grader_it_says_how_to_start_it(client, home, images, settings):
    with pytest.raises(InfrastructureError, match="harness up"):
        examine(client, home, settings, images)

"""What the doctor makes for its containers can be removed again by whoever started it."""

from harness.home import Home
from harness.sandbox import doctor_stage
from harness.sandbox.networks import RunNetwork
from harness.settings import Settings


def test_docker_makes_no_mount_point_in_a_watched_workspace(home: Home, monkeypatch):
    """It would be root's, and the folder of a doctor without root would stay."""
    network = RunNetwork(id="n", name="n", subnet="10.0.0.0/28")
    monkeypatch.setattr(doctor_stage, "create_run_network", lambda *arguments: network)
    monkeypatch.setattr(doctor_stage, "remove_run_objects", lambda *arguments: None)
    with doctor_stage.staged(None, home, Settings(home=home.path, quota="watch"), "image", "peer") as spec:
        workspace = home.run(spec.run_id).workspace
        assert (workspace / "data").is_dir()
        assert (workspace / "models" / doctor_stage.MODEL_REPO).is_dir()
    assert list(home.runs.iterdir()) == []

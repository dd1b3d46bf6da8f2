"""compose.yaml holds what isolation needs, and is filled in for one home."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import PrerequisiteError
from harness.home import Home
from harness.sandbox import compose
from harness.sandbox.compose import GraderSpec, compose_environment, find_compose, grader_user, project_name
from harness.sandbox.process import ProcessResult

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "compose.yaml").read_text()


@pytest.fixture(scope="module")
def grader() -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load(TEXT)["services"]["grader"]
    return service


def test_file_fits_compose_1_and_2() -> None:
    content = yaml.safe_load(TEXT)
    assert set(content) == {"services", "networks"}  # no `version`, no `name`
    assert "deploy" not in content["services"]["grader"]
    assert "start_interval" not in TEXT


def test_grader_is_hardened(grader: dict[str, Any]) -> None:
    assert grader["read_only"] is True
    assert grader["init"] is True
    assert grader["cap_drop"] == ["ALL"]
    assert grader["cap_add"] == ["DAC_READ_SEARCH"]
    assert grader["security_opt"] == ["no-new-privileges:true"]
    assert grader["pids_limit"] > 0
    assert grader["mem_limit"]
    assert grader["logging"]["driver"] == "local"
    assert {"max-size", "max-file"} <= set(grader["logging"]["options"])
    assert grader["restart"] == "unless-stopped"
    assert grader["sysctls"]["net.ipv4.ip_forward"] == "0"


def test_grader_has_nothing_it_must_not_have(grader: dict[str, Any]) -> None:
    assert not {"privileged", "ports", "devices", "network_mode", "pid", "ipc", "env_file"} & set(grader)
    assert "docker.sock" not in TEXT


def test_hidden_data_and_models_are_mounted_read_only(grader: dict[str, Any]) -> None:
    mounts = {Path(mount["target"]).name: mount.get("read_only", False) for mount in grader["volumes"]}
    assert mounts == {"db": False, "snapshots": False, "sock": False, "eval": True, "models": True, "lineage": True}
    assert all(mount["type"] == "bind" for mount in grader["volumes"])


def test_mounts_keep_the_layout_of_a_home(grader: dict[str, Any]) -> None:
    inside = Home(Path(grader["environment"]["HARNESS_HOME"]))
    for mount in grader["volumes"]:
        assert str(inside.path) == str(Path(mount["target"]).parent)
    assert str(inside.admin_socket) in grader["healthcheck"]["test"]


def test_core_network_leads_nowhere() -> None:
    core = yaml.safe_load(TEXT)["networks"]["core"]
    assert core["internal"] is True
    assert core["driver_opts"]["com.docker.network.bridge.inhibit_ipv4"] == "true"


def test_every_variable_has_a_default_and_is_filled_in(tmp_path: Path) -> None:
    spec = GraderSpec(home_path=tmp_path, image="harness-grader:abc", user="0:0")
    used = set(re.findall(r"\$\{(\w+)", TEXT)) - {""}
    assert used == set(re.findall(r"\$\{(\w+):-[^}]+\}", TEXT))
    assert used - set(compose_environment(spec)) == {"GRADER_MEMORY"}


def test_homes_do_not_share_a_project(tmp_path: Path) -> None:
    one, other = Home(tmp_path / "one"), Home(tmp_path / "two")
    assert project_name(one) != project_name(other)
    assert one.label in project_name(one)


def test_grader_runs_as_this_user() -> None:
    assert re.fullmatch(r"\d+:\d+", grader_user())


def answers(outputs: dict[str, tuple[int, str]]) -> Any:
    """A `run_process` that knows these programs only."""

    def run(argv: list[str], **_options: Any) -> ProcessResult:
        if argv[0] not in outputs:
            raise PrerequisiteError(f"program {argv[0]} not found")
        exit_code, stdout = outputs[argv[0]]
        return ProcessResult(tuple(argv), exit_code, stdout, "")

    return run


def test_the_plugin_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"docker": (0, "Docker Compose version v2.30"), "docker-compose": (0, "docker-compose version 1.29.2")}
    monkeypatch.setattr(compose, "run_process", answers(known))
    assert find_compose() == ("docker", "compose")


def test_a_docker_client_without_the_plugin_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"docker": (0, "Usage: docker [OPTIONS] COMMAND"), "docker-compose": (0, "docker-compose version 1.29.2")}
    monkeypatch.setattr(compose, "run_process", answers(known))
    assert find_compose() == ("docker-compose",)


def test_no_compose_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "run_process", answers({}))
    with pytest.raises(PrerequisiteError, match="apt-get install"):
        find_compose()


@pytest.mark.parametrize(
    ("output", "fix"),
    [
        ("client version 1.50 is too new. Maximum supported API version is 1.41", "DOCKER_API_VERSION"),
        ("could not find an available, non-overlapping IPv4 address pool", "default-address-pools"),
        ("dial unix /var/run/docker.sock: connect: permission denied", "group `docker`"),
        ("No such image: harness-grader:abc", "make images"),
    ],
)
def test_known_failures_carry_their_fix(output: str, fix: str) -> None:
    error = compose._failure(ProcessResult(("docker-compose",), 1, "", output), "up")
    assert fix in error.fix
    assert output in error.what

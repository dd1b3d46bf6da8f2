"""The gateway in its image, confined as a zone is; calls of agents are in `test_gateway_process.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from built_images import built_image
from llm_upstream import KEY
from served import wait_until

from harness.errors import ServiceUnavailable
from harness.unix_http import UnixHttp

pytestmark = pytest.mark.docker
USER = 65532


@pytest.fixture(scope="module")
def image() -> str:
    return built_image("gateway")


def folders(tmp_path: Path) -> dict[str, dict[str, str]]:
    """Configuration, state and socket, as mounts."""
    mounts = {}
    places = (("etc", "/etc/gateway", "ro"), ("state", "/var/lib/gateway", "rw"), ("sock", "/sock", "rw"))
    for name, target, mode in places:
        (tmp_path / name).mkdir(exist_ok=True)
        if os.geteuid() == 0:
            os.chown(tmp_path / name, USER, USER)
        else:
            (tmp_path / name).chmod(0o777)
        mounts[str(tmp_path / name)] = {"bind": target, "mode": mode}
    config = {"upstreams": {"openai": {"url": "https://api.openai.com/v1", "key_file": "/etc/gateway/key"}}}
    (tmp_path / "etc" / "gateway.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "etc" / "key").write_text(KEY)
    return mounts


@pytest.mark.skipif(os.geteuid() != 0, reason="the socket of another user is root's to open")
def test_it_runs_confined_and_answers_on_its_socket(image: str, tmp_path: Path) -> None:
    import docker

    client = docker.from_env(timeout=60)
    options: dict[str, Any] = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    container = client.containers.run(
        image, detach=True, network_mode="none", mem_limit="80m", volumes=folders(tmp_path), **options
    )
    try:
        admin = UnixHttp(tmp_path / "sock" / "gateway.sock", "gateway")

        def answers() -> bool:
            container.reload()
            assert container.status != "exited", container.logs().decode()
            try:
                return admin.request("GET", "/health", 5).status == 200
            except ServiceUnavailable:
                return False

        wait_until(answers, 60)
        assert admin.request("GET", "/events", 5).body == b"[]"
        assert container.exec_run(["id", "-u"]).output.strip() == str(USER).encode()
        assert KEY not in container.logs().decode() + str(container.attrs)
        container.stop(timeout=20)
        assert container.wait(timeout=30)["StatusCode"] == 0
    finally:
        container.remove(force=True)
        client.close()

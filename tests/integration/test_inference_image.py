"""The engine contract on the inference image, started as a run starts it: no network, read-only, one socket."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny_model
from built_images import built_image
from engine_contract import EngineContract, ServedModels
from served import wait_until

from harness.domain.specs import EngineSpec
from harness.home import Home
from harness.inference.client import InferenceClient

RUN_ID = "20260101T000000_contract_0000"

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def image() -> str:
    return built_image("inference")


@pytest.fixture(scope="module")
def models_home(image: str, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose model store holds the tiny models; written with the image's own torch."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.create()
    script = Path(tiny_model.__file__)
    command = ["docker", "run", "--rm", "--network", "none", "--user", f"{os.getuid()}:{os.getgid()}"]
    command += ["-v", f"{script}:/tiny_model.py:ro", "-v", f"{home.models}:/out", image]
    subprocess.run([*command, "python", "/tiny_model.py", "/out"], check=True, capture_output=True, timeout=300)
    for file in home.models.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    return home


def _starter(home: Home, image: str) -> Callable[[], Callable[[], None]]:
    from harness.sandbox.containers import remove_container
    from harness.sandbox.engine import connect
    from harness.sandbox.owner import current_owner
    from harness.sandbox.services import inference_service, start_services

    spec = EngineSpec(image=image, device="cpu", batch_size=4)

    def start() -> Callable[[], None]:
        client = connect()
        service = inference_service(home, RUN_ID, current_owner(), spec, memory_mb=2_000)
        (started,) = start_services(client, home, [service], timeout_s=120)

        def stop() -> None:
            remove_container(client, started.container_id)
            client.close()

        return stop

    return start


@pytest.fixture(scope="module")
def service(models_home: Home, image: str) -> Iterator[ServedModels]:
    client = InferenceClient(models_home.inference_dir(RUN_ID) / "s.sock", timeout_s=120)
    start = _starter(models_home, image)
    stops = [start()]

    def restart() -> None:
        stops.pop()()
        stops.append(start())
        wait_until(client.is_ready, timeout_s=120)

    try:
        wait_until(client.is_ready, timeout_s=120)
        yield ServedModels(client=client, models="/models", restart=restart)
    finally:
        for stop in stops:
            stop()


class TestInferenceImage(EngineContract):
    """`transformers` on the CPU, in the image."""

"""The product's images as they were built: what is in them, what is not, and how builds end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from built_images import ROOT
from docker import DockerClient

from harness.errors import PrerequisiteError, UsageError
from harness.sandbox.build_context import HOST_CERTIFICATES, host_certificates
from harness.sandbox.derived_images import agent_image, ensure_image, scorer_image
from harness.sandbox.engine import connect
from harness.sandbox.image_build import BuildEvent
from harness.sandbox.images import (
    BuildRequest,
    build_images,
    detect_device,
    has_image,
    prune_images,
    stale_images,
)
from harness.settings import load_settings

pytestmark = pytest.mark.docker

ZONES = ("base", "torch", "agent", "grader", "scorer", "executor", "inference", "gateway")
END = "-- end of output --"
SERVICES = ("grader", "scorer", "executor", "inference", "gateway")
# A base image with packages of its own, as scripts/host_base.sh makes one: one package, which asks for another.
OWN_PACKAGES = """
site=/opt/base-packages/0/site-packages
mkdir -p $site/brought $site/brought-1.2.dist-info
echo 'WORD = "brought"' > $site/brought/__init__.py
cat > $site/brought-1.2.dist-info/METADATA << 'END'
Metadata-Version: 2.1
Name: brought
Version: 1.2
Requires-Dist: left-out>=1
END
place=$(python3 -c 'import site; print(site.getsitepackages()[0])')
mkdir -p $place
echo $site > $place/base-packages.pth
"""
# Every module that a service's image holds, imported by the image's own Python.
IMPORT_ALL = """
import importlib, pathlib
root = pathlib.Path("/opt/harness")
for path in sorted((root / "harness").rglob("*.py")):
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    if not name.endswith("__main__"):
        importlib.import_module(name)
        print(name)
"""


@pytest.fixture(scope="module")
def client() -> Iterator[DockerClient]:
    client = connect(timeout_s=120)
    yield client
    client.close()


@pytest.fixture(scope="module")
def request_all() -> BuildRequest:
    settings = load_settings()
    return BuildRequest(root=ROOT, device=detect_device(settings.device), base_image=settings.base_image)


@pytest.fixture
def tags(product_images: dict[str, str]) -> dict[str, str]:
    return product_images


def inside(client: DockerClient, image: str, *command: str, is_read_only: bool = True) -> str:
    """What `command` prints in a fresh container of `image`, cut off and read-only like a real one."""
    container = client.containers.create(
        image,
        ["sh", "-c", f'exec 2>&1; "$@"; echo; echo {END}', "sh", *command],
        network_mode="none",
        read_only=is_read_only,
        cap_drop=["ALL"],
        tmpfs={"/tmp": "exec"},
    )
    try:
        container.start()
        container.wait(timeout=120)
        # On a busy machine the log of a container that has just ended may still lack its end.
        deadline = time.monotonic() + 30
        while not (output := container.logs().decode()).endswith(f"\n{END}\n"):
            assert time.monotonic() < deadline, output
            time.sleep(0.05)
        return output.removesuffix(f"\n{END}\n")
    finally:
        container.remove(force=True)


@pytest.mark.parametrize("zone", ZONES)
def test_final_stage_has_no_wheels_and_no_certificate_of_this_host(
    client: DockerClient, tags: dict[str, str], zone: str
) -> None:
    script = "ls -d /wheelhouse 2>/dev/null; ls /usr/local/share/ca-certificates; env | grep -i pip_cert; true"
    assert inside(client, tags[zone], "sh", "-c", script).strip() == ""
    bundle = inside(client, tags[zone], "cat", "/etc/ssl/certs/ca-certificates.crt")
    for certificate in host_certificates(HOST_CERTIFICATES):
        body = certificate.read_text().split("-----")[2].strip()
        assert body not in bundle, certificate.name


@pytest.mark.parametrize("zone", ZONES)
def test_every_image_says_what_it_is(client: DockerClient, tags: dict[str, str], zone: str) -> None:
    labels = client.images.get(tags[zone]).labels
    assert labels["harness.zone"] == zone
    assert "harness.stage" not in labels


@pytest.mark.parametrize("zone", SERVICES)
def test_service_images_hold_all_that_they_import(client: DockerClient, tags: dict[str, str], zone: str) -> None:
    assert f"harness.{zone}" in inside(client, tags[zone], "python3", "-c", IMPORT_ALL).split()


@pytest.mark.parametrize("zone", ["grader", "scorer"])
def test_no_torch_outside_the_torch_zones(client: DockerClient, tags: dict[str, str], zone: str) -> None:
    assert "No module named 'torch'" in inside(client, tags[zone], "python", "-c", "import torch")


def test_services_do_not_run_as_root_by_default(client: DockerClient, tags: dict[str, str]) -> None:
    for zone in ("agent", "scorer", "executor", "inference"):
        assert inside(client, tags[zone], "id", "-u").strip() != "0"


def test_agent_has_nothing_of_the_harness(client: DockerClient, tags: dict[str, str]) -> None:
    assert "No module named 'harness'" in inside(client, tags["agent"], "python", "-c", "import harness")
    search = "find / -xdev \\( -name harness -o -name 'posttrain*' \\) 2>/dev/null; true"
    assert inside(client, tags["agent"], "sh", "-c", search).strip() == ""


def test_agent_trains_with_trl_and_has_its_tools(client: DockerClient, tags: dict[str, str]) -> None:
    code = "import sys, torch, trl, datasets, httpx; print(sys.prefix, trl.__version__, torch.__version__)"
    prefix, trl, torch = inside(client, tags["agent"], "python", "-W", "ignore", "-c", code).split()[-3:]
    assert (prefix, trl) == ("/opt/venv", "1.16.0")
    assert torch.startswith("2.13.0")
    assert inside(client, tags["agent"], "sh", "-c", "which curl git accelerate").split() == [
        "/usr/bin/curl",
        "/usr/bin/git",
        "/opt/venv/bin/accelerate",
    ]
    assert "/opt/venv/bin/python" in inside(client, tags["agent"], "head", "-n", "1", "/opt/venv/bin/accelerate")


def test_agent_and_inference_share_the_torch_layer(client: DockerClient, tags: dict[str, str]) -> None:
    layers = {
        zone: client.api.inspect_image(tags[zone])["RootFS"]["Layers"] for zone in ("torch", "agent", "inference")
    }
    for zone in ("agent", "inference"):
        assert layers[zone][: len(layers["torch"])] == layers["torch"]


def test_nothing_is_built_when_nothing_changed(
    client: DockerClient, request_all: BuildRequest, tags: dict[str, str]
) -> None:
    events: list[BuildEvent] = []
    assert build_images(client, request_all, events.append) == tags
    assert events == []


def test_an_unknown_zone_is_named(client: DockerClient, request_all: BuildRequest) -> None:
    with pytest.raises(UsageError, match="no image zone `agnet`"):
        build_images(client, request_all.model_copy(update={"zones": ("agnet",)}), lambda _event: None)


def test_a_failed_build_shows_its_last_lines(client: DockerClient, tags: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "broken-agent"
    folder.mkdir()
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN echo the words before && exit 7\n")
    plan = agent_image(folder, tags)
    with pytest.raises(PrerequisiteError) as caught:
        ensure_image(client, ROOT, plan, lambda _event: None)
    assert "the words before" in caught.value.what
    assert "returned a non-zero code: 7" in caught.value.what
    assert not has_image(client, plan.tag)


def test_a_derived_image_is_built_once_and_pruned_with_its_parent(
    client: DockerClient, tags: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "own-image-agent"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello")
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY hello.txt /hello.txt\n")
    plan, events = agent_image(folder, tags), list[BuildEvent]()
    try:
        ensure_image(client, ROOT, plan, events.append)
        assert [event.kind for event in events if event.kind in ("start", "done")] == ["start", "done"]
        events.clear()
        ensure_image(client, ROOT, plan, events.append)
        assert events == []
        assert inside(client, plan.tag, "cat", "/hello.txt") == "hello"
        assert plan.tag not in stale_images(client, tags)
        newer = {**tags, "agent": "harness-agent:000000000000"}
        assert plan.tag in stale_images(client, newer)
    finally:
        client.images.remove(plan.tag, force=True)


def test_a_benchmarks_packages_come_on_top_of_the_scorer(
    client: DockerClient, tags: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "benchmark-with-packages"
    folder.mkdir()
    # Satisfied by what is there already: the build needs no package index.
    (folder / "requirements.txt").write_text("fastapi\n")
    plan = scorer_image(ROOT, folder, tags)
    try:
        ensure_image(client, ROOT, plan, lambda _event: None)
        assert inside(client, plan.tag, "id", "-u").strip() != "0"
        assert inside(client, plan.tag, "sh", "-c", "ls -d /wheelhouse 2>/dev/null; true").strip() == ""
    finally:
        client.images.remove(plan.tag, force=True)


def test_pruning_leaves_what_is_current(client: DockerClient, tags: dict[str, str]) -> None:
    old = "harness-base:000000000000"
    client.images.get(tags["base"]).tag(old)
    try:
        others = {f"kept {number}": tag for number, tag in enumerate(stale_images(client, tags)) if tag != old}
        assert prune_images(client, {**tags, **others}) == [old]
        assert has_image(client, tags["base"])
    finally:
        if has_image(client, old):
            client.images.remove(old)


def test_a_base_image_with_packages_of_its_own_needs_no_index(client: DockerClient, tags: dict[str, str]) -> None:
    script = f"{OWN_PACKAGES}echo 'brought>=1' > /tmp/r.txt; install-packages /opt/v /tmp/r.txt"
    script += "; /opt/v/bin/python -c 'import brought; print(brought.WORD)'"
    said = inside(client, tags["base"], "sh", "-ec", script, is_read_only=False)
    assert "brought 1.2" in said
    assert "the base image lacks left-out, which brought asks for" in said
    assert said.split()[-1] == "brought"


def test_a_package_that_a_base_image_lacks_ends_the_build(client: DockerClient, tags: dict[str, str]) -> None:
    script = f"{OWN_PACKAGES}echo brought > /tmp/r.txt; echo absent==3 >> /tmp/r.txt"
    script += "; install-packages /opt/v /tmp/r.txt; echo ended with $?"
    said = inside(client, tags["base"], "sh", "-c", script, is_read_only=False)
    assert "the base image lacks: absent" in said
    assert "ended with 1" in said

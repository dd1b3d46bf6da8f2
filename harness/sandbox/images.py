"""The product's own images: which tags the checkout asks for, what is missing or stale, and building it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from harness.domain.base import Frozen
from harness.errors import PrerequisiteError, UsageError
from harness.sandbox.base_image import choose_base_image
from harness.sandbox.build_context import ZONES, ContextFile, Zone, build_tar, context_digest, zone_files, zones_of
from harness.sandbox.image_build import BuildJob, Progress, build_image
from harness.sandbox.wheelhouse import fill_wheelhouse, wheels_for

ZONE_LABEL = "harness.zone"
PARENT_LABEL = "harness.parent"
BASE_LABEL = "harness.base"
STAGE_FILTER = "harness.stage=build"
NVIDIA_DEVICE = Path("/dev/nvidiactl")

Device = Literal["cpu", "gpu"]


class BuildRequest(Frozen):
    """What to build: checkout, target, base image (empty: chosen), and which zones (empty: all but optional ones)."""

    root: Path
    device: Device
    base_image: str = ""
    zones: tuple[str, ...] = ()
    is_forced: bool = False


@dataclass(frozen=True)
class ZoneImage:
    """One zone's image as the checkout wants it: its tag and the files that it is built from."""

    zone: Zone
    tag: str
    files: tuple[ContextFile, ...]


def detect_device(setting: str) -> Device:
    """`cpu` or `gpu`: the setting, or for `auto` whether this host has an NVIDIA driver."""
    if setting == "auto":
        return "gpu" if NVIDIA_DEVICE.exists() else "cpu"
    return "gpu" if setting == "gpu" else "cpu"


def expected_tags(root: Path, device: str, base_image: str = "", *, with_optional: bool = False) -> dict[str, str]:
    """Zone -> `harness-<zone>:<digest>` for the checkout as it is now; asks no Docker.

    The digest covers the Dockerfile, every copied file, requirements, the base image setting and the parents' digests;
    not the host's certificates and wheels, which leave no trace but the packages that are pinned anyway.
    """
    images = _zone_images(root, device, base_image).values()
    return {image.zone.name: image.tag for image in images if with_optional or not image.zone.is_optional}


def missing_images(client: docker.DockerClient, tags: dict[str, str]) -> list[str]:
    """The zones of `tags` whose image is not here, in build order."""
    here = {tag for image in _ours(client) for tag in image["RepoTags"] or ()}
    return [zone for zone, tag in tags.items() if tag not in here]


def has_image(client: docker.DockerClient, tag: str) -> bool:
    """Whether an image is here, under exactly this tag."""
    try:
        client.images.get(tag)
    except ImageNotFound:
        return False
    return True


def build_images(client: docker.DockerClient, request: BuildRequest, progress: Progress) -> dict[str, str]:
    """Builds what is missing of the request's zones and of what they stand on.

    Returns the tags of all zones, of optional ones only where they were asked for.

    Raises:
        PrerequisiteError: a build failed or cannot start; the message says why and what to do.
    """
    try:
        # The files are read once: an edit during the build cannot end up under the old tag.
        images = _zone_images(request.root, request.device, request.base_image)
        tags = {name: image.tag for name, image in images.items()}
        missing = missing_images(client, tags)
        wanted = request.zones or tuple(zone.name for zone in ZONES if not zone.is_optional)
        for zone in _with_parents(wanted, request.device):
            if request.is_forced or zone.name in missing:
                _build_zone(client, request, images[zone.name], tags, progress)
    except (DockerException, requests.RequestException) as error:
        raise PrerequisiteError(
            f"the Docker Engine does not build: {error}", "Is it running? Try `docker info`."
        ) from error
    return {zone.name: tags[zone.name] for zone in ZONES if not zone.is_optional or zone.name in wanted}


def stale_images(client: docker.DockerClient, tags: dict[str, str]) -> list[str]:
    """Our image tags that the checkout no longer asks for: older digests, and derived images of older parents."""
    current, stale = set(tags.values()), list[str]()
    for image in _ours(client):
        if (image["Labels"] or {}).get(PARENT_LABEL) not in current:
            stale.extend(tag for tag in image["RepoTags"] or () if tag.startswith("harness-") and tag not in current)
    return sorted(stale)


def prune_images(client: docker.DockerClient, tags: dict[str, str], *, with_build_stages: bool = False) -> list[str]:
    """Removes `stale_images` that no container uses (and the build stages kept as cache); returns what is gone."""
    targets = stale_images(client, tags)
    if with_build_stages:
        targets += [image["Id"] for image in client.api.images(filters={"label": STAGE_FILTER, "dangling": True})]
    removed = []
    for target in targets:
        try:
            client.images.remove(target)
        except APIError:
            continue  # in use by a container, or a parent of what is: stays
        removed.append(target)
    return removed


def _ours(client: docker.DockerClient) -> list[dict[str, Any]]:
    """Every image of ours in one call: inspecting each would cost more than the rest of `make images`."""
    return list(client.api.images(filters={"label": ZONE_LABEL}))


def _with_parents(names: tuple[str, ...], device: Device) -> list[Zone]:
    """The zones of `names` and those they stand on, in build order."""
    by_name, wanted = {zone.name: zone for zone in zones_of(device)}, set[str]()
    for name in names:
        zone = by_name.get(name)
        if zone is None:
            raise UsageError(f"no image zone `{name}`", f"Known: {', '.join(by_name)}")
        while zone is not None:
            wanted.add(zone.name)
            zone = by_name[zone.parent] if zone.parent else None
    return [zone for zone in zones_of(device) if zone.name in wanted]


def _build_zone(
    client: docker.DockerClient, request: BuildRequest, image: ZoneImage, tags: dict[str, str], progress: Progress
) -> None:
    zone, arguments, labels = image.zone, dict[str, str](), {ZONE_LABEL: image.zone.name}
    if zone.parent is None:
        arguments["BASE_IMAGE"] = labels[BASE_LABEL] = choose_base_image(client, request.base_image, progress)
    else:
        arguments["BASE"] = labels[PARENT_LABEL] = tags[zone.parent]
    if zone.name == "torch" and (index := fill_wheelhouse(request.root, request.device, progress)):
        arguments["PIP_EXTRA_INDEX_URL"] = index
    job = BuildJob(zone.name, image.tag, arguments, labels)
    build_image(client, job, build_tar(image.files, wheels_for(request.root, has_torch=zone.has_torch)), progress)


def _zone_images(root: Path, device: str, base_image: str) -> dict[str, ZoneImage]:
    images: dict[str, ZoneImage] = {}
    for zone in zones_of(device):
        files = zone_files(root, zone, device)
        parent = images[zone.parent].tag if zone.parent else f"base={base_image or 'auto'}"
        images[zone.name] = ZoneImage(zone, f"harness-{zone.name}:{context_digest(files, parent)}", files)
    return images

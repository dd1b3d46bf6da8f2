"""Images made from ours for one agent (its own Dockerfile) or one benchmark (its evaluator's packages)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import docker

from harness.sandbox.build_context import ContextFile, build_tar, context_digest, folder_files
from harness.sandbox.image_build import BuildJob, Progress, build_image
from harness.sandbox.images import PARENT_LABEL, ZONE_LABEL, has_image
from harness.sandbox.wheelhouse import wheels_for


@dataclass(frozen=True)
class ImagePlan:
    """The image of a container: `tag`, and, where it is derived from one of ours, what it is built from."""

    zone: str
    tag: str
    parent: str = ""
    files: tuple[ContextFile, ...] = ()
    # What a Dockerfile's first stages may stand on: it changes less often than the parent.
    base: str = ""

    @property
    def is_derived(self) -> bool:
        return bool(self.parent)


def agent_image(agent_folder: Path, tags: dict[str, str]) -> ImagePlan:
    """The image of an agent: ours, or one built from its folder's Dockerfile (`ARG BASE`, `FROM ${BASE}`).

    `BUILD_BASE` is Debian with Python alone: a stage that stands on it is kept where the agent image changes.
    """
    if not (agent_folder / "Dockerfile").is_file():
        return ImagePlan("agent", tags["agent"])
    return replace(_derived("agent", agent_folder.name, tags["agent"], folder_files(agent_folder)), base=tags["base"])


def scorer_image(root: Path, benchmark_folder: Path, tags: dict[str, str]) -> ImagePlan:
    """The image of a benchmark's scorer: ours, or one with the packages of its requirements.txt."""
    requirements = benchmark_folder / "requirements.txt"
    if not requirements.is_file():
        return ImagePlan("scorer", tags["scorer"])
    dockerfile = root / "images" / "scorer" / "with-requirements.Dockerfile"
    files = (
        ContextFile("Dockerfile", dockerfile.read_bytes()),
        ContextFile("requirements.txt", requirements.read_bytes()),
    )
    return _derived("scorer", benchmark_folder.name, tags["scorer"], files)


def ensure_image(client: docker.DockerClient, root: Path, plan: ImagePlan, progress: Progress) -> None:
    """Builds a derived image if it is not here; images of our own come from `build_images`.

    Raises:
        PrerequisiteError: the build failed, with the last lines of its output.
    """
    if not plan.is_derived or has_image(client, plan.tag):
        return
    arguments = {"BASE": plan.parent, **({"BUILD_BASE": plan.base} if plan.base else {})}
    job = BuildJob(plan.zone, plan.tag, arguments, {ZONE_LABEL: plan.zone, PARENT_LABEL: plan.parent})
    build_image(client, job, build_tar(plan.files, wheels_for(root, has_torch=False)), progress)


def _derived(zone: str, name: str, parent: str, files: tuple[ContextFile, ...]) -> ImagePlan:
    repository = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
    return ImagePlan(zone, f"harness-{zone}-{repository}:{context_digest(files, parent)}", parent, files)

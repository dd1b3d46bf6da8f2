"""Which image every other one stands on: the setting, Docker's official Python, or a Debian made on this host."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import docker
import requests
from docker.errors import DockerException, ImageNotFound

from harness.errors import PrerequisiteError
from harness.sandbox.image_build import BuildEvent, Progress
from harness.sandbox.process import run_process

OFFICIAL = "python:3.11-slim-bookworm"
HOME_MADE_REPOSITORY, HOME_MADE_TAG = "harness-debian", "bookworm"
HOME_MADE = f"{HOME_MADE_REPOSITORY}:{HOME_MADE_TAG}"
HOME_MADE_PACKAGES = "python3,python3-venv,ca-certificates,curl,git,procps"
REGISTRY_TIMEOUT_S = 6
BOOTSTRAP_TIMEOUT_S = 900


def choose_base_image(client: docker.DockerClient, setting: str, progress: Progress) -> str:
    """A reference that a build can start from: `setting` if given, what is here already, a registry's, or home-made.

    Raises:
        PrerequisiteError: no registry answers, and this host cannot make a Debian image itself.
    """
    if setting:
        return setting
    for reference in (OFFICIAL, HOME_MADE):
        if _is_here(client, reference):
            return reference
    if has_registry():
        return OFFICIAL
    _note(progress, f"no registry answers for {OFFICIAL}: making {HOME_MADE} from Debian packages")
    _make_debian(client)
    return HOME_MADE


def has_registry() -> bool:
    """Whether the Docker Engine (not this process) gets an answer about the official image within a few seconds."""
    try:
        # A client of its own: the SDK has no time-out per call here, and the Engine tries for half a minute.
        client = docker.from_env(timeout=REGISTRY_TIMEOUT_S)
        try:
            client.api.inspect_distribution(OFFICIAL)  # type: ignore[no-untyped-call]
        finally:
            client.close()
    except (DockerException, requests.RequestException):
        return False
    return True


def _make_debian(client: docker.DockerClient) -> None:
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        raise PrerequisiteError(
            "no registry answers, and a base image from Debian packages needs root and mmdebstrap",
            "Run `apt-get install mmdebstrap` and `make images` as root, or set HARNESS_BASE_IMAGE to a local image.",
        )
    with tempfile.TemporaryDirectory(prefix="harness-base-") as folder:
        archive = Path(folder) / "base.tar"
        command: list[str | Path] = [
            "mmdebstrap",
            "--variant=minbase",
            f"--include={HOME_MADE_PACKAGES}",
            HOME_MADE_TAG,
            archive,
        ]
        result = run_process(command, timeout_s=BOOTSTRAP_TIMEOUT_S)
        if not result.has_succeeded:
            raise PrerequisiteError(
                f"mmdebstrap failed:\n{result.last_lines()}\n",
                "It needs a Debian mirror (and debian-archive-keyring on Ubuntu); or set HARNESS_BASE_IMAGE.",
            )
        client.api.import_image(src=str(archive), repository=HOME_MADE_REPOSITORY, tag=HOME_MADE_TAG)
    if not _is_here(client, HOME_MADE):
        raise PrerequisiteError(f"{HOME_MADE} could not be imported", "See the Docker Engine's log, and repeat.")


def _is_here(client: docker.DockerClient, reference: str) -> bool:
    try:
        client.images.get(reference)
    except ImageNotFound:
        return False
    return True


def _note(progress: Progress, text: str) -> None:
    progress(BuildEvent(zone="base", kind="note", text=text))

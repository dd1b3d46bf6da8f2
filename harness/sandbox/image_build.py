"""One image build through the Docker Engine's own (classic) builder: events while it runs, a clear error at the end."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Literal

import docker
import requests
from docker.errors import DockerException

from harness.domain.base import Frozen
from harness.errors import PrerequisiteError

# pip may be silent for minutes while it unpacks torch.
SILENCE_TIMEOUT_S = 900
BUILD_TIMEOUT_S = 3600
KEPT_LINES = 20

_STEP = re.compile(r"^Step (\d+)/(\d+) : (.*)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Words in a build's output -> what to do about it; the first that fits is shown.
_FIXES = (
    ("no space left", "Free disk space: `harness images --prune` removes superseded images of ours, then repeat."),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "Put your proxy's CA certificate (*.crt) into /usr/local/share/ca-certificates and repeat.",
    ),
    (
        "No matching distribution",
        "Check that containers reach the package index, or put the wheels into wheelhouse/, and repeat.",
    ),
    ("name resolution", "Containers cannot resolve names: check the network and Docker's DNS settings, and repeat."),
    ("pull access denied", "Set HARNESS_BASE_IMAGE to an image that exists here, or leave it empty."),
)


class BuildEvent(Frozen):
    """What happens in a build: `start`, `step`, `log`, `done` per image; `note` is for people whatever they watch."""

    zone: str
    kind: Literal["note", "start", "step", "log", "done"]
    text: str
    step: int = 0
    steps: int = 0
    elapsed_s: float = 0.0


Progress = Callable[[BuildEvent], None]


@dataclass(frozen=True)
class BuildJob:
    """One image to build: its tag, the zone it serves, build arguments and labels."""

    zone: str
    tag: str
    arguments: Mapping[str, str]
    labels: Mapping[str, str]


def build_image(client: docker.DockerClient, job: BuildJob, context: IO[bytes], progress: Progress) -> None:
    """Builds `job` from `context` (a tar, closed afterwards) and tags it.

    Raises:
        PrerequisiteError: the build failed; the message ends with the last lines of its output.
    """
    started, tail, error = time.monotonic(), deque[str](maxlen=KEPT_LINES), ""
    progress(BuildEvent(zone=job.zone, kind="start", text=job.tag))
    try:
        with context:
            for message in _messages(client, job, context):
                event = _event(job.zone, message, time.monotonic() - started)
                if event is not None:
                    tail.append(event.text)
                    progress(event)
                # Read on to the stream's end: a connection that is left half-read stays open.
                error = str(message.get("error", error))
                if time.monotonic() - started > BUILD_TIMEOUT_S:
                    raise _failure(job, [*tail, f"not ready after {BUILD_TIMEOUT_S} s"])
    except (DockerException, requests.RequestException) as trouble:
        raise _failure(job, [*tail, str(trouble)]) from trouble
    if error:
        raise _failure(job, [*tail, error])
    progress(BuildEvent(zone=job.zone, kind="done", text=job.tag, elapsed_s=time.monotonic() - started))


def _messages(client: docker.DockerClient, job: BuildJob, context: IO[bytes]) -> Any:
    return client.api.build(
        fileobj=context,
        custom_context=True,
        tag=job.tag,
        buildargs=dict(job.arguments),
        labels=dict(job.labels),
        rm=True,
        forcerm=True,
        pull=False,
        decode=True,
        timeout=SILENCE_TIMEOUT_S,
    )


def _event(zone: str, message: Mapping[str, Any], elapsed_s: float) -> BuildEvent | None:
    text = _COLOUR.sub("", str(message.get("stream", ""))).strip()
    if not text:
        return None
    step = _STEP.match(text)
    if step is None:
        return BuildEvent(zone=zone, kind="log", text=text, elapsed_s=elapsed_s)
    number, count, words = step.groups()
    return BuildEvent(
        zone=zone,
        kind="step",
        text=" ".join(words.split())[:100],
        step=int(number),
        steps=int(count),
        elapsed_s=elapsed_s,
    )


def _failure(job: BuildJob, lines: list[str]) -> PrerequisiteError:
    text = "\n".join(lines)
    fix = next((fix for words, fix in _FIXES if words.lower() in text.lower()), "Mend what the last lines say, repeat.")
    return PrerequisiteError(f"image {job.tag} could not be built. Its last lines:\n{text}\n", fix)

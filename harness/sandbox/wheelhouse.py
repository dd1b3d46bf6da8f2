"""The local wheels of a build: on CPU hosts a CPU build of torch, never gigabytes of CUDA."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from harness.errors import InfrastructureError
from harness.sandbox.image_build import BuildEvent, Progress
from harness.sandbox.process import run_process

# The Python of the images (python:3.11-slim, Debian 12).
IMAGE_PYTHON = "3.11"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DOWNLOAD_TIMEOUT_S = 600
_TORCH_PIN = re.compile(r"^torch==(\S+)", re.MULTILINE)


def torch_pin(root: Path, device: str) -> str:
    """The exact torch version of a target, e.g. `2.13.0+cpu`."""
    pin = _TORCH_PIN.search((root / "images" / "torch" / f"requirements-{device}.txt").read_text())
    return pin.group(1) if pin else ""


def wheels_for(root: Path, *, has_torch: bool) -> list[Path]:
    """The wheels that go into a zone's build context: torch is large and goes only where it is installed."""
    wheels = sorted((root / "wheelhouse").glob("*.whl"))
    return wheels if has_torch else [path for path in wheels if not path.name.startswith("torch-")]


def has_torch_wheel(root: Path, device: str) -> bool:
    """Whether the wheelhouse holds the pinned torch for the images' Python."""
    python = "cp" + IMAGE_PYTHON.replace(".", "")
    return any((root / "wheelhouse").glob(f"torch-{torch_pin(root, device)}-{python}-*.whl"))


def fill_wheelhouse(root: Path, device: str, progress: Progress) -> str:
    """Fetches the pinned CPU torch with the host's own pip; returns the extra index a build needs, or nothing.

    The host's pip honours its own configuration (mirrors, local folders, certificates); a container has none of it.
    """
    if device != "cpu" or has_torch_wheel(root, device):
        return ""
    pin = torch_pin(root, device)
    progress(BuildEvent(zone="torch", kind="note", text=f"looking for a wheel of torch {pin} with the host's pip"))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", IMAGE_PYTHON, "-d", str(root / "wheelhouse"), f"torch=={pin}"]
    try:
        run_process(command, timeout_s=DOWNLOAD_TIMEOUT_S)
    except InfrastructureError as error:
        progress(BuildEvent(zone="torch", kind="note", text=str(error)))
    if has_torch_wheel(root, device):
        return ""
    progress(BuildEvent(zone="torch", kind="note", text=f"none there: the build asks {CPU_INDEX}"))
    return CPU_INDEX

"""What the engine's machine is called."""

from __future__ import annotations

import platform
from pathlib import Path

# Of the kernel itself, so the same inside a container.
NVIDIA_DRIVER = Path("/sys/module/nvidia/version")


def cpu_name() -> str:
    """The processor's own name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def driver_versions(told_in: Path = NVIDIA_DRIVER) -> dict[str, str]:
    """The version of the GPUs' driver, where the kernel tells of one: it has a part in what kernels compute."""
    return {"driver": told_in.read_text().strip()} if told_in.is_file() else {}

"""Where and when a figure was measured, and how figures are printed: shared by the benchmarks of this folder."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any


def machine() -> dict[str, Any]:
    """Date, processor, cores, memory and the load that others put on the machine when the measurement began."""
    memory = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "processor": models[0].split(":", 1)[1].strip() if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(int(memory["MemTotal"].split()[0]) / 1e6, 1),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile (nearest rank) and extremes, in the unit of `seconds`."""
    ordered = sorted(seconds)
    return {
        "n": len(ordered),
        "p50": median(ordered),
        "p99": ordered[max(0, -(-99 * len(ordered) // 100) - 1)],
        "min": ordered[0],
        "max": ordered[-1],
    }


def report(figures: dict[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    """The figures for machines, or `lines` for people, the machine first."""
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    where = figures["machine"]
    loads = " ".join(f"{load:.2f}" for load in where["load_average"])
    print(f"{where['date']}, {where['processor']}, {where['cores']} cores, {where['memory_gb']} GB, load {loads}")
    print(*lines, sep="\n")

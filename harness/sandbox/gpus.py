"""The GPUs of this host, as its driver tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from harness.domain.base import Frozen
from harness.errors import InfrastructureError, PrerequisiteError
from harness.sandbox.process import run_process

QUERY = ("nvidia-smi", "--query-gpu=index,uuid,memory.total,name", "--format=csv,noheader,nounits")
USE_QUERY = ("nvidia-smi", "--query-gpu=index,uuid,memory.used,utilization.gpu", "--format=csv,noheader,nounits")
QUERY_TIMEOUT_S = 30.0
MIB = 2**20


class Gpu(Frozen):
    """One GPU. `memory_mb` is in MiB, as the driver counts."""

    index: str
    uuid: str
    memory_mb: int
    name: str


class GpuUse(Frozen):
    """What all processes together use of some GPUs: memory in all, and the busiest one's share of time at work."""

    memory_mb: float
    busy_pct: float


@cache
def list_gpus() -> tuple[Gpu, ...]:
    """All GPUs of this host; none where the driver's own program is not there or fails."""
    return parse_gpus(_asked(QUERY))


def gpu_use(names: Sequence[str]) -> GpuUse | None:
    """What is used of the GPUs called `names` (UUIDs or indices); None where the driver does not tell."""
    return parse_use(_asked(USE_QUERY), names) if names else None


def _asked(query: Sequence[str]) -> str:
    try:
        result = run_process(query, timeout_s=QUERY_TIMEOUT_S)
    except (PrerequisiteError, InfrastructureError):
        return ""
    return result.stdout if result.exit_code == 0 else ""


def parse_use(table: str, names: Sequence[str]) -> GpuUse | None:
    """The same from the rows of `nvidia-smi`; None where one of the GPUs is missing or says nothing."""
    rows = [[cell.strip() for cell in line.split(",")] for line in table.splitlines()]
    found = [row for row in rows if len(row) == 4 and (row[0] in names or row[1] in names)]
    if len(found) != len(names) or not all(cell.isdigit() for row in found for cell in row[2:]):
        return None
    return GpuUse(memory_mb=sum(int(row[2]) for row in found) * MIB / 1e6, busy_pct=max(float(row[3]) for row in found))


def parse_gpus(table: str) -> tuple[Gpu, ...]:
    """The rows of `nvidia-smi --query-gpu` that are whole."""
    rows = [[cell.strip() for cell in line.split(",", 3)] for line in table.splitlines()]
    return tuple(
        Gpu(index=row[0], uuid=row[1], memory_mb=int(row[2]), name=row[3])
        for row in rows
        if len(row) == 4 and row[2].isdigit()
    )


def chosen(gpus: Sequence[Gpu], names: Sequence[str]) -> tuple[Gpu, ...]:
    """Those of `gpus` that `names` (UUIDs or indices) name."""
    return tuple(gpu for gpu in gpus if gpu.uuid in names or gpu.index in names)

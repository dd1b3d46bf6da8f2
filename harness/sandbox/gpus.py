"""The GPUs of this host, as its driver tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from harness.domain.base import Frozen
from harness.errors import InfrastructureError, PrerequisiteError
from harness.sandbox.process import run_process

QUERY = ("nvidia-smi", "--query-gpu=index,uuid,memory.total,name", "--format=csv,noheader,nounits")
QUERY_TIMEOUT_S = 30.0


class Gpu(Frozen):
    """One GPU. `memory_mb` is in MiB, as the driver counts."""

    index: str
    uuid: str
    memory_mb: int
    name: str


@cache
def list_gpus() -> tuple[Gpu, ...]:
    """All GPUs of this host; none where the driver's own program is not there or fails."""
    try:
        result = run_process(QUERY, timeout_s=QUERY_TIMEOUT_S)
    except (PrerequisiteError, InfrastructureError):
        return ()
    return parse_gpus(result.stdout) if result.exit_code == 0 else ()


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

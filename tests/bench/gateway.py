"""What the gateway adds to a call: through it and direct, side by side, against a provider on loopback; and its memory.

python tests/bench/gateway.py [--json] [--calls 300] [--streams 64]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

from gateway_process import TOKEN, GatewayProcess  # noqa: E402
from llm_upstream import upstream  # noqa: E402
from machine import machine, report, summary  # noqa: E402

WARM_UP = 20
# As images/gateway/Dockerfile has it, or the memory is not the product's.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "131072"}
PATH = "/v1/responses"
KINDS = (("1 kB", 1000, False), ("1 kB, stream", 1000, True), ("300 kB, stream", 300_000, True))


def body(prompt_bytes: int, *, is_stream: bool) -> dict[str, Any]:
    return {"model": "ok", "input": "word " * (prompt_bytes // 5), "store": False, "stream": is_stream}


def timed(client: httpx.Client, base: str, call: dict[str, Any]) -> float:
    start = time.perf_counter()
    reply = client.post(base + PATH, json=call, headers={"authorization": f"Bearer {TOKEN}"})
    assert reply.status_code == 200, reply.text
    return time.perf_counter() - start


def side_by_side(gateway: str, direct: str, call: dict[str, Any], number: int) -> dict[str, dict[str, float]]:
    """Milliseconds of calls that take turns, so that what else the machine does falls on both."""
    seconds: dict[str, list[float]] = {"gateway": [], "direct": []}
    with httpx.Client(trust_env=False, timeout=60) as client:
        for turn in range(WARM_UP + number):
            for name, base in (("gateway", gateway), ("direct", direct)):
                took = timed(client, base, call)
                if turn >= WARM_UP:
                    seconds[name].append(took * 1000)
    return {name: summary(values) for name, values in seconds.items()}


def memory_mb(pid: int) -> dict[str, float]:
    """Resident memory, now and at its peak."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: round(int(lines[name].split()[0]) / 1024, 1) for name in ("VmRSS", "VmHWM")}


def parallel(base: str, number: int, prompt_bytes: int) -> float:
    """Seconds until so many streams of 0.9 s that begin together have all ended."""
    call = {**body(prompt_bytes, is_stream=True), "model": "slow-stream"}

    def one(_number: int) -> None:
        with httpx.Client(trust_env=False, timeout=120) as client:
            timed(client, base, call)

    start = time.perf_counter()
    with ThreadPoolExecutor(number) as pool:
        list(pool.map(one, range(number)))
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--streams", type=int, default=64)
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine()}
    os.environ.update(ALLOCATOR)
    with tempfile.TemporaryDirectory() as folder, upstream() as provider:
        gateway = GatewayProcess(Path(folder) / "g", provider.url)
        start = time.perf_counter()
        gateway.start()
        figures["start_s"] = round(time.perf_counter() - start, 2)
        assert gateway.process is not None
        pid = gateway.process.pid
        try:
            gateway.open_run()
            places = {"gateway": gateway.base, "direct": provider.url}
            figures["idle_mb"] = memory_mb(pid)
            for name, size, is_stream in KINDS:
                figures[name] = side_by_side(gateway.base, provider.url, body(size, is_stream=is_stream), options.calls)
            figures["used_mb"] = memory_mb(pid)
            for size in (1000, 300_000):
                took = {name: parallel(base, options.streams, size) for name, base in places.items()}
                figures[f"parallel, {size} bytes"] = {**took, "memory_mb": memory_mb(pid)}
        finally:
            gateway.end()
    lines = [
        f"start {figures['start_s']} s; memory {figures['idle_mb']['VmRSS']} MB idle, "
        f"{figures['used_mb']['VmRSS']} MB after the calls one by one"
    ]
    for name, _, _ in KINDS:
        through, direct = figures[name]["gateway"]["p50"], figures[name]["direct"]["p50"]
        lines.append(
            f"{name}: {through:.2f} ms through it, {direct:.2f} ms direct, {through - direct:+.2f} ms (medians)"
        )
    for size in (1000, 300_000):
        took = figures[f"parallel, {size} bytes"]
        lines.append(
            f"{options.streams} streams of 0.9 s at a time, prompts of {size} bytes: {took['gateway']:.2f} s "
            f"through it, {took['direct']:.2f} s direct; memory {took['memory_mb']['VmHWM']} MB at most"
        )
    report(figures, lines, as_json=options.json)


if __name__ == "__main__":
    main()

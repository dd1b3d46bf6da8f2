"""With 60 blocked `/submit` requests and a submission being scored, `/time` and `/health` of every run answer fast."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

REQUESTS = 1000
P99_S = 0.050


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[dict]:
    command = [sys.executable, str(Path(__file__).with_name("busy_grader.py")), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.slow
def test_time_and_health_answer_while_60_wait_and_one_is_scored(busy: dict, record_property):
    connections = [
        (http.client.HTTPConnection("127.0.0.1", busy["port"], source_address=(address, 0)), token)
        for token, address in busy["runs"]
    ]
    took = []
    for n in range(REQUESTS):
        connection, token = connections[n % len(connections)]
        started = time.perf_counter()
        connection.request("GET", f"/r/{token}/{('time', 'health')[n % 2]}")
        reply = connection.getresponse()
        reply.read()
        took.append(time.perf_counter() - started)
        assert reply.status == 200
    for connection, _ in connections:
        connection.close()
    took.sort()
    p99 = took[int(0.99 * REQUESTS)]
    record_property("p99_ms", 1000 * p99)
    print(f"\nmedian {1000 * median(took):.1f} ms, p99 {1000 * p99:.1f} ms, slowest {1000 * took[-1]:.1f} ms")
    assert p99 < P99_S

"""How the inference service ends itself: at once, with the processes that its engine has started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from harness.inference.ending import END_EXIT_CODE

SERVICE = """
import subprocess, sys, threading, time
from harness.inference.ending import end_process, lead_group
lead_group()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
# As an engine that hangs: the main thread is stuck, another ends the process.
threading.Timer(0.1, end_process).start()
time.sleep(60)
"""


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_the_whole_group_ends_with_the_service() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        child = int(service.stdout.readline())
        assert service.wait(30) == END_EXIT_CODE
    deadline = time.monotonic() + 10
    while _is_running(child):
        assert time.monotonic() < deadline, "the engine's process lives on"
        time.sleep(0.02)


def test_others_of_the_group_that_started_it_live_on() -> None:
    """Without a group of its own it ends alone: a shell's other jobs are none of its business."""
    script = "from harness.inference.ending import end_process; end_process()"
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == END_EXIT_CODE
        assert os.getpgid(bystander.pid) == os.getpgid(0)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()

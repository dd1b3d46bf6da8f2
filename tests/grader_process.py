"""The grader as it runs: its own process on a home, started, killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from served import ROOT, wait_until

from harness.errors import GraderUnavailable
from harness.home import Home
from harness.runner.grader_client import GraderClient


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class GraderProcess:
    """`python -m harness.grader` with its log in the home; services see the home under its own path, or as told."""

    def __init__(self, home: Home, service_root: Path | None = None) -> None:
        self.home = home
        self.service_root = service_root or home.path
        self.port = free_port()
        self.admin = GraderClient(home, patience_s=10)
        self.log = home.path / "grader.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Seconds until it answers."""
        started = time.monotonic()
        self._spawn()
        wait_until(self._answers, 30)
        return time.monotonic() - started

    def start_in_vain(self) -> int:
        """The exit code of a process that must not come up."""
        self._spawn()
        assert self._process is not None
        return self._process.wait(20)

    def _spawn(self) -> None:
        command = [sys.executable, "-m", "harness.grader", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--service-root", str(self.service_root), "--image", "harness-grader:test"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HARNESS_")}
        environment["HARNESS_HOME"] = str(self.home.path)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        try:
            self.admin.stats()
        except GraderUnavailable:
            return False
        return True

    def kill(self) -> None:
        """As if the machine had lost it."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """An orderly end; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(20)

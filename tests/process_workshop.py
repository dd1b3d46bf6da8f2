"""A `Workshop` without Docker: data scripts and the scorer in processes of their own, for folders that are trusted."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from executor_process import executors
from served import service_process, wait_until

from harness.domain.specs import Benchmark, EvalMode
from harness.errors import PrerequisiteError
from harness.runner.data_sources import Fetch, Fetcher
from harness.sandbox.data_scripts import _RUNNER
from harness.scorer.client import ScorerClient


@dataclass(frozen=True)
class ProcessWorkshop:
    """See `harness.authoring.suite.Workshop`."""

    scratch: Path

    def why_not(self, benchmark: Benchmark) -> str:
        has_scorer = benchmark.config.eval_mode in (EvalMode.PER_SAMPLE, EvalMode.CODE)
        return "" if has_scorer else f"eval_mode {benchmark.config.eval_mode} needs an image of its own"

    def fetch(self, benchmark: Benchmark) -> Fetcher:
        def run(call: Fetch) -> None:
            # The runner script of the data container, on this machine's paths.
            code = _RUNNER.replace('"/benchmark"', repr(str(benchmark.path))).replace(
                '"/benchmark/"', repr(f"{benchmark.path}/")
            )
            environment = {"PATH": os.defpath, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
            if call.data_dir is not None:
                environment["DATA_DIR"] = str(call.data_dir)
            done = subprocess.run(
                [sys.executable, "-c", code, call.script, call.function, str(call.target)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
            if done.returncode:
                raise PrerequisiteError(f"{call.script} of {benchmark.id} failed: {done.stderr[-2000:]}")

        return run

    @contextmanager
    def scorer(self, benchmark: Benchmark) -> Iterator[ScorerClient]:
        with tempfile.TemporaryDirectory(prefix="scorer-") as folder, ExitStack() as stack:
            socket, executor = Path(folder) / "s.sock", Path(folder) / "executor" / "s.sock"
            if benchmark.config.eval_mode is EvalMode.CODE:
                executor.parent.mkdir()
                stack.enter_context(executors(executor))
            options = ("--benchmark", str(benchmark.path), "--memory-mb", "4096", "--executor", str(executor))
            stack.enter_context(service_process("harness.scorer", socket, *options))
            client = ScorerClient(socket)
            wait_until(client.is_ready)
            yield client

"""`python -m harness.scorer`: the scorer of the benchmark in /benchmark, on its unix socket."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.scorer.process import WorkerSpec
from harness.scorer.server import create_app
from harness.unix_service import serve


def main() -> None:
    """Serves until it is told to stop."""
    parser = argparse.ArgumentParser(prog="harness.scorer", description=__doc__)
    parser.add_argument("--benchmark", default=Path("/benchmark"), type=Path, help="folder that holds eval.py")
    parser.add_argument("--socket", default=Path("/sock/s.sock"), type=Path)
    parser.add_argument("--memory-mb", default=WorkerSpec.memory_mb, type=int, help="limit of one evaluation")
    parser.add_argument("--executor", default=WorkerSpec.executor, type=Path, help="socket of the executor")
    options = parser.parse_args()
    spec = WorkerSpec(options.benchmark / "eval.py", options.memory_mb, options.executor)
    serve(create_app(spec), options.socket)


if __name__ == "__main__":
    main()

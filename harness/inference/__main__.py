"""`python -m harness.inference --spec '<EngineSpec as JSON>'`: the inference service on its unix socket."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.domain.specs import EngineSpec
from harness.inference.ending import lead_group
from harness.inference.server import create_app
from harness.unix_service import serve

DEFAULT_SOCKET = Path("/sock/s.sock")


def main() -> None:
    """Serves until it is told to stop."""
    parser = argparse.ArgumentParser(prog="harness.inference", description=__doc__)
    parser.add_argument("--spec", required=True, type=EngineSpec.model_validate_json, help="EngineSpec as JSON")
    parser.add_argument("--socket", default=DEFAULT_SOCKET, type=Path)
    options = parser.parse_args()
    lead_group()
    serve(create_app(options.spec), options.socket)


if __name__ == "__main__":
    main()

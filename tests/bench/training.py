"""What the sandbox costs a training: steps a second in the agent's container of a real run, and outside of Docker.

`python tests/bench/training.py --model <folder> --data-dir <folder> [--gpu GPU-...] [--python python3] [--times 3]`

The same file (agents/training/steps.py beside this one), in turn: by `--python` on the host, and as the agent of a run
in the home that `HARNESS_HOME` names. Image and `--python` should have the same torch; both versions are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from machine import machine, report

from harness.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
AGENTS = Path(__file__).with_name("agents")
SCRIPT = AGENTS / "training" / "steps.py"
AGENT_S = 300


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--task", default="gsm8k")
    parser.add_argument("--limit", type=int, help="hidden items of the baseline; default: all")
    parser.add_argument("--gpu", default="")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter with torch and transformers, outside of Docker"
    )
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    where = machine()
    took: dict[str, list[dict[str, Any]]] = {"outside": [], "sandbox": []}
    for _ in range(options.times):
        took["outside"].append(outside(options))
        took["sandbox"].append(inside(options))
    rates = {name: median(one["steps_per_s"] for one in lines) for name, lines in took.items()}
    figures = {
        "machine": where,
        "runs": took,
        "median_steps_per_s": rates,
        "ratio": rates["sandbox"] / rates["outside"],
    }
    lines = [
        f"{name:8} {rate:8.2f} steps/s   {took[name][0]['device']}, torch {took[name][0]['torch']}"
        for name, rate in rates.items()
    ]
    report(figures, [*lines, f"sandbox / outside: {figures['ratio']:.3f}"], as_json=options.json)


def outside(options: argparse.Namespace) -> dict[str, Any]:
    environment = {**os.environ, **shape(), "MODEL_PATH": str(options.model), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([options.python, str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return _figures(done.stdout)


def inside(options: argparse.Namespace) -> dict[str, Any]:
    words = [sys.executable, "-m", "harness", "run", "--agent", "training", "--task", options.task, "--json"]
    words += ["--model", str(options.model), "--data-dir", str(options.data_dir), "--timeout", str(AGENT_S)]
    words += ["--gpus", options.gpu] if options.gpu else []
    words += ["--limit", str(options.limit)] if options.limit else []
    environment = {**os.environ, "HARNESS_AGENTS_DIR": str(AGENTS)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    if not done.stdout:
        sys.exit(done.stderr[-2000:])
    run_id = json.loads(done.stdout)["run_id"]
    return _figures(load_settings().resolved_home().run(run_id).agent_log.read_text())


def shape() -> dict[str, str]:
    """Steps and sizes, as the agent's config.yaml says."""
    variables = yaml.safe_load((AGENTS / "training" / "config.yaml").read_text())["env_vars"]
    return {name: str(value) for name, value in variables.items()}


def _figures(text: str) -> dict[str, Any]:
    line = next((line for line in text.splitlines() if line.startswith("{")), None)
    if line is None:
        sys.exit(f"no figures in: {text[-2000:]}")
    figures: dict[str, Any] = json.loads(line)
    return figures


if __name__ == "__main__":
    main()

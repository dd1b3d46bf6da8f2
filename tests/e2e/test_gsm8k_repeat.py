"""A real model on real items, twice: 100 GSM8K questions on the CPU, and every answer the same to the letter.

Needs a model folder (TEST_MODEL_DIR, for example SmolLM2-135M-Instruct) and the benchmark's files (TEST_DATA_DIR).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.live import ROOT, Harness

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(4 * 3600)]
LIMIT = 100


@pytest.fixture
def options() -> tuple[str, ...]:
    """Task, model and data of the command line."""
    model = os.environ.get("TEST_MODEL_DIR", "")
    if not (Path(model) / "config.json").is_file():
        pytest.skip("no model: set TEST_MODEL_DIR to a Hugging Face folder")
    data = Path(os.environ.get("TEST_DATA_DIR", ROOT.parent / "shared" / "data")) / "gsm8k"
    if not (data / "test.jsonl").is_file():
        pytest.skip(f"no test.jsonl of GSM8K in {data}; set TEST_DATA_DIR")
    return ("--task", "gsm8k", "--model", model, "--data-dir", str(data), "--limit", str(LIMIT))


def graded(harness: Harness, *options: str) -> dict[str, Any]:
    done = harness.call("grade", *options, "--json", timeout_s=3 * 3600)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_equal_bytes_give_equal_answers(harness: Harness, options: tuple[str, ...]) -> None:
    first = graded(harness, *options)
    again = graded(harness, *options, "--no-cache")
    print({name: again[name] for name in ("overall", "measured", "agreement")})
    assert (again["agreement"]["n_items"], again["agreement"]["differing_items"]) == (LIMIT, [])
    assert again["overall"] == first["overall"]

"""The folders that trajectories are read from, laid out for tests; and what holds for every trajectory."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.trajectory.atif import Trajectory

SAMPLES = Path(__file__).parent / "data" / "trajectories"


def gateway_folder(folder: Path, calls: list[dict[str, Any]], exchanges: list[dict[str, Any]]) -> Path:
    """What a gateway keeps of a run."""
    (folder / "exchanges").mkdir(parents=True)
    (folder / "calls.jsonl").write_text("".join(json.dumps({"ended": call}) + "\n" for call in calls))
    for exchange in exchanges:
        packed = gzip.compress(json.dumps(exchange).encode())
        (folder / "exchanges" / f"{exchange['number']:06d}.json.gz").write_bytes(packed)
    return folder


def captured(folder: Path, name: str) -> Path:
    """The same from the sample `gateway-<name>.json`."""
    sample = json.loads((SAMPLES / f"gateway-{name}.json").read_text())
    return gateway_folder(folder, sample["calls"], sample["exchanges"])


def check(trajectory: Trajectory) -> None:
    """Harbor's validators, and that it can be written as strict JSON and read again."""
    text = json.dumps(trajectory.as_json(), allow_nan=False).encode()
    assert Trajectory.model_validate_json(text) == trajectory
    assert [step.step_id for step in trajectory.steps] == list(range(1, len(trajectory.steps) + 1))
    for step in trajectory.steps:
        calls = [call.tool_call_id for call in step.tool_calls or ()]
        assert len(set(calls)) == len(calls)
        assert step.timestamp is None or datetime.fromisoformat(step.timestamp).tzinfo is not None
        if step.source != "agent":
            assert (step.model_name, step.reasoning_content, step.tool_calls, step.metrics) == (None,) * 4
        for result in step.observation.results if step.observation else ():
            assert result.source_call_id is None or result.source_call_id in calls

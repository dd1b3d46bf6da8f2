"""What is written is ATIF: every field is one of Harbor's, and its rules hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trajectory_files import SAMPLES, captured, check

from harness.trajectory import atif
from harness.trajectory.atif import SCHEMA_VERSION, Trajectory
from harness.trajectory.exchanges import read_exchanges
from harness.trajectory.native import READERS, read_native

PUBLISHED = json.loads((SAMPLES / "atif-v1.8.schema.json").read_text())
NAMES = {"TrajectoryAgent": "Agent"}
MODELS = ("TrajectoryAgent", "FinalMetrics", "Metrics", "Observation", "ObservationResult", "Step", "ToolCall")


def kinds(value: Any) -> set[str]:
    """The JSON types that a property may have."""
    if "anyOf" in value:
        return {kind for one in value["anyOf"] for kind in kinds(one)}
    return {value.get("$ref", "").rpartition("/")[2].replace("TrajectoryAgent", "Agent") or value.get("type", "const")}


@pytest.mark.parametrize("name", MODELS)
def test_fields_are_a_part_of_the_published_ones(name: str) -> None:
    ours = getattr(atif, name).model_json_schema()
    published = PUBLISHED["$defs"][NAMES.get(name, name)]
    assert ours["properties"].keys() <= published["properties"].keys()
    # What must be there is never left out.
    assert set(published["required"]) <= set(ours["required"]) if "required" in published else True
    for field, value in ours["properties"].items():
        assert kinds(value) <= kinds(published["properties"][field]), field


def test_so_are_those_of_the_whole() -> None:
    ours, published = Trajectory.model_json_schema(), PUBLISHED["$defs"]["Trajectory"]
    assert ours["properties"].keys() <= published["properties"].keys()
    assert set(ours["required"]) == set(published["required"])
    assert SCHEMA_VERSION in published["properties"]["schema_version"]["enum"]


@pytest.mark.parametrize("name", [*READERS, *(path.stem for path in SAMPLES.glob("gateway-*.json"))])
def test_the_rules_hold_for_real_logs(name: str, tmp_path: Path) -> None:
    if name.startswith("gateway-"):
        found = read_exchanges(captured(tmp_path / "g", name.removeprefix("gateway-")), name)
    else:
        (log,) = SAMPLES.glob(f"{name}.json*")
        found = read_native([log], name, name)
    assert found is not None
    check(found)

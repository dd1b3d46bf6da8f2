"""The Agent Trajectory Interchange Format, as Harbor 0.26.0 publishes it (`harbor.models.trajectories`, RFC 0001).

Names and meanings are ATIF's; of its fields those are left out that nothing here writes: images and sound, token ids,
log-probabilities, embedded trajectories of subagents. tests/data/trajectories/atif-v1.8.schema.json is the whole.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from harness.domain.base import Frozen

SCHEMA_VERSION: Literal["ATIF-v1.8"] = "ATIF-v1.8"
Source = Literal["system", "user", "agent"]
Extra = dict[str, Any]


class ToolCall(Frozen):
    """A tool call within a step."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra | None = None


class ObservationResult(Frozen):
    """What came of a call; without `source_call_id` of something that was no call."""

    source_call_id: str | None = None
    content: str | None = None
    extra: Extra | None = None


class Observation(Frozen):
    """The results of a step's calls."""

    results: tuple[ObservationResult, ...]


class Metrics(Frozen):
    """Tokens and cost of a step; `prompt_tokens` include the cached ones."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: Extra | None = None


class Step(Frozen):
    """One turn; `model_name`, `reasoning_content`, `tool_calls` and `metrics` are of the agent's only."""

    step_id: int = Field(ge=1)
    timestamp: str | None = None
    source: Source
    model_name: str | None = None
    message: str
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    extra: Extra | None = None


class TrajectoryAgent(Frozen):
    """Which agent it was; `version` is empty where its log does not tell."""

    name: str
    version: str
    model_name: str | None = None
    extra: Extra | None = None


class FinalMetrics(Frozen):
    """Sums of the whole trajectory."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = Field(None, ge=0)
    extra: Extra | None = None


class Trajectory(Frozen):
    """A whole trajectory; steps are numbered from 1."""

    schema_version: Literal["ATIF-v1.8"] = SCHEMA_VERSION
    session_id: str | None = None
    agent: TrajectoryAgent
    steps: tuple[Step, ...] = Field(min_length=1)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    extra: Extra | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, without what is not known."""
        return self.model_dump(mode="json", exclude_none=True)

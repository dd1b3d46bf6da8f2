"""What a user asks for: the options of `harness run` or `harness grade`, before anything is looked up."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from harness.domain.base import Frozen
from harness.domain.llm import LlmBudget, Provider
from harness.domain.specs import EvalMode, Grading, NetworkPolicy, Protocol

# The record of a run has a deadline. Nothing ends a grading but the limits of its evaluation, so its own is far away.
GRADING_LIMIT_S = 30 * 24 * 3600


class RunRequest(Frozen):
    """Options of `harness run`; None means the benchmark's default. A `grading` has no agent."""

    agent: str = ""
    task: str
    model: str | None = None
    data_dir: Path | None = None
    eval_mode: EvalMode | None = None
    timeout_s: int | None = Field(None, gt=0)
    protocol: Protocol = Protocol.STANDARD
    limit: int | None = Field(None, gt=0)
    max_submissions: int | None = Field(None, gt=0)
    memory_mb: int | None = Field(None, gt=0)
    disk_mb: int | None = Field(None, gt=0)
    cpus: float | None = Field(None, gt=0)
    gpus: tuple[str, ...] = ()
    seed: int = 0
    port: int = Field(5000, gt=0, lt=65536)
    grading: Grading | None = None
    # The driver LLM; what is not named comes from settings, the agent's folder, or the server.
    llm_provider: Provider | None = None
    llm_url: str | None = None
    llm_model: str | None = None
    llm_key_file: Path | None = None
    llm_budget: LlmBudget = LlmBudget()
    llm_tools: tuple[str, ...] = ()
    network: NetworkPolicy = NetworkPolicy.NONE
    allowed_hosts: tuple[str, ...] = ()
    continue_min_left_s: int | None = Field(None, gt=0)

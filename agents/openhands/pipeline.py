"""The pipeline: iterations until the time, their number or the agent's patience ends; goes on where it was ended."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

from grading import Grader, Refused
from journal import Journal
from limits import Limits
from session import STATE, LlmFailed, Session
from stages import Pipeline, Place
from training import gpu_count

# In a row; each has been tried again by the gateway and by OpenHands.
LLM_FAILURES = 3


def main() -> int:
    """0: it went as far as it could; 1: the LLM failed."""
    limits, workspace = Limits.of(os.environ), Path(os.environ["WORKSPACE"])
    task = Path(os.environ["PROMPT_FILE"]).read_text()
    pipeline = Pipeline(
        Place(workspace, task, os.environ["TRAINING_PYTHON"], gpu_count()),
        limits,
        Grader(os.environ["GRADING_SERVER_URL"]),
        Journal(STATE / "pipeline.json", workspace / "summary.md"),
        lambda: Session(uuid.uuid4(), limits.steps_per_turn),
    )
    os.chdir(workspace)
    try:
        reason = _iterate(pipeline)
    except LlmFailed as error:
        print(f"pipeline: the LLM failed: {error}", file=sys.stderr, flush=True)
        return 1
    except Refused as error:
        reason = f"the grader answers no more: {error}"
    print(f"pipeline: ended after {len(pipeline.journal.entries)} iterations: {reason}", flush=True)
    return 0


def _iterate(pipeline: Pipeline) -> str:
    """Why it ended."""
    failures = 0
    while pipeline.journal.next_iteration <= pipeline.limits.iterations:
        if not pipeline.limits.has_time_for_another(pipeline.grader.remaining_s()):
            return "the time is nearly up"
        print(f"pipeline: iteration {pipeline.journal.next_iteration}", flush=True)
        try:
            if reason := pipeline.iterate():
                return reason
            failures = 0
        except LlmFailed as error:
            failures += 1
            if error.is_final or failures == LLM_FAILURES:
                raise
            print(f"pipeline: the LLM failed, the iteration is begun anew: {error}", file=sys.stderr, flush=True)
    return "all iterations are used up"


if __name__ == "__main__":
    sys.exit(main())

"""Whether an agent that ended early is taken up again (`--continue`), and with what it begins."""

from __future__ import annotations

from harness.domain.runs import EndedBy
from harness.domain.specs import RunPlan
from harness.runner.attempt import Attempt
from harness.runner.objects import AgentEnd

# Ends that are the agent's own, and no limit's: what its command line does when it takes its turn for over, or fails.
EARLY = (EndedBy.FINISHED, EndedBy.CRASH)
MAX_IDLE_PARTS = 2


def why_not(plan: RunPlan, end: AgentEnd, next_part: Attempt, left_s: float) -> str | None:
    """None where the agent goes on with `next_part`; else words for a person, empty where there is nothing to say."""
    if plan.continuation is None or end.ended_by not in EARLY:
        return ""
    if plan.agent.config.resume is None:
        return f"agent {plan.agent.id} is not continued: its config.yaml names no `resume` script"
    if left_s <= plan.continuation.min_left_s:
        return f"not continued, {max(0, left_s):.0f} s are left"
    if next_part.continuation > plan.continuation.max_times:
        return f"not continued again after {plan.continuation.max_times} times"
    if next_part.idle_parts >= MAX_IDLE_PARTS:
        return f"not continued again: the last {MAX_IDLE_PARTS} times it called no LLM and submitted nothing"
    return None

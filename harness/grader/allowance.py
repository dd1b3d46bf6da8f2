"""How much of a run's checkpoints is kept: by the plan's limit, or as much as its quota of submissions can need."""

from __future__ import annotations

from harness.domain.specs import Protocol, RunPlan
from harness.grader.admission import snapshot_key
from harness.grader.base_model import BaseModelInfo
from harness.grader.snapshots import Allowance
from harness.store.database import Database
from harness.store.records_queue import tree_hashes_of

# A BF16 base model whose checkpoints are saved in F32: the whole quota fits.
SIZES_PER_SUBMISSION = 2
# The paper protocol has no quota; see docs/decisions/0013-paper-has-a-ceiling.md.
PAPER_FACTOR = 5
LEAST_BYTES = 10**9


def allowance_of(db: Database, plan: RunPlan, base: BaseModelInfo) -> Allowance:
    """What a run may have in the store, and what it has there."""
    held = frozenset(snapshot_key(tree_hash, base) for tree_hash in tree_hashes_of(db, plan.run_id))
    return Allowance(held, limit_bytes(plan, base))


def limit_bytes(plan: RunPlan, base: BaseModelInfo) -> int:
    """The limit of all of a run's checkpoints together."""
    if plan.limits.snapshots_mb is not None:
        return plan.limits.snapshots_mb * 10**6
    size = base.data_bytes + base.companion_bytes
    factor = PAPER_FACTOR if plan.protocol is Protocol.PAPER else 1
    return max(LEAST_BYTES, SIZES_PER_SUBMISSION * plan.limits.max_submissions * factor * size)

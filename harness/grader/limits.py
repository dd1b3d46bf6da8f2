"""How long engine and scorer may take: what the answers can need, at the pace that the baseline was measured with.

A wall limit must never touch a score, so an ordinary slow machine has to stay far below it; what reaches it hangs.
"""

from __future__ import annotations

from harness.domain.specs import EngineSpec
from harness.store.database import Database
from harness.store.records_evaluations import get_baseline, get_evaluation

EVALUATION_FLOOR_S = 900.0
CONTROL_FLOOR_S = 60.0
# For the single token of `/validate`.
CHECK_LIMIT_S = 300.0
# A cold engine takes a minute or two, and one that is built anew between loads another.
LOAD_FLOOR_S = 900.0
SLOWEST_READ_BYTES_PER_S = 20e6
MARGIN = 10
# An evaluator reads an answer in far less, and a program that it runs has a limit of its own.
SCORE_FLOOR_S = 600.0
SCORE_S_PER_ANSWER = 5.0
# Assumed until the baseline has been measured, far below what was seen: 15 tokens a second of a model of 135 million
# parameters in batches of four on two busy cores, 6,000 of the same model on an H200; larger ones have less.
SLOWEST_TOKENS_PER_S = 2.0
SLOWEST_GPU_TOKENS_PER_S = 50.0


def limit_s(*, n_tokens: int, pace: float | None, floor_s: float, slowest: float = SLOWEST_TOKENS_PER_S) -> float:
    """Seconds for at most `n_tokens` of answers; `pace` and `slowest` are in tokens a second."""
    needed = n_tokens / slowest if pace is None else MARGIN * n_tokens / pace
    return max(floor_s, needed)


def slowest_pace(engine: EngineSpec) -> float:
    """What is assumed of an engine whose pace has not been measured: a hang on a GPU must not hold it for days."""
    return SLOWEST_GPU_TOKENS_PER_S if engine.device.startswith("gpu") else SLOWEST_TOKENS_PER_S


def load_limit_s(model_bytes: int) -> float:
    """Seconds for a load of weights of this size, from a slow disk, into an engine that may have to be built first."""
    return LOAD_FLOOR_S + model_bytes / SLOWEST_READ_BYTES_PER_S


def score_limit_s(n_answers: int) -> float:
    """Seconds that the scorer may take for so many answers (items times samples)."""
    return max(SCORE_FLOOR_S, SCORE_S_PER_ANSWER * n_answers)


def measured_pace(db: Database, run_id: str, n_samples: int = 1) -> float | None:
    """Tokens a second of the run's baseline, all answers counted; None before it is scored, or if it was silent."""
    baseline = get_baseline(db, run_id)
    if baseline is None or baseline.evaluation_id is None:
        return None
    evaluation = get_evaluation(db, baseline.evaluation_id)
    n_tokens = n_samples * evaluation.mean_output_tokens * evaluation.scores.overall.n_items
    return n_tokens / evaluation.generate_seconds if n_tokens > 0 and evaluation.generate_seconds > 0 else None

"""How far the pipeline goes: the settings of config.yaml, and how the time that is left is divided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# From the end of a training to the end of the run: finding the checkpoint, and its copy at the grader.
LONGEST_RESERVE_S = 600.0
RESERVE_SHARE = 0.1
SHORTEST_TRAINING_S = 10.0


@dataclass(frozen=True)
class Limits:
    """What config.yaml sets; times in seconds."""

    iterations: int
    fixes: int
    steps_per_turn: int
    training_s: float
    iteration_s: float
    log_characters: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Limits:
        """The limits in `environment`."""
        return cls(
            iterations=int(environment["MAX_ITERATIONS"]),
            fixes=int(environment["MAX_FIXES"]),
            steps_per_turn=int(environment["MAX_STEPS_PER_TURN"]),
            training_s=float(environment["TRAINING_TIMEOUT_S"]),
            iteration_s=float(environment["MIN_ITERATION_S"]),
            log_characters=int(environment["LOG_CHARACTERS"]),
        )

    def training_time_s(self, remaining_s: float) -> float:
        """How long a training that starts now may take."""
        reserve_s = min(LONGEST_RESERVE_S, RESERVE_SHARE * remaining_s)
        return max(SHORTEST_TRAINING_S, min(self.training_s, remaining_s - reserve_s))

    def has_time_for_another(self, remaining_s: float) -> bool:
        """Whether an iteration that starts now can come to a submission."""
        return remaining_s > self.iteration_s

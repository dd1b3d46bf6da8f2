"""The smallest improvement that a benchmark of so many items can show; standard library only."""

from __future__ import annotations

import math
from statistics import NormalDist

SIGNIFICANCE, POWER = 0.05, 0.8


def detection_power(n_items: int, gain: float, discordance: float) -> float:
    """Probability that McNemar's two-sided test at 5 % finds an improvement of `gain` (0 to 1) over `n_items` items.

    `discordance` is the share of items on which the two differ. Normal approximation of Connor (1987, Biometrics 43,
    p. 209): Phi((gain sqrt(n) - z sqrt(discordance)) / sqrt(discordance - gain^2)).

    Raises:
        ValueError: a gain that this discordance does not allow.
    """
    if not 0 < gain <= discordance <= 1:
        raise ValueError("needs 0 < gain <= discordance <= 1")
    z = NormalDist().inv_cdf(1 - SIGNIFICANCE / 2)
    reach = gain * math.sqrt(n_items) - z * math.sqrt(discordance)
    spread = math.sqrt(max(0.0, discordance - gain * gain))
    return NormalDist().cdf(reach / spread) if spread > 0 else float(reach >= 0)


def unrelated_discordance(gain: float) -> float:
    """The most that two models that do not disagree on purpose differ: (1 + gain^2) / 2.

    Their answers are then independent and as near to half right as the gain allows, p = (1 - gain) / 2 and
    (1 + gain) / 2. A checkpoint trained from the base model is closer to it than that, and smaller gains show.
    """
    return (1 + gain * gain) / 2


def detectable_points(n_items: int, discordance: float | None = None) -> float | None:
    """Smallest improvement in points found with 80 % power by a two-sided test at 5 % on `n_items` paired items.

    `discordance` None: the worst case of two unrelated models (`unrelated_discordance`).

    Returns None where the items are too few to find any improvement that this discordance allows.
    """

    def power(gain: float) -> float:
        return detection_power(n_items, gain, unrelated_discordance(gain) if discordance is None else discordance)

    low, high = 1e-9, 1.0 if discordance is None else discordance
    if n_items < 1 or power(high) < POWER:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return 100 * high

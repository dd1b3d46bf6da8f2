"""The smallest improvement that can be detected, against published sample sizes and the bootstrap itself."""

from __future__ import annotations

import numpy as np
import pytest

from harness.statistics.paired import mcnemar_p_value
from harness.statistics.power import detectable_points, detection_power, unrelated_discordance


# Connor, "Sample size for testing differences in proportions for the paired-sample design", Biometrics 43 (1987),
# p. 209, as worked out at powersamplesize (McNemar's Z-test, two-sided): p01 0.45 and p10 0.05 need 23 pairs at 80 %.
def test_published_sample_size() -> None:
    assert detection_power(23, gain=0.40, discordance=0.50) >= 0.8 > detection_power(22, gain=0.40, discordance=0.50)


def test_it_inverts_the_power() -> None:
    for n in (82, 660, 1319):
        for discordance in (None, 0.2, 0.5):
            points = detectable_points(n, discordance)
            assert points is not None
            gain = points / 100
            assert detection_power(n, gain, discordance or unrelated_discordance(gain)) == pytest.approx(0.8)


def test_worst_case_needs_more_than_a_likely_one() -> None:
    worst, likely = detectable_points(660), detectable_points(660, 0.2)
    assert worst is not None
    assert likely is not None
    # (1.96 + 0.84) sqrt(discordance / n), near enough where the gain is small.
    assert worst == pytest.approx(280 * (0.5 / 660) ** 0.5, rel=0.02)
    assert likely == pytest.approx(280 * (0.2 / 660) ** 0.5, rel=0.02)


@pytest.mark.parametrize(("n", "discordance"), [(0, None), (1, None), (3, None), (30, 0.2)])
def test_too_few_items_can_show_nothing(n: int, discordance: float | None) -> None:
    assert detectable_points(n, discordance) is None


def test_more_items_show_less() -> None:
    found = [detectable_points(n) for n in (10, 50, 82, 660, 1319)]
    assert found == sorted(found, key=lambda points: -(points or 0))


@pytest.mark.parametrize(("gain", "discordance"), [(0.0, 0.5), (0.5, 0.4), (0.1, 1.5)])
def test_impossible_gains_are_refused(gain: float, discordance: float) -> None:
    with pytest.raises(ValueError):
        detection_power(100, gain, discordance)


def test_so_many_simulated_evaluations_do_find_it() -> None:
    n, discordance = 400, 0.3
    points = detectable_points(n, discordance)
    assert points is not None
    won, lost = (discordance + points / 100) / 2, (discordance - points / 100) / 2
    generator = np.random.default_rng(3)
    counts = generator.multinomial(n, [won, lost, 1 - discordance], size=400)
    found = sum(mcnemar_p_value(int(w), int(b)) < 0.05 for w, b, _ in counts)
    # The exact test is a little more careful than the approximation.
    assert 0.70 < found / 400 < 0.86

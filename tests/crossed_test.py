"""``experiments/crossed.py``: its intervals cover what they are of."""

import numpy as np
import pytest

from experiments import crossed


def test_the_components_of_a_sum_are_those_of_its_terms():
    of_groups, of_seeds = np.array([0.0, 3.0, 6.0]), np.array([1.0, 2.0])
    components = crossed.analyse(of_groups[:, None] + of_seeds)
    assert components.interval[0] == 4.5
    assert (components.groups, components.residual) == (3.0, 0.0)
    assert components.seeds == pytest.approx(0.5**0.5)


def test_without_effects_the_mean_has_the_error_of_the_rest():
    values = np.array([[1.0, -1.0], [-1.0, 1.0]])
    components = crossed.analyse(values)
    assert (components.groups, components.seeds, components.residual) == (0.0, 0.0, 2.0)
    assert components.interval[1] < -1 < 1 < components.interval[2]


@pytest.mark.parametrize('deviations', [(1, 1, 1), (0, 0, 1), (1, 0, 0.3), (0, 1, 0.3)])
def test_the_interval_covers_the_mean_of_new_groups_and_seeds(deviations):
    rng, covered = np.random.default_rng(0), []
    for _ in range(600):
        shapes = ((5, 1), (1, 5), (5, 5))
        drawn = zip(deviations, shapes, strict=True)
        values = sum(scale * rng.normal(size=shape) for scale, shape in drawn)
        _, low, high = crossed.analyse(values).interval
        covered.append(low <= 0 <= high)
    assert 0.92 <= np.mean(covered) <= 1

"""Estimators that are no curve, where they are one: what they follow there."""

import functools

import jax
import numpy as np
import pytest

from passk_jax.advantages import (
    ESTIMATORS,
    curve_weight,
    make_estimator,
    tabulated_curve,
)
from tests.advantages.curve_weight_test import CORRECT, NO_CURVES, assert_follows
from tests.readme_test import list_explained

# One problem for each outcome of four responses.
RNG = np.random.default_rng(0)
INPUTS = {
    'mean_entropy': RNG.random(len(CORRECT)),
    'answers': RNG.integers(0, 3, CORRECT.shape),
    'log_probs': -RNG.random(CORRECT.shape),
    'lengths': np.full(CORRECT.shape, 7),
    # Problems with 1, 2 and 3 right responses weigh 1, 3/8 and 1/9.
    'history': np.array([[9, 5, 3, 1, 9]]),
}


def curve(name, **params):
    table = tabulated_curve(name, num_rollouts=4, **params)
    return np.array([table['positive'], table['negative']])


# Half of all these responses are right: mean and sigma of the step are 1/2. Of the 16
# ways to be right, 8 have a variance of 3/16 and 6 one of 1/4.
SIGMA = np.sqrt((8 * 3 / 16 + 6 / 4) / 16)
CASES = [
    ('adaptive', {'high_entropy_fraction': 0.0}, lambda: curve('pass_at_k', k=2)),
    ('adaptive', {'high_entropy_fraction': 1.0}, lambda: curve('pass_at_1')),
    ('set_level', {'set_value': 'max'}, lambda: curve('canonical_k', k=2)),
    ('unlikeliness', {'rank_penalty': 0.0}, lambda: curve('pass_at_1')),
    (
        'differential_smoothing',
        {'smoothing_correct': 0.0, 'smoothing_wrong': 0.0},
        lambda: curve('pass_at_1'),
    ),
    ('curverl', {}, lambda: np.array([0, 1, 3 / 8, 1 / 9, 0]) * curve('dr_grpo')),
    # All responses have the same length.
    ('opo', {}, lambda: curve('dr_grpo')),
    ('reinforce_plus_plus', {}, lambda: 2 * curve('rloo')),
    ('reinforce_plus_plus_baseline', {}, lambda: curve('dr_grpo') / SIGMA),
]


@pytest.mark.parametrize(('name', 'params', 'reduced'), CASES)
def test_reduced_to_a_curve_it_follows_that(name, params, reduced):
    params = {'k': 2} | params if name in ('adaptive', 'set_level') else params
    estimate = jax.jit(make_estimator(name, num_rollouts=4, **params))
    advantages = estimate(CORRECT * 1.0, CORRECT, **INPUTS)
    assert_follows(
        advantages, functools.partial(curve_weight.weight_of_curve, *reduced())
    )


def test_there_is_a_case_of_each_that_the_page_of_papers_explains():
    """Those that sample groups are in estimators_groupings_test.py."""
    sampled = {name for name, row in ESTIMATORS.items() if not row.exchangeable}
    assert {name for name, *_ in CASES} == {*NO_CURVES} & {*list_explained()} - sampled

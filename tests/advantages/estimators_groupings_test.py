"""Estimators that sample groups, over all groups that they could have sampled.

On average they are the set-level advantage of the highest reward, but for a factor that
the sigma of a grouping makes depend on how many responses are right.
"""

import functools
import itertools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from passk_jax.advantages import make_estimator
from passk_jax.advantages.curve_weight import weight_of_curve
from tests.advantages import oracles
from tests.advantages.curve_weight_test import CORRECT, assert_follows
from tests.advantages.estimators_test import as_rewards, run
from tests.slow import slow_rows


def full_sampling(correct, *, k):
    """In every order of the responses: ``[G, P, N]``, and members ``[G, M, N]``."""
    num_rollouts = correct.shape[1]
    orders = np.array(list(itertools.permutations(range(num_rollouts))))
    ordered = correct[:, orders].swapaxes(0, 1)
    advantages = run('full_sampling', ordered.reshape(-1, num_rollouts), k=k)
    back = np.argsort(orders, axis=1)[:, None]
    advantages = np.take_along_axis(advantages.reshape(ordered.shape), back, axis=2)
    groups = orders[:, : num_rollouts // k * k].reshape(len(orders), -1, k)
    return advantages, members_of(groups, num_rollouts)


def bootstrap_sampling(correct, *, k, num_groups, aggregation='sum'):
    """The same in every draw of groups."""
    num_problems, num_rollouts = correct.shape
    draws = itertools.product(oracles.all_groups(num_rollouts, k), repeat=num_groups)
    members = members_of(np.array(list(draws)), num_rollouts)
    words = jnp.asarray(members, jnp.uint32)

    def bits(key, shape):
        """The words of a draw, whose number is the key; the members' are larger."""
        return words[jax.random.key_data(key)[1]].reshape(shape)

    numbers = np.repeat(np.arange(len(members), dtype=np.uint32), num_problems)
    keys = jax.random.wrap_key_data(np.stack([0 * numbers, numbers], axis=1))
    every = np.tile(correct, (len(members), 1))
    params = {'k': k, 'num_groups': num_groups, 'aggregation': aggregation}
    estimate = make_estimator('bootstrap_sampling', num_rollouts=num_rollouts, **params)
    with mock.patch.object(jax.random, 'bits', bits):
        advantages = np.asarray(estimate(as_rewards(every), every, key=keys))
    return advantages.reshape(len(members), *correct.shape), members


def members_of(groups, num_rollouts):
    """``[G, M, N]`` bool of ``[G, M, k]`` responses."""
    return (groups[..., None] == np.arange(num_rollouts)).any(axis=2)


# N and parameters, and the factor. Of M groups, the other M - 1 are the baseline; the
# groups that are drawn may also have the response itself.
FULL = [
    (n, {'k': k}, (n // k - 1) / n)
    # One of five responses is in no group.
    for n, k in ((4, 2), (5, 2), (6, 2), (6, 3))
]
SUM = [
    (n, {'k': k, 'num_groups': m}, (m - 1) * (n - k) / n**2)
    for n, k, m in ((4, 2, 3), (5, 3, 2))
]
MEAN = [
    (n, params | {'aggregation': 'mean'}, (1 - x - (1 - x) ** m) / params['k'])
    for n, params, _ in SUM
    for x, m in [(params['k'] / n, params['num_groups'])]
]


@pytest.mark.parametrize(
    ('sample', 'num_rollouts', 'params', 'factor'),
    [(full_sampling, *case) for case in FULL]
    + slow_rows(
        [(bootstrap_sampling, *case) for case in SUM + MEAN],
        quick=[(bootstrap_sampling, *case) for case in MEAN],
    ),
)
def test_without_its_sigma_the_mean_is_a_multiple_of_set_level_and_canonical_k(
    sample, num_rollouts, params, factor
):
    correct = np.array(list(itertools.product([False, True], repeat=num_rollouts)))
    advantages, members = sample(correct, **params)
    passed = (members[:, None] & correct[:, None]).any(axis=-1)
    mean = (advantages * passed.std(axis=-1)[..., None]).mean(axis=0)
    for name, options in (('set_level', {'set_value': 'max'}), ('canonical_k', {})):
        want = factor * run(name, correct, k=params['k'], **options)
        assert np.abs(want).max() > 0.05
        np.testing.assert_allclose(mean, want, atol=1e-5)


def bootstrap_curve(num_rollouts, *, k, num_groups):
    """The mean with its sigma: sqrt((M - g) / g) for a group that passes with g - 1."""
    wrong = num_rollouts - np.arange(num_rollouts + 1)
    fails = stats.hypergeom(num_rollouts, wrong, k).pmf(k)
    indices = np.arange(num_groups)[:, None]
    of_group = np.sqrt((num_groups - 1 - indices) / (1 + indices))
    chances = stats.binom.pmf(indices, num_groups - 1, 1 - fails)
    positive = num_groups * k / num_rollouts * (chances * of_group).sum(axis=0)
    return positive, -(num_rollouts - wrong) / np.maximum(wrong, 1) * positive


@pytest.mark.parametrize(
    ('sample', 'params', 'weight'),
    [
        # With two groups sigma is 1/2 or 0, so this follows half of pass@2.
        (full_sampling, {'k': 2}, lambda p: 1 - p),
        *(
            (
                bootstrap_sampling,
                params,
                functools.partial(weight_of_curve, *bootstrap_curve(4, **params)),
            )
            for params in ({'k': 2, 'num_groups': 3}, {'k': 3, 'num_groups': 4})
        ),
    ],
)
def test_the_mean_over_all_groups_has_a_weight(sample, params, weight):
    advantages, _ = sample(CORRECT, **params)
    assert_follows(advantages.mean(axis=0), weight)

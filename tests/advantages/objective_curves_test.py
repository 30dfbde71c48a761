"""Each curve against what it is by definition, response by response."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from passk_jax.advantages import make_estimator, objective_curves
from tests.advantages import oracles
from tests.shape_checks import call_checked

N = 7


def centered(rewards):
    return rewards - rewards.mean()


def of_each(function):
    """The definition of all responses, of that of one."""
    return lambda rewards, **params: np.array(
        [function(rewards, i, **params) for i in range(len(rewards))]
    )


def less_others(rewards, i):
    return rewards[i] - np.delete(rewards, i).mean()


def canonical(rewards, i, *, k):
    with_it, without = oracles.with_and_without(rewards, k, i)
    return k * (with_it.mean() - without.mean())


def mixed(rewards, i, *, pass_weights):
    terms = enumerate(pass_weights, start=1)
    return sum(weight * canonical(rewards, i, k=k) for k, weight in terms)


def credit(rewards, i, *, k):
    groups = len(oracles.all_groups(len(rewards), k))
    return len(rewards) * oracles.with_and_without(rewards, k, i)[0].sum() / groups


def added(rewards, i, *, k):
    groups = len(oracles.all_groups(len(rewards), k))
    return len(rewards) * sum(oracles.gained(rewards, k, i)) / groups


def added_to_all(rewards, i):
    return rewards.max() - np.delete(rewards, i).max()


def over_the_mean(rewards):
    return centered(rewards) / rewards.mean() if rewards.any() else 0 * rewards


def series(rewards, i, *, order):
    """The derivative of pass@j / j is the chance that j - 1 others are wrong."""
    other_rewards = np.delete(rewards, i)
    failures = [
        np.mean(
            [not any(subset) for subset in itertools.combinations(other_rewards, j - 1)]
        )
        for j in range(2, order + 1)
    ]
    return rewards[i] - (1 - rewards[i]) * sum(failures)


def tilted(rewards, *, beta):
    shares = np.exp(beta * rewards)
    return (shares / shares.mean() - 1) / beta


def focal(rewards, *, gamma):
    return (1 - rewards.mean()) ** gamma * oracles.normalized(rewards)


DEFINITIONS = [
    ('rloo', of_each(less_others), {}),
    ('dr_grpo', centered, {}),
    *(('canonical_k', of_each(canonical), {'k': k}) for k in range(1, N)),
    *(
        ('mixture', of_each(mixed), {'pass_weights': weights})
        for weights in ((1,), (0.5, 0, -2.0), (1.0,) * (N - 1))
    ),
    *(('pkpo', of_each(credit), {'k': k}) for k in range(1, N + 1)),
    *(('pkpo_loo', of_each(added), {'k': k}) for k in range(1, N + 1)),
    ('leave_one_out_max', of_each(added_to_all), {}),
    ('maxrl', over_the_mean, {}),
    *(('maclaurin', of_each(series), {'order': j}) for j in range(1, N + 1)),
    *(('rs_grpo', tilted, {'beta': beta}) for beta in (1e-3, 2.0, 8.0)),
    *(('f_grpo', focal, {'gamma': gamma}) for gamma in (0, 0.5, 3.0)),
    ('nsr', lambda rewards: rewards - 1, {}),
    ('w_reinforce', lambda r, *, weight: weight * r - (1 - r), {'weight': 0.25}),
]


@pytest.mark.parametrize(('name', 'definition', 'params'), DEFINITIONS)
def test_an_advantage_is_what_its_definition_says(name, definition, params):
    rng = np.random.default_rng(0)
    correct = rng.permuted(np.arange(N) < np.arange(N + 1)[:, None], axis=1)
    estimate = jax.jit(make_estimator(name, num_rollouts=N, **params))
    got = np.asarray(estimate(correct * 1.0, correct))
    want = [definition(row * 1.0, **params) for row in correct]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


CURVES = {
    'canonical_k': {'k': 4},
    'mixture': {'pass_weights': (0.5, 0, 2)},
    'pkpo': {'k': 4},
    'pkpo_loo': {'k': 4},
    'leave_one_out_max': {},
    'maxrl': {},
    'maclaurin': {'order': 4},
    'rs_grpo': {'beta': 2.0},
    'f_grpo': {'gamma': 0.5},
    'nsr': {},
    'w_reinforce': {'weight': 0.1},
}


def curve_of(name, num_rollouts, **overrides):
    curve, params = getattr(objective_curves, name), CURVES[name] | overrides
    compute = functools.partial(curve, num_rollouts=num_rollouts, **params)
    return jax.device_get(jax.jit(compute)(np.arange(num_rollouts + 1)))


@pytest.mark.parametrize('name', CURVES)
def test_curves_are_float32_of_every_shape(name):
    curve, params = getattr(objective_curves, name), CURVES[name]
    for shape in ((), (3,), (2, 3)):
        bound = functools.partial(curve, **params)
        checked = functools.partial(call_checked, bound, num_rollouts=8)
        jax.eval_shape(checked, jax.ShapeDtypeStruct(shape, jnp.int32))
    want = curve_of(name, 8)
    at = jax.jit(jax.vmap(lambda c: curve(c, num_rollouts=8, **params)))
    for expected, other in zip(want, at(jnp.arange(9)), strict=True):
        assert expected.dtype == np.float32
        np.testing.assert_array_equal(expected, other)


@pytest.mark.parametrize('name', CURVES)
def test_no_value_overflows_however_large_the_numbers(name):
    large = {
        'k': 1024,
        'order': 2048,
        'beta': 1e30,
        'gamma': 1e30,
        'weight': 1e30,
        'pass_weights': (1e30,) * 3,
    }
    overrides = {parameter: large[parameter] for parameter in CURVES[name]}
    for values in (curve_of(name, 2048), curve_of(name, 2048, **overrides)):
        assert np.all(np.isfinite(values))


@pytest.mark.parametrize('num_rollouts', [2, 3, 6])
def test_no_other_centered_curve_follows_pass_at_k_and_none_does_at_n(num_rollouts):
    """A curve and its weight determine each other, if the curve is centered."""
    n, counts = num_rollouts, np.arange(num_rollouts + 1)
    # A centered curve is a sum of these: 1 for a right response, at one c below N.
    positive = np.eye(n + 1)[1:n]
    negative = -positive * counts / np.maximum(n - counts, 1)
    gaps = positive[:, 1:] - negative[:, :-1]
    # Their weights: polynomials of a degree below N, at N places.
    p = np.linspace(0, 1, n)
    weights = stats.binom.pmf(np.arange(n), n - 1, p[:, None]) @ gaps.T
    assert np.linalg.matrix_rank(weights) == n - 1
    for k in range(1, n + 1):
        want = k * (1 - p) ** (k - 1)
        only, *_ = np.linalg.lstsq(weights, want)
        assert np.allclose(weights @ only, want, atol=1e-9) == (k < n)
        if k < n:
            got, _ = curve_of('canonical_k', n, k=k)
            np.testing.assert_allclose(got, [0, *only, 0], rtol=1e-5, atol=1e-6)


def test_a_small_beta_is_dr_grpo_and_no_gamma_is_grpo():
    accuracy = np.arange(9) / 8
    positive, negative = curve_of('rs_grpo', 8, beta=1e-30)
    np.testing.assert_allclose(positive[1:], 1 - accuracy[1:], rtol=1e-6)
    np.testing.assert_allclose(negative[:-1], -accuracy[:-1], rtol=1e-6)
    grpo = objective_curves.f_grpo(jnp.arange(9), num_rollouts=8, gamma=0)
    want = np.sqrt((1 - accuracy[1:]) / accuracy[1:])
    np.testing.assert_allclose(grpo[0][1:], want, rtol=1e-6)


@pytest.mark.parametrize('k', [0, 4, 5, 2.0, True])
def test_a_canonical_group_leaves_a_response_for_the_baseline(k):
    with pytest.raises(ValueError, match='k='):
        curve_of('canonical_k', 4, k=k)
    with pytest.raises(ValueError, match='k=4 must be smaller than num_rollouts=4'):
        curve_of('canonical_k', 4, k=4)


@pytest.mark.parametrize('weights', [(), (1.0, 1.0, 1.0, 1.0)])
def test_a_mixture_has_a_weight_and_fewer_than_n(weights):
    with pytest.raises(ValueError, match='must be from 1 to 3 numbers'):
        curve_of('mixture', 4, pass_weights=weights)


@pytest.mark.parametrize('name', CURVES)
def test_a_bad_number_of_rollouts_is_a_value_error(name):
    for num_rollouts in (0, -3, 4.0, True):
        with pytest.raises(ValueError, match='num_rollouts='):
            getattr(objective_curves, name)(
                jnp.array([0]), num_rollouts=num_rollouts, **CURVES[name]
            )

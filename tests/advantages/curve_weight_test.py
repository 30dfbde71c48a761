"""What a curve optimizes: its gradient by enumeration, and its objective."""

import collections
import fractions
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from passk_jax.advantages import (
    ESTIMATORS,
    effective_weight,
    estimator_parameters,
    implied_objective,
    make_estimator,
    matching_scale,
    tabulated_curve,
)
from tests.advantages.other_values import choose_other_values

P = np.array([0.0, 0.01, 0.1, 0.3, 0.75, 1.0])


def parameters_of(name, k):
    return {'k': k} if 'k' in estimator_parameters(name) else {}


def is_curve(name: str) -> bool:
    """Whether a response's advantage is that of its verdict and of their number."""
    row, (P, N) = ESTIMATORS[name], (64, 6)
    rng = np.random.default_rng(0)
    correct = rng.random((P, N)) < rng.random((P, 1))
    inputs = {
        'key': jax.random.key(0),
        'mean_entropy': rng.random(P),
        'lengths': rng.integers(1, 99, (P, N)),
        'answers': rng.integers(0, 3, (P, N)),
        'log_probs': -rng.uniform(1, 9, (P, N)),
        'history': np.ones((3, N + 1), np.int32),
    }
    estimate = make_estimator(name, num_rollouts=N, **parameters_of(name, 2))
    advantages = np.asarray(estimate(correct * 1.0, correct, **inputs))
    kinds = collections.defaultdict(list)
    for right, count, advantage in zip(
        correct.ravel(),
        np.repeat(correct.sum(axis=1), N),
        advantages.ravel(),
        strict=True,
    ):
        kinds[right, count].append(advantage)
    alike = all(np.ptp(values) < 1e-5 for values in kinds.values())
    # Earlier steps and other problems would be other inputs.
    return alike and not row.has_memory and not row.pools_problems


CURVES = [name for name in ESTIMATORS if is_curve(name)]
NO_CURVES = [name for name in ESTIMATORS if name not in CURVES]


def weight_of(name, p, num_rollouts=32, **params):
    return effective_weight(name, num_rollouts=num_rollouts, p=p, **params)


def objective_of(name, p, num_rollouts=32, **params):
    return implied_objective(name, num_rollouts=num_rollouts, p=p, **params)


def pass_at(k, p):
    return 1 - (1 - np.asarray(p)) ** k


LOGITS = np.array([0.3, -0.5, 0.9, 0.1])
POLICY = np.exp(LOGITS) / np.exp(LOGITS).sum()
RIGHT = np.array([True, False, False, True])
# Every four responses that the policy can give.
DRAWN = np.array(list(itertools.product(range(4), repeat=4)))
CORRECT = RIGHT[DRAWN]


def assert_follows(advantages, weight_at):
    """The expected gradient of the policy is a weight times that of p.

    Args:
        advantages: of the responses ``DRAWN``.
        weight_at: from p to the weight.
    """
    scores = np.eye(4)[DRAWN] - POLICY
    gradients = (np.float64(advantages)[..., None] * scores).mean(axis=1)
    expected = POLICY[DRAWN].prod(axis=1) @ gradients
    p = POLICY[RIGHT].sum()
    want = weight_at(p) * POLICY * (RIGHT - p)
    assert np.abs(want).max() > 1e-3
    np.testing.assert_allclose(expected, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize('name', CURVES)
def test_the_expected_gradient_of_a_policy_is_the_weight_times_that_of_p(name):
    params = parameters_of(name, 2) | ({'order': 3} if name == 'maclaurin' else {})
    estimate = jax.jit(make_estimator(name, num_rollouts=4, **params))
    advantages = estimate(CORRECT * 1.0, CORRECT)
    assert_follows(advantages, lambda p: weight_of(name, p, num_rollouts=4, **params))


@pytest.mark.parametrize('name', CURVES)
def test_the_weight_is_the_mean_gap_over_the_other_responses(name):
    curve = tabulated_curve(name, num_rollouts=16, **parameters_of(name, 4))
    gaps = np.array(curve['positive'])[1:] - np.array(curve['negative'])[:-1]
    want = [stats.binom.pmf(np.arange(16), 15, p) @ gaps for p in P]
    got = weight_of(name, P, num_rollouts=16, **parameters_of(name, 4))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)
    at = np.array(curve['accuracy'])
    want = weight_of(name, at, num_rollouts=16, **parameters_of(name, 4))
    np.testing.assert_allclose(curve['weight'], want, rtol=1e-6)


@pytest.mark.parametrize('name', CURVES)
def test_the_objective_is_the_integral_of_the_weight(name):
    params = parameters_of(name, 4) | {'num_rollouts': 16}

    def of_p(p):
        return effective_weight(name, p=p, **params)

    for p in (0.02, 0.3, 0.9):
        want, _ = integrate.quad(of_p, 0, p, epsabs=1e-12, epsrel=1e-10)
        got = implied_objective(name, p=p, **params)
        assert got == pytest.approx(want, rel=1e-9)
    assert implied_objective(name, p=0.0, **params) == 0


@pytest.mark.parametrize(('num_rollouts', 'k'), [(8, 3), (32, 16), (128, 32)])
def test_the_forms_of_pass_at_k_have_its_slope_where_it_is_small_too(num_rollouts, k):
    p = np.array([0.01, 0.3, 0.5])
    want = k * (1 - p) ** (k - 1)
    for name in ('canonical_k', 'pkpo', 'pkpo_loo'):
        got = effective_weight(name, num_rollouts=num_rollouts, p=p, k=k)
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=name)


# Weights at N = 32 and p = .01, .1 and .3, from a table of two digits.
WEIGHTS = [
    ('pass_at_1', {}, (5.1, 3.1, 2.1)),
    ('pass_at_k', {'k': 4}, (2.4, 1.4, 0.73)),
    ('pass_at_k', {'k': 8}, (1.6, 0.79, 0.27)),
    ('maxrl', {}, (26.8, 9.6, 3.3)),
    ('canonical_k', {'k': 8}, (7.5, 3.8, 0.66)),
]


@pytest.mark.parametrize(('name', 'params', 'want'), WEIGHTS)
def test_at_one_learning_rate_estimators_push_at_different_rates(name, params, want):
    got = weight_of(name, np.array([0.01, 0.1, 0.3]), **params)
    np.testing.assert_allclose(got, want, rtol=0.025)


OBJECTIVES = {n: row.objective for n, row in ESTIMATORS.items() if row.objective}
EXACT = [name for name, row in OBJECTIVES.items() if not row.at_infinity]
LIMITS = [name for name, row in OBJECTIVES.items() if row.at_infinity]


def parameter_sets(name):
    """The defaults, and other values."""
    changed = choose_other_values()
    for values in ({}, changed):
        yield {
            p.name: values.get(p.name, p.default) for p in ESTIMATORS[name].parameters
        }


@pytest.mark.parametrize('num_rollouts', [6, 32])
@pytest.mark.parametrize('name', EXACT)
def test_the_objective_at_finite_n_is_the_one_that_the_row_declares(name, num_rollouts):
    for params in parameter_sets(name):
        got = objective_of(name, P, num_rollouts=num_rollouts, **params)
        want = OBJECTIVES[name].value(P, num_rollouts, **params)
        want = want - OBJECTIVES[name].value(0.0, num_rollouts, **params)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize('name', LIMITS)
def test_the_objective_tends_to_the_one_that_the_row_declares(name):
    """Of the gain from a tenth to a half, and closer with four times as many."""
    ends = np.array([0.1, 0.5])
    for params in parameter_sets(name):
        off = []
        for n in (64, 256):
            want = np.diff(OBJECTIVES[name].value(ends, n, **params))[0]
            gain = np.diff(objective_of(name, ends, num_rollouts=n, **params))[0]
            off.append(abs(gain / want - 1))
        assert off[1] < 0.02
        assert off[1] < max(0.5 * off[0], 1e-6)


def test_only_a_curve_declares_an_objective():
    assert OBJECTIVES.keys() <= {*CURVES}


def test_identities_between_the_curves():
    def curve(name, **params):
        table = tabulated_curve(name, num_rollouts=16, **params)
        return np.array([table['positive'], table['negative']])

    canonical = {k: curve('canonical_k', k=k) for k in range(1, 16)}
    np.testing.assert_allclose(canonical[1], curve('rloo'), atol=1e-5)
    sums = sum(canonical[k] / k for k in canonical)
    np.testing.assert_allclose(sums, curve('maxrl'), rtol=1e-5, atol=1e-5)
    weights = tuple(1 / k for k in range(1, 16))
    mixed = curve('mixture', pass_weights=weights)
    np.testing.assert_allclose(mixed, curve('maxrl'), rtol=1e-5, atol=1e-5)
    # The probability that a group is all wrong.
    of_wrong = stats.hypergeom(16, np.arange(16, -1, -1), 4).pmf(4)
    got = curve('pass_at_k', k=4) * np.sqrt(of_wrong * (1 - of_wrong))
    want = canonical[4] * (16 - 4) / (4 * 16)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_number_an_array_and_a_traced_value_give_the_same():
    params = {'num_rollouts': 8, 'k': 2}
    got = effective_weight('pass_at_k', p=P, **params)
    assert got.shape == P.shape
    for p, value in zip(P, got, strict=True):
        assert effective_weight('pass_at_k', p=float(p), **params) == value
    table = effective_weight('pass_at_k', p=P.reshape(2, 3), **params)
    np.testing.assert_array_equal(table, got.reshape(2, 3))

    def objective(p):
        return implied_objective('pass_at_k', p=p, **params)

    slopes = jax.jit(jax.vmap(jax.grad(objective)))(jnp.asarray(P, jnp.float32))
    np.testing.assert_allclose(slopes, got, rtol=1e-5, atol=1e-6)


def test_a_traced_whole_number_is_a_probability_too():
    weight = jax.jit(lambda p: weight_of('pass_at_1', p, 4))
    assert weight(1) == pytest.approx(3**0.5)


@pytest.mark.parametrize('num_rollouts', [33, 513])
def test_adaptive_is_no_curve_however_many_the_rollouts(num_rollouts):
    params = {'num_rollouts': num_rollouts, 'k': 4}
    with pytest.raises(ValueError, match='adaptive is not a curve'):
        effective_weight('adaptive', p=0.1, **params)
    pass_at_k_scale = matching_scale('pass_at_k', p=0.1, **params)
    # A mean of both weights has the mean of their shares.
    want = 2 / (1 + 1 / pass_at_k_scale)
    assert matching_scale('adaptive', p=0.1, **params) == pytest.approx(want, rel=1e-5)


def test_many_rollouts_lose_no_digits():
    got = objective_of('canonical_k', P, num_rollouts=1024, k=64)
    np.testing.assert_allclose(got, pass_at(64, P), rtol=1e-6)


@pytest.mark.parametrize('p', [-0.1, 1.5, float('nan'), [0.5, 2.0], 'a', '0.3', 0.5j])
def test_what_is_no_probability_is_refused(p):
    for call in (weight_of, objective_of):
        with pytest.raises(ValueError, match=r'must be an array of probabilities, in'):
            call('rloo', p)


@pytest.mark.parametrize('name', NO_CURVES)
def test_an_estimator_that_is_no_curve_is_refused(name):
    no_curve, memory = 'is not a curve: .*tabulated_curve', 'has no fixed weight'
    row = ESTIMATORS[name]
    words = memory if row.has_memory or row.pools_problems else no_curve
    for call in (weight_of, objective_of):
        with pytest.raises(ValueError, match=f'{name} {words}'):
            call(name, 0.5, **parameters_of(name, 4))


def test_one_problem_of_many_rollouts_does_not_hide_what_else_is_read():
    with pytest.raises(ValueError, match='opo is not a curve'):
        weight_of('opo', 0.5, num_rollouts=1025)


def test_a_bad_name_or_parameter_is_refused_as_by_make_estimator():
    with pytest.raises(ValueError, match="unknown estimator 'passk'"):
        weight_of('passk', 0.5)
    with pytest.raises(ValueError, match='unknown estimator None'):
        weight_of(None, 0.5)
    with pytest.raises(ValueError, match=r'k=33 must be a whole number in \[1'):
        weight_of('pass_at_k', 0.5, k=33)
    with pytest.raises(ValueError, match='beta=0 must be a number above 0'):
        weight_of('rs_grpo', 0.5, beta=0)


def test_an_estimator_may_be_a_curve_for_some_parameters():
    """With sets of the highest reward, and with groups of one."""
    got = weight_of('set_level', P, k=4, set_value='max')
    np.testing.assert_allclose(got, weight_of('canonical_k', P, k=4), rtol=1e-6)
    got = weight_of('full_sampling', P, k=1)
    np.testing.assert_allclose(got, weight_of('pass_at_1', P), rtol=1e-6)


@pytest.mark.parametrize(
    ('name', 'params'),
    [('pass_at_k', {'k': 4}), ('maxrl', {}), ('canonical_k', {'k': 3}), ('rloo', {})],
)
def test_matched_weights_are_equal_at_p(name, params):
    size = {'num_rollouts': 16}
    for p in (0.01, 0.1, 0.7):
        scale = matching_scale(name, p=p, **size, **params)
        weight = scale * effective_weight(name, p=p, **size, **params)
        assert weight == pytest.approx(effective_weight('pass_at_1', p=p, **size))


def test_the_mean_is_matched_where_chance_forms_the_groups():
    params = {'k': 4, 'num_groups': 500, 'aggregation': 'mean'}
    drawn = matching_scale('bootstrap_sampling', num_rollouts=16, p=0.2, **params)
    exact = matching_scale('pass_at_k', num_rollouts=16, p=0.2, k=4)
    assert drawn == pytest.approx(exact, rel=0.02)


def test_a_sum_over_groups_has_as_many_times_the_weight_as_a_response_has_groups():
    params = {'k': 4, 'num_groups': 500, 'aggregation': 'sum'}
    drawn = matching_scale('bootstrap_sampling', num_rollouts=16, p=0.2, **params)
    exact = matching_scale('pass_at_k', num_rollouts=16, p=0.2, k=4)
    assert drawn == pytest.approx(exact / (500 * 4 / 16), rel=0.02)


def test_no_weight_is_matched_that_depends_on_which_answers_are_equal():
    size = {'num_rollouts': 16, 'p': 0.1, 'k': 4}
    with pytest.raises(ValueError, match='set_level is not a curve'):
        matching_scale('set_level', **size)
    scale = matching_scale('set_level', set_value='max', **size)
    assert scale == pytest.approx(matching_scale('canonical_k', **size))


@pytest.mark.parametrize('p', [0.0, 1.0, -0.5, math.nan, 'x', None, np.ones(2)])
def test_a_weight_is_matched_between_0_and_1(p):
    with pytest.raises(ValueError, match=r'must be a number in \(0, 1\)'):
        matching_scale('maxrl', num_rollouts=8, p=p)


@pytest.mark.parametrize('kind', [fractions.Fraction, jnp.bfloat16, np.array])
def test_any_kind_of_number_is_a_probability(kind):
    want = weight_of('maxrl', 0.25, num_rollouts=8)
    assert weight_of('maxrl', kind(0.25), num_rollouts=8) == want
    scale = matching_scale('maxrl', num_rollouts=8, p=kind(0.25))
    assert scale == matching_scale('maxrl', num_rollouts=8, p=0.25)


def test_a_weight_of_0_cannot_be_matched():
    with pytest.raises(ValueError, match=r'has the weight 0 at p=0\.5: no scale'):
        matching_scale('without_easy', num_rollouts=8, p=0.5, k=2, easy_threshold=0.0)
    # It would scale every advantage to 0, and without a word.
    with pytest.raises(ValueError, match=r'no scale makes it that of pass_at_1, 0$'):
        matching_scale('nsr', num_rollouts=1, p=0.5)


def test_a_weight_that_float32_could_not_scale_cannot_be_matched():
    # An infinite scale would make NaN of each advantage of 0.
    with pytest.raises(ValueError, match=r'has the weight 1e-63 at p=0\.9: no scale'):
        matching_scale('leave_one_out_max', num_rollouts=64, p=0.9)
    assert matching_scale('leave_one_out_max', num_rollouts=64, p=0.1) > 1

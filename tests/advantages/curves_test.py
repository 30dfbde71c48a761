import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax.advantages import curves, objective_curves
from passk_jax.errors import InputError
from tests.advantages import oracles
from tests.shape_checks import call_checked

CURVES = {
    'pass_at_1': (curves.pass_at_1, {}),
    'pass_at_k': (curves.pass_at_k, {'k': 4}),
    'without_easy': (curves.without_easy, {'k': 4, 'easy_threshold': 0.5}),
    'piecewise': (curves.piecewise, {'k': 4, 'switch_threshold': 0.5}),
    'exceeding': (curves.exceeding, {'k': 4}),
    'combination': (curves.combination, {'k': 4}),
}


@functools.cache
def curve_of(name: str, num_rollouts: int, **overrides):
    """A curve at every count, by one program."""
    curve, params = CURVES[name]
    compute = functools.partial(curve, num_rollouts=num_rollouts, **params | overrides)
    return jax.device_get(jax.jit(compute)(np.arange(num_rollouts + 1)))


def eta_of(name: str, num_rollouts: int, **overrides) -> np.ndarray:
    eta = functools.partial(curves.sum_abs_advantage, num_rollouts=num_rollouts)
    values = curve_of(name, num_rollouts, **overrides)
    return np.asarray(jax.jit(eta)(np.arange(num_rollouts + 1), *values))


@pytest.mark.parametrize('name', CURVES)
def test_curves_are_float32_and_the_same_jitted_and_vmapped(name):
    curve, params = CURVES[name]

    def of(num_correct):
        return curve(num_correct, num_rollouts=32, **params)

    num_correct = jnp.arange(33)
    eager = of(num_correct)
    for other in (jax.jit(of)(num_correct), jax.jit(jax.vmap(of))(num_correct)):
        for a, b in zip(eager, other, strict=True):
            assert a.dtype == b.dtype == jnp.float32
            np.testing.assert_allclose(a, b, rtol=1e-6)


ALL_CURVES = {
    **CURVES,
    'canonical_k': (objective_curves.canonical_k, {'k': 4}),
    'mixture': (objective_curves.mixture, {'pass_weights': (1.0,)}),
    'maxrl': (objective_curves.maxrl, {}),
    'w_reinforce': (objective_curves.w_reinforce, {'weight': 0.1}),
}


@pytest.mark.parametrize('name', ALL_CURVES)
def test_impossible_counts_are_refused(name):
    curve, params = ALL_CURVES[name]
    for bad, words in (
        (40, r'^num_correct=40 must lie in \[0, num_rollouts=32\]$'),
        (np.array([0, 3, -1]), r'^num_correct=-1 must lie in'),
        (np.array([2**32 + 1]), r'^num_correct=4294967297 must lie in'),
        (2**40, '^num_correct=1099511627776 must be whole numbers'),
        (8.5, '^num_correct.dtype=float32 must be of whole numbers'),
        (jnp.array([8.0]), '^num_correct.dtype=float32 must be of whole numbers'),
        (np.array([True]), '^num_correct.dtype=bool must be of whole numbers'),
        ('x', "^num_correct='x' must be whole numbers"),
        (None, '^num_correct=None must be whole numbers'),
    ):
        with pytest.raises(InputError, match=words):
            curve(bad, num_rollouts=32, **params)
    with pytest.raises(InputError, match='float32 must be of whole numbers'):
        jax.jit(lambda c: curve(c, num_rollouts=32, **params))(8.0)
    for good in (0, 32, np.int8(3), [1, 2], np.array([], int)):
        curve(good, num_rollouts=32, **params)


def test_eta_refuses_impossible_counts():
    values = np.zeros(2), np.zeros(2)
    for bad in ([1, 33], [-1, 2], [0.5, 2.0]):
        with pytest.raises(InputError, match='num_correct'):
            curves.sum_abs_advantage(np.array(bad), *values, num_rollouts=32)


@pytest.mark.parametrize('name', CURVES)
def test_annotated_shapes_hold(name):
    curve, params = CURVES[name]
    for shape in ((), (3,), (2, 3)):
        num_correct = jax.ShapeDtypeStruct(shape, jnp.int32)
        checked = functools.partial(call_checked, curve, num_rollouts=8, **params)
        jax.eval_shape(checked, num_correct)


@pytest.mark.parametrize(('num_rollouts', 'k'), [(2048, 1024), (2048, 1), (4096, 8)])
@pytest.mark.parametrize('name', CURVES)
def test_no_count_overflows_however_large_n_and_k(name, num_rollouts, k):
    overrides = {'k': k} if 'k' in CURVES[name][1] else {}
    for values in curve_of(name, num_rollouts, **overrides):
        assert np.all(np.isfinite(values))


@pytest.mark.parametrize(
    ('num_rollouts', 'k'),
    [(n, k) for n in (1, 2, 5, 8, 13, 16) for k in (1, 2, 3, 5, 8, 16) if k <= n],
)
def test_pass_at_k_is_the_mean_over_every_group(num_rollouts, k):
    positive, negative = curve_of('pass_at_k', num_rollouts, k=k)
    for num_correct in range(num_rollouts + 1):
        correct = np.arange(num_rollouts) < num_correct
        want = oracles.advantages_over_all_groups(correct, k)
        got = np.where(correct, positive[num_correct], negative[num_correct])
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ('num_rollouts', 'k'), [(32, 4), (32, 8), (32, 16), (128, 8), (1024, 32), (1024, 1)]
)
def test_pass_at_k_matches_exact_rationals(num_rollouts, k):
    got = np.stack(curve_of('pass_at_k', num_rollouts, k=k), axis=-1)
    want = [
        oracles.exact_curve(num_correct, num_rollouts, k)
        for num_correct in range(num_rollouts + 1)
    ]
    # atol: below 1e-38 the probability of an all-wrong group leaves float32.
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-18)


@pytest.mark.parametrize('num_rollouts', [2, 7, 32, 1024])
def test_pass_at_k_of_one_is_pass_at_1_is_grpo(num_rollouts):
    of_k = curve_of('pass_at_k', num_rollouts, k=1)
    of_1 = curve_of('pass_at_1', num_rollouts)
    for a, b in zip(of_k, of_1, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    rewards = (np.arange(num_rollouts) < num_rollouts // 2).astype(np.float64)
    grpo = oracles.normalized(rewards)
    np.testing.assert_allclose(of_1[0][num_rollouts // 2], grpo[0], rtol=1e-6)
    np.testing.assert_allclose(of_1[1][num_rollouts // 2], grpo[-1], rtol=1e-6)


@pytest.mark.parametrize(('num_rollouts', 'k'), [(5, 2), (16, 4), (12, 12), (9, 1)])
def test_odds_are_ratios_of_binomials(num_rollouts, k):
    inside, outside = curves.group_odds(num_rollouts=num_rollouts, k=k)
    total = math.comb(num_rollouts, k)
    for j in range(num_rollouts + 1):
        assert inside[j] == pytest.approx(math.comb(j, k) / total, rel=1e-14)
        want = (total - math.comb(j, k)) / total
        assert outside[j] == pytest.approx(want, rel=1e-14)


def test_float32_log_gamma_binomials_would_not_do():
    # Why group_odds multiplies; how wrong they are depends on the platform's lgamma.
    def log_binomial(n, k):
        gammaln = jax.scipy.special.gammaln
        n, k = jnp.float32(n), jnp.float32(k)
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    num_wrong = np.arange(8, 33)
    of = jax.jit(lambda w: jnp.exp(log_binomial(w, 8) - log_binomial(32, 8)))
    got = np.asarray(of(num_wrong))
    want = np.array([math.comb(w, 8) / math.comb(32, 8) for w in num_wrong])
    ours = curves.group_odds(num_rollouts=32, k=8)[0][8:].astype(np.float32)
    assert np.max(np.abs(ours / want - 1)) < 1e-6
    assert np.max(np.abs(got / want - 1)) > 1e-6


@pytest.mark.parametrize(
    ('name', 'overrides', 'peak', 'value'),
    [
        ('pass_at_1', {}, 16, 32.0),
        ('pass_at_k', {'k': 1}, 16, 32.0),
        ('pass_at_k', {'k': 4}, 8, 10.36),
        ('pass_at_k', {'k': 8}, 4, 5.18),
        ('pass_at_k', {'k': 16}, 2, 2.26),
        ('exceeding', {'k': 4}, 1, 5.22),
        ('exceeding', {'k': 8}, 1, 3.42),
    ],
)
def test_eta_peaks_where_the_equations_say_at_32_rollouts(name, overrides, peak, value):
    # The paper's "Pass@8 ... 25 %" is k = 4 by its own equations.
    eta = eta_of(name, 32, **overrides)
    assert int(np.argmax(eta)) == peak
    assert eta[peak] == pytest.approx(value, abs=0.005)


def test_eta_of_pass_at_1_is_symmetric_and_that_of_pass_at_k_leans_to_hard():
    eta = eta_of('pass_at_1', 32)
    np.testing.assert_allclose(eta, eta[::-1], rtol=1e-6)
    eta = eta_of('pass_at_k', 32, k=4)
    assert np.all(eta[1:16] > eta[31:16:-1])


def test_without_easy_is_pass_at_k_up_to_the_threshold_and_zero_above():
    of_k = curve_of('pass_at_k', 5, k=2)
    # 3 of 5 is exactly the threshold 0.6, which does not exceed it.
    cut = curve_of('without_easy', 5, k=2, easy_threshold=0.6)
    for a, b in zip(cut, of_k, strict=True):
        np.testing.assert_array_equal(a[:4], b[:4])
        assert np.all(a[4:] == 0)
    np.testing.assert_array_equal(
        curve_of('without_easy', 32, k=4, easy_threshold=1.0),
        curve_of('pass_at_k', 32, k=4),
    )
    np.testing.assert_array_equal(
        curve_of('without_easy', 32, k=4, easy_threshold=0.0), np.zeros((2, 33))
    )


@pytest.mark.parametrize(
    ('num_correct', 'num_rollouts'), [(3, 5), (7, 10), (11, 29), (1, 49), (29, 100)]
)
def test_an_accuracy_equal_to_a_threshold_is_not_above_it(num_correct, num_rollouts):
    threshold = num_correct / num_rollouts
    of_1 = curve_of('pass_at_1', num_rollouts)[0]
    of_k = curve_of('pass_at_k', num_rollouts, k=2)[0]
    of_both = curve_of('piecewise', num_rollouts, k=2, switch_threshold=threshold)[0]
    got = of_both[num_correct : num_correct + 2]
    want = [of_1[num_correct], of_k[num_correct + 1]]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_piecewise_is_pass_at_1_on_hard_problems_and_pass_at_k_on_easy_ones():
    of_1, of_k = curve_of('pass_at_1', 32), curve_of('pass_at_k', 32, k=8)
    got = curve_of('piecewise', 32, k=8, switch_threshold=0.25)
    for side in (0, 1):
        np.testing.assert_array_equal(got[side][:9], of_1[side][:9])
        np.testing.assert_array_equal(got[side][9:], of_k[side][9:])


def test_exceeding_scales_by_four_over_ten_natural_logs():
    of_k, got = curve_of('pass_at_k', 32, k=4), curve_of('exceeding', 32, k=4)
    for num_correct in range(1, 29):
        factor = 4 / (10 * math.log(num_correct + 0.5))
        for side in (0, 1):
            want = factor * of_k[side][num_correct]
            np.testing.assert_allclose(got[side][num_correct], want, rtol=1e-6)


def test_combination_weighs_pass_at_k_by_the_accuracy():
    of_1, of_k = curve_of('pass_at_1', 8), curve_of('pass_at_k', 8, k=2)
    got = curve_of('combination', 8, k=2)
    for side in (0, 1):
        want = 0.25 * of_k[side][2] + 0.75 * of_1[side][2]
        np.testing.assert_allclose(got[side][2], want, rtol=1e-6)


def test_sum_abs_advantage_counts_both_kinds_of_response():
    eta = curves.sum_abs_advantage(
        jnp.array([1, 3]),
        jnp.array([2.0, 1.0]),
        jnp.array([-0.5, -3.0]),
        num_rollouts=4,
    )
    np.testing.assert_allclose(eta, [3.5, 6.0])


@pytest.mark.parametrize('k', [0, -1, 5, 2.0, True, '2', None])
@pytest.mark.parametrize('name', [n for n in CURVES if 'k' in CURVES[n][1]])
def test_a_bad_group_size_is_a_value_error_that_names_k(name, k):
    with pytest.raises(ValueError, match='k='):
        curve_of(name, 4, k=k)


@pytest.mark.parametrize('num_rollouts', [0, -3, 4.0, True])
def test_a_bad_number_of_rollouts_is_a_value_error(num_rollouts):
    with pytest.raises(ValueError, match='num_rollouts='):
        curves.pass_at_1(jnp.array([0]), num_rollouts=num_rollouts)

"""Curves of every estimator, made by the estimator itself."""

import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.advantages import (
    ESTIMATORS,
    Estimator,
    curves,
    estimator_parameters,
    tabulated_curve,
    tabulation,
)
from passk_jax.advantages.tabulation import check_signal


def tabulate(name, num_rollouts=32, **params):
    if 'k' in estimator_parameters(name):
        params = {'k': 4} | params
    return tabulated_curve(name, num_rollouts=num_rollouts, **params)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_every_estimator_has_a_curve_and_says_how_it_was_made(name):
    curve = tabulate(name, num_rollouts=8)
    np.testing.assert_array_equal(curve['accuracy'], np.arange(9) / 8)
    for column in ('positive', 'negative', 'eta', 'weight'):
        assert len(curve[column]) == 9
        assert np.all(np.isfinite(curve[column]))
    # Nobody is there to have them.
    assert curve['positive'][0] == curve['negative'][-1] == 0
    assert curve['note'].startswith('Each point is the mean over 64 problems')
    grouped = 'k' in estimator_parameters(name)
    assert curve['name'] == (f'{name} (k=4)' if grouped else name)


def test_the_curves_of_a_run_of_several_stages_are_computed_once():
    """Each report draws all of them, and a run writes many."""
    names = ('pass_at_k', 'pass_at_1', 'rloo', 'maxrl')
    drawn = [tabulate(name, num_rollouts=4) for name in names]
    before = tabulation._means.cache_info().misses
    assert [tabulate(name, num_rollouts=4) for name in names] == drawn
    assert tabulation._means.cache_info().misses == before


@pytest.mark.parametrize(
    ('name', 'curve', 'params'),
    [
        ('pass_at_1', curves.pass_at_1, {}),
        ('pass_at_k', curves.pass_at_k, {'k': 8}),
        ('pass_at_k_real', curves.pass_at_k, {'k': 4}),
        ('piecewise', curves.piecewise, {'k': 4, 'switch_threshold': 0.25}),
    ],
)
def test_it_is_the_analytical_curve_where_there_is_one(name, curve, params):
    got = tabulate(name, **params)
    want = curve(jnp.arange(33), num_rollouts=32, **params)
    # Nobody is there to get the advantage of a right response if none is right.
    np.testing.assert_allclose(got['positive'][1:], want[0][1:], atol=1e-5)
    np.testing.assert_allclose(got['negative'][:-1], want[1][:-1], atol=1e-5)
    eta = curves.sum_abs_advantage(jnp.arange(33), *want, num_rollouts=32)
    np.testing.assert_allclose(got['eta'], eta, atol=1e-4)


def test_full_sampling_is_the_mean_over_the_places_of_right_responses():
    """Two groups of two. Of two right ones a third of the places is in one group."""
    curve = tabulate('full_sampling', num_rollouts=4, k=2)
    np.testing.assert_allclose(curve['positive'], [0, 1, 1 / 3, 0, 0], atol=0.15)
    np.testing.assert_allclose(curve['negative'], [0, -1 / 3, -1 / 3, 0, 0], atol=0.15)
    assert 'scatter' in curve['note']


def test_bootstrap_sampling_is_the_mean_over_its_draws():
    """Its sum is k times its mean; see test_the_bootstrap_sum_is_k_times in full."""
    of_sum = np.array(tabulate('bootstrap_sampling')['eta'])
    of_mean = np.array(tabulate('bootstrap_sampling', aggregation='mean')['eta'])
    np.testing.assert_allclose(of_sum[2:16] / of_mean[2:16], 4, atol=0.3)
    want = np.array(tabulate('pass_at_k')['eta'])
    np.testing.assert_allclose(of_mean[2:8], want[2:8], rtol=0.1)
    assert 'scatter' in tabulate('bootstrap_sampling')['note']


def test_adaptive_is_the_mean_of_its_two_curves():
    curve = tabulate('adaptive', high_entropy_fraction=0.25)
    of_1, of_k = tabulate('pass_at_1'), tabulate('pass_at_k')
    for column in ('positive', 'negative'):
        want = 0.25 * np.array(of_1[column]) + 0.75 * np.array(of_k[column])
        np.testing.assert_allclose(curve[column], want, atol=1e-5)
    assert 'with equal mean_entropy. Problems of high entropy' in curve['note']


def test_a_curve_does_not_change_from_call_to_call_but_with_its_row(monkeypatch):
    curve = tabulate('bootstrap_sampling', num_rollouts=4)
    tabulate('pass_at_1', num_rollouts=4)
    assert tabulate('bootstrap_sampling', num_rollouts=4) == curve
    for value in (1.0, 2.0):
        compute = lambda inputs, value=value: inputs.correct * value  # noqa: E731
        monkeypatch.setitem(ESTIMATORS, 'new', Estimator(compute, ('correct',)))
        assert tabulate('new', num_rollouts=2)['positive'] == [0, value, value]


def test_a_bad_parameter_is_refused():
    with pytest.raises(ValueError, match=r'k=5 must be .* \[1, num_rollouts=4\]'):
        tabulated_curve('pass_at_k', num_rollouts=4, k=5)
    with pytest.raises(ValueError, match=r'k=\[2\] must be'):
        tabulated_curve('pass_at_k', num_rollouts=4, k=[2])


def test_a_single_response_to_a_problem_has_a_curve():
    assert tabulate('pass_at_1', num_rollouts=1)['eta'] == [0, 0]


ALWAYS_ZERO = [
    *(('pass_at_k', 4, {'k': 4}), ('exceeding', 4, {'k': 4})),
    *(('without_easy', 4, {'k': 4}), ('pass_at_k_real', 4, {'k': 4})),
    # One group: nothing to compare it with.
    *(('full_sampling', 6, {'k': 4}), ('bootstrap_sampling', 8, {'num_groups': 1})),
    *(('pass_at_1', 1, {}), ('without_easy', 8, {'easy_threshold': 0.0})),
    *(('rloo', 1, {}), ('maxrl', 1, {}), ('mixture', 8, {'pass_weights': (0, 0)})),
]


@pytest.mark.parametrize(('name', 'num_rollouts', 'params'), ALWAYS_ZERO)
def test_an_estimator_without_any_signal_is_refused(name, num_rollouts, params):
    params = {'k': 4} | params if 'k' in estimator_parameters(name) else params
    message = rf"name='{name}'.*num_rollouts={num_rollouts} gives every response"
    with pytest.raises(ValueError, match=message):
        check_signal(name, num_rollouts=num_rollouts, **params)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_an_estimator_with_a_signal_is_not(name):
    params = {'k': 4} if 'k' in estimator_parameters(name) else {}
    check_signal(name, num_rollouts=8, **params)


@pytest.mark.parametrize('name', ['nsr', 'w_reinforce', 'leave_one_out_max'])
def test_a_single_response_is_a_signal_without_a_baseline(name):
    check_signal(name, num_rollouts=1)


def test_a_signal_of_lengths_alone_is_one(monkeypatch):
    compute = lambda x: x.lengths - x.lengths.mean(axis=1, keepdims=True)  # noqa: E731
    monkeypatch.setitem(ESTIMATORS, 'new', Estimator(compute, ('lengths',)))
    check_signal('new', num_rollouts=2)
    np.testing.assert_array_equal(tabulate('new', num_rollouts=2)['eta'], 0)

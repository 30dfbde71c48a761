"""CurveRL beside lists of pass rates, and the memory that it reads."""

import jax
import numpy as np
import pytest

from passk_jax.advantages import (
    Inputs,
    effective_weight,
    history,
    implied_objective,
    make_estimator,
    matching_scale,
    remember,
    tabulated_curve,
)
from passk_jax.errors import InputError
from tests.shape_checks import call_checked


def by_lists(batches: list[np.ndarray], window: int) -> list[np.ndarray]:
    """The advantages of each batch, from the pass rates of those before, one by one."""
    past, advantages = [], []
    for correct in batches:
        rates = [row.mean() for row in correct]
        current = [rate for rate in rates if 0 < rate < 1]
        late = [rate for step in past[-window:] for rate in step]
        reference = late or current
        of_batch = np.zeros(correct.shape)
        for problem, rate in enumerate(rates):
            here = sum(other == rate for other in reference)
            below = sum(other <= rate for other in reference)
            if 0 < rate < 1 and here:
                of_batch[problem] = here / below * (correct[problem] - rate)
        advantages.append(of_batch)
        past.append(current)
    return advantages


def batches_of(num_steps, num_problems, num_rollouts, seed=0):
    """Steps with pass rates of all kinds, and some in which none is between 0 and 1."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, num_rollouts + 1, (num_steps, num_problems, 1))
    counts[3:5] = num_rollouts * (counts[3:5] > num_rollouts // 2)
    ordered = np.broadcast_to(
        np.arange(num_rollouts), (*counts.shape[:2], num_rollouts)
    )
    return list(rng.permuted(ordered, axis=2) < counts)


@pytest.mark.parametrize('window', [1, 3, 10])
@pytest.mark.parametrize('num_rollouts', [2, 8])
def test_each_step_is_weighed_by_the_steps_before(window, num_rollouts):
    params = {'num_rollouts': num_rollouts, 'window': window}
    estimate = jax.jit(make_estimator('curverl', **params))
    memory = make_estimator('curverl', **params).begin_memory()
    batches = batches_of(8, 6, num_rollouts)
    for correct, want in zip(batches, by_lists(batches, window), strict=True):
        got = estimate(1.0 * correct, correct, **memory)
        np.testing.assert_allclose(got, want, atol=1e-5)
        memory = jax.jit(remember)(memory, correct)
    assert any(want.any() for want in by_lists(batches, window)[1:])


def test_of_equally_frequent_pass_rates_it_is_maxrl_over_n():
    correct = np.arange(8) < np.arange(9)[:, None]
    estimate = make_estimator('curverl', num_rollouts=8)
    maxrl = make_estimator('maxrl', num_rollouts=8)(1.0 * correct, correct)
    got = estimate(1.0 * correct, correct, history=np.full((10, 9), 3))
    np.testing.assert_allclose(got, maxrl / 8, atol=1e-6)


def test_a_pass_rate_that_is_new_gets_nothing_in_its_first_step():
    correct = np.arange(4) < np.array([[1], [2]])
    memory = make_estimator('curverl', num_rollouts=4, window=2).begin_memory()
    memory = remember(memory, correct[1:])
    estimate = make_estimator('curverl', num_rollouts=4, window=2)
    got = np.asarray(estimate(1.0 * correct, correct, **memory))
    assert not got[0].any()
    np.testing.assert_array_equal(got[1], [0.5, 0.5, -0.5, -0.5])
    memory = remember(memory, correct)
    got = estimate(1.0 * correct, correct, **memory)
    np.testing.assert_allclose(got[1], np.array([1, 1, -1, -1]) / 3, atol=1e-6)


def test_only_the_last_steps_of_a_longer_history_count():
    correct = np.arange(4) < np.array([[1], [2], [3]])
    newer = np.array([[0, 2, 1, 1, 0], [4, 0, 1, 2, 4]])
    older = np.array([[1, 9, 9, 0, 2]])
    estimate = make_estimator('curverl', num_rollouts=4, window=2)
    want = estimate(1.0 * correct, correct, history=newer)
    both = np.concatenate([older, newer])
    np.testing.assert_array_equal(estimate(1.0 * correct, correct, history=both), want)
    longer = make_estimator('curverl', num_rollouts=4, window=3)
    assert (longer(1.0 * correct, correct, history=both) != want).any()


def test_the_memory_has_a_row_for_each_step_of_the_window():
    memory = make_estimator('curverl', num_rollouts=4, window=3).begin_memory()
    assert memory['history'].shape == (3, 5)
    for count in (1, 2, 3, 4):
        memory = remember(memory, np.arange(4) < np.array([[0], [count]]))
    np.testing.assert_array_equal(
        memory['history'], [[1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 1]]
    )
    assert make_estimator('curverl', num_rollouts=4).begin_memory()[
        'history'
    ].shape == (10, 5)


def test_most_estimators_have_none():
    assert make_estimator('pass_at_k', num_rollouts=4, k=2).begin_memory() == {}
    assert remember({}, np.ones((2, 4), bool)) == {}
    with pytest.raises(InputError, match='k=5 must be'):
        make_estimator('pass_at_k', num_rollouts=4, k=5).begin_memory()


def test_it_must_be_given():
    correct = np.ones((2, 4), bool)
    with pytest.raises(InputError, match='curverl needs history=, how many problems'):
        make_estimator('curverl', num_rollouts=4)(1.0 * correct, correct)


@pytest.mark.parametrize('call', [effective_weight, implied_objective, matching_scale])
def test_it_has_no_weight_of_its_own(call):
    words = 'curverl has no fixed weight: it depends on the pass rates'
    with pytest.raises(InputError, match=words):
        call('curverl', num_rollouts=8, p=0.25)


def test_its_curve_is_of_equally_frequent_pass_rates_and_says_so():
    curve = tabulated_curve('curverl', num_rollouts=8)
    maxrl = tabulated_curve('maxrl', num_rollouts=8)
    for column in ('positive', 'negative', 'weight'):
        want = np.array(maxrl[column]) / 8
        np.testing.assert_allclose(curve[column], want, atol=1e-6)
    assert 'random places. In a run it changes with' in curve['note']


def test_annotated_shapes_hold():
    correct = np.ones((3, 8), bool)
    counts = np.ones((5, 9), np.int32)
    inputs = Inputs(
        correct=jax.numpy.asarray(correct), history=jax.numpy.asarray(counts)
    )
    assert call_checked(history.curverl, inputs, window=5).shape == (3, 8)

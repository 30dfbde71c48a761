"""Shares of the gradient by difficulty, against gradients of each part alone."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from scipy import stats

from passk_jax import sharding
from passk_jax.advantages import make_estimator
from passk_jax.diagnostics.gradients import Products, signal_and_noise
from passk_jax.diagnostics.responses import split_by_difficulty
from passk_jax.diagnostics.step import Diagnose, record
from passk_jax.learning.batch_loss import BatchLoss
from tests.diagnostics import gradients_test as bandit
from tests.diagnostics.step_test import make_diagnosis
from tests.learning.update_test import (
    LOSS,
    N,
    P,
    make_advantages,
    make_mesh,
    make_policy,
    make_rollouts,
    place,
)
from tests.models import oracle

BINS = 2
NAMES = [f'gradient_share_{side}_by_difficulty' for side in ('right', 'wrong')]


def parts_by_hand(advantages, correct, bins):
    """``[2 bins, P, N]``, response by response."""
    parts = np.zeros((2, bins, *correct.shape))
    for p, n in np.ndindex(correct.shape):
        share = correct[p].mean()
        b = next(b for b in range(bins) if share < (b + 1) / bins or b == bins - 1)
        parts[int(not correct[p, n]), b, p, n] = advantages[p, n]
    return parts.reshape(-1, *correct.shape)


@pytest.mark.parametrize('bins', [1, 3, 4])
def test_parts_are_of_one_side_and_one_bin_and_add_up(bins):
    rng = np.random.default_rng(bins)
    # Shares of 0, 1/8, ..., 1, on the borders of bins too.
    correct = np.arange(8) < np.arange(9)[:, None]
    advantages = rng.normal(size=correct.shape)
    parts = split_by_difficulty(
        jnp.asarray(advantages), jnp.asarray(correct), bins=bins
    )
    np.testing.assert_allclose(parts, parts_by_hand(advantages, correct, bins))
    np.testing.assert_allclose(parts.sum(axis=0), advantages)


def test_shares_are_those_of_gradients_taken_part_by_part(monkeypatch):
    # Copies of one problem, with similar advantages, so that there is a signal.
    monkeypatch.setattr(bandit, 'make_rollouts', lambda: rollouts)
    rollouts = jax.tree.map(lambda x: np.stack([x[0]] * P), make_rollouts())
    advantages = make_advantages()[:1] + 0.3 * make_advantages()
    rewarded = np.random.default_rng(6).random((P, N)) < 0.5
    loss, mesh = BatchLoss(make_policy(), 1.0, LOSS), make_mesh()
    sizes = {'num_rollouts': N, 'k': 2, 'num_chunks': 4}
    diagnose = Diagnose(loss, mesh, name='maxrl', difficulty_bins=BINS, **sizes)
    with jax.set_mesh(mesh):
        arrays = sharding.place(mesh, (rollouts, advantages, rewarded))
        values = record(jax.device_get(diagnose(place(mesh).params, *arrays)))
    parts = parts_by_hand(advantages, rewarded, BINS)
    of_parts = bandit.shares_by_hand(parts, LOSS.aggregation, 4)
    total = of_parts.sum(axis=0)
    between = [
        sum(of_part[i] @ total[j] for i in range(4) for j in range(4) if i != j)
        for of_part in of_parts
    ]
    shares = [*values[NAMES[0]], *values[NAMES[1]]]
    assert np.sum(between) > 0
    np.testing.assert_allclose(shares, between / np.sum(between), rtol=2e-3, atol=1e-4)
    assert sum(shares) == pytest.approx(1, abs=1e-5)
    products = [values[x.replace('share', 'product')] for x in NAMES]
    signal = values['gradient_signal/maxrl']
    assert np.sum(products) == pytest.approx(signal, rel=1e-4)
    assert [name for name in values if name.startswith('gradient_signal/')] == [
        f'gradient_signal/{name}'
        for name in ('maxrl', 'pass_at_1', 'rloo', 'canonical_k')
    ]


@pytest.mark.slow
def test_on_a_bandit_the_parts_are_the_enumerated_ones():
    """Of the right responses each is expected to add the gradient of log p."""
    params, responses = oracle.random_params(make_policy()), bandit.RESPONSES
    estimate = make_estimator('rloo', num_rollouts=responses)
    c = np.arange(responses + 1)
    table = np.arange(responses) < c[:, None]
    advantages = np.asarray(estimate(table.astype(np.float32), table))
    probabilities = jax.device_get(bandit.bandit_probabilities(params))
    p = (probabilities * bandit.RIGHT).sum(axis=-1)
    weights = stats.binom.pmf(c, responses, p[:, None]) / responses

    def surrogate(params, part):
        """Of a part of the table's advantages, ``[N + 1, N]``."""
        p = (bandit.bandit_probabilities(params) * bandit.RIGHT).sum(axis=-1)
        right = (part * table).sum(axis=-1) @ weights.T
        wrong = (part * ~table).sum(axis=-1) @ weights.T
        return (right * jnp.log(p) + wrong * jnp.log(1 - p)).mean()

    parts = parts_by_hand(advantages, table, BINS)
    exact = [jax.grad(surrogate)(params, part) for part in (advantages, *parts)]
    exact = [bandit.sum_of_products(exact[0], gradient) for gradient in exact]
    samples = []
    for seed in range(12):
        rollouts, correct = bandit.bandit_step(probabilities, seed)
        estimates = estimate(correct.astype(np.float32), correct)
        rows = np.stack(
            [
                estimates,
                *split_by_difficulty(estimates, jnp.asarray(correct), bins=BINS),
            ]
        )
        sizes = {'num_chunks': bandit.CHUNKS}
        products = bandit.products_of(rollouts, rows, params=params, **sizes)
        samples.append(signal_and_noise(products.total, products.chunks, **sizes))
    samples = np.array([signal.products[0] for signal in samples])
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(axis=0) - exact) < 3 * error).all()
    assert (error < 0.05 * exact[0]).all()
    # No part is nothing, and they are different.
    shares = np.array(exact[1:]) / exact[0]
    assert (np.abs(shares) > 0.05).all()
    assert np.ptp(shares) > 0.1


def test_a_line_has_shares_where_there_is_a_signal():
    # Products for the estimators 'a' and 'b', then for the parts of 'a' in one bin.
    total, chunks = np.zeros((2, 4, 4))
    total[0], chunks[0] = (36, 12, 45, -9), (20, 6, 21, -1)
    values = record(make_diagnosis(products=Products(total, chunks)))
    assert values['gradient_product_right_by_difficulty'].tolist() == [48]
    assert values['gradient_product_wrong_by_difficulty'].tolist() == [-16]
    assert [values[name].tolist() for name in NAMES] == [[1.5], [-0.5]]
    # One step's signal may come out negative.
    values = record(make_diagnosis(products=Products(-total, -chunks)))
    assert np.isnan([values[name] for name in NAMES]).all()


def test_without_bins_a_line_has_no_shares():
    assert not [name for name in record(make_diagnosis()) if 'difficulty' in name]

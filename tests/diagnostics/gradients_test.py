"""Signal, noise and cosines against gradients that are taken one at a time."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.advantages import make_estimator
from passk_jax.config import AGGREGATIONS
from passk_jax.diagnostics.gradients import (
    cosines,
    gradient_products,
    signal_and_noise,
)
from passk_jax.learning.batch_loss import BatchLoss, response_mask
from passk_jax.models import policy as policies
from passk_jax.types import Prompts, Rollouts
from tests.learning.update_test import (
    LOSS,
    VOCAB,
    N,
    P,
    log_probs_of,
    make_policy,
    make_rollouts,
    start,
)
from tests.models import oracle
from tests.slow import slow_rows

E = 3


@functools.cache
def make_program(config, num_chunks):
    loss = BatchLoss(make_policy(), 1.0, config)
    return jax.jit(functools.partial(gradient_products, loss, num_chunks=num_chunks))


def products_of(rollouts, advantages, *, config=LOSS, num_chunks=4, params=None):
    products = make_program(config, num_chunks)(
        params or start().params, rollouts, advantages
    )
    return jax.device_get(products)


def make_advantages():
    return np.random.default_rng(2).normal(size=(E, P, N)).astype(np.float32)


def shares_by_hand(advantages, aggregation, num_chunks):
    """``[E, M, parameters]``: the gradients of minus the surrogate's chunks."""
    rollouts = make_rollouts()
    mask = response_mask(rollouts)
    lengths = np.asarray(rollouts.lengths)

    def surrogate(params, weights):
        """Tokens weigh the same, or responses do."""
        log_probs = jnp.where(mask, log_probs_of(make_policy(), params, rollouts), 0)
        of_response = log_probs.sum(axis=-1)
        if aggregation == 'token':
            return -(weights * of_response).sum() / lengths.sum()
        return -(weights * of_response / lengths).sum() / lengths.size

    gradient = jax.jit(jax.grad(surrogate))
    shares = np.zeros((len(advantages), num_chunks), object)
    for e in range(len(advantages)):
        for i in range(num_chunks):
            chosen = np.arange(P)[:, None] % num_chunks == i
            grads = gradient(start().params, np.where(chosen, advantages[e], 0))
            leaves = [np.asarray(grads[name]).ravel() for name in sorted(grads)]
            shares[e, i] = np.concatenate(leaves).astype(np.float64)
    return np.array([[*of_one] for of_one in shares])


@pytest.mark.parametrize(
    ('aggregation', 'num_chunks'),
    slow_rows(
        [*zip(AGGREGATIONS, (2, 8), strict=True)],
        quick=[(AGGREGATIONS[0], 2)],
    ),
)
def test_products_are_those_of_gradients_taken_one_at_a_time(aggregation, num_chunks):
    # The products leave out terms that depend on no advantage.
    config = dataclasses.replace(
        LOSS, aggregation=aggregation, kl_coef=0.5, entropy_coef=0.5
    )
    products = products_of(
        make_rollouts(), make_advantages(), config=config, num_chunks=num_chunks
    )
    shares = shares_by_hand(make_advantages(), aggregation, num_chunks)
    gradients = shares.sum(axis=1)
    expected = np.einsum('eix,fix->ef', shares, shares)
    np.testing.assert_allclose(
        products.total, gradients @ gradients.T, rtol=2e-4, atol=1e-6
    )
    np.testing.assert_allclose(products.chunks, expected, rtol=2e-4, atol=1e-6)
    # The estimates are means over pairs of different chunks.
    signal = signal_and_noise(products.total, products.chunks, num_chunks=num_chunks)
    pairs = [(i, j) for i in range(num_chunks) for j in range(num_chunks) if i != j]
    between = np.mean([shares[:, i] @ shares[:, j].T for i, j in pairs], axis=0)
    expected = num_chunks**2 * between
    np.testing.assert_allclose(signal.products, expected, rtol=2e-3, atol=1e-5)
    variances = num_chunks * shares.var(axis=1, ddof=1).sum(axis=-1)
    np.testing.assert_allclose(signal.noise, variances, rtol=1e-3)


def test_gradients_are_of_what_is_trained_alone():
    """So the products of two complementary parts of the parameters add up."""
    rollouts, advantages = make_rollouts(), make_advantages()
    params, program = start().params, make_program(LOSS, 2)
    chosen = {name: x for name, x in params.items() if '.mlp.' in name}
    untrained = {name: x for name, x in params.items() if name not in chosen}
    assert chosen
    assert untrained
    one = program(chosen, rollouts, advantages, frozen=untrained)
    other = program(untrained, rollouts, advantages, frozen=chosen)
    want = program(params, rollouts, advantages)
    sums = jax.tree.map(jnp.add, one, other)
    np.testing.assert_allclose(sums.total, want.total, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(sums.chunks, want.chunks, rtol=1e-4, atol=1e-7)
    assert np.all(np.diag(one.total) > 0)


def test_parts_of_the_rollouts_change_no_product():
    rollouts, advantages = make_rollouts(), make_advantages()
    loss = BatchLoss(make_policy(), 1.0, LOSS)
    parts = jax.jit(
        functools.partial(gradient_products, loss, num_chunks=2, rollout_parts=2)
    )(start().params, rollouts, advantages)
    undivided = products_of(rollouts, advantages, num_chunks=2)
    np.testing.assert_allclose(parts.total, undivided.total, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(parts.chunks, undivided.chunks, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_responses_that_are_not_trained_have_no_gradient():
    rollouts = make_rollouts()
    stopped = np.random.default_rng(3).random((P, N)) < 0.6
    rollouts = dataclasses.replace(rollouts, stopped=stopped)
    config = dataclasses.replace(LOSS, mask_truncated=True)
    masked = products_of(rollouts, make_advantages(), config=config)
    trained = products_of(rollouts, make_advantages() * stopped)
    lengths = np.asarray(rollouts.lengths)
    ratio = lengths.sum() / lengths[stopped].sum()
    np.testing.assert_allclose(masked.total, ratio**2 * trained.total, rtol=1e-3)


def test_equal_chunks_have_no_noise():
    """Every problem, with its responses, is the first one."""
    rollouts = jax.tree.map(lambda x: np.stack([x[0]] * P), make_rollouts())
    advantages = np.stack([make_advantages()[:, 0]] * P, axis=1)
    products = products_of(rollouts, advantages)
    signal = signal_and_noise(products.total, products.chunks, num_chunks=4)
    np.testing.assert_allclose(
        np.diag(signal.products), np.diag(products.total), rtol=1e-4
    )
    assert (np.abs(signal.noise) < 1e-4 * np.diag(products.total)).all()


def test_the_scale_of_advantages_changes_no_ratio():
    advantages = make_advantages()
    products = [
        signal_and_noise(x.total, x.chunks, num_chunks=4)
        for x in (
            products_of(make_rollouts(), advantages),
            products_of(make_rollouts(), 4 * advantages),
        )
    ]
    one, four = products
    # Powers of two are exact.
    np.testing.assert_array_equal(four.noise, 16 * one.noise)
    np.testing.assert_array_equal(four.products, 16 * one.products)
    np.testing.assert_allclose(four.cosines, one.cosines, rtol=1e-12)
    ratios = [np.diag(x.products) / x.noise for x in products]
    np.testing.assert_array_equal(*ratios)


def test_estimators_with_proportional_advantages_have_cosines_of_one():
    first, *_ = make_advantages()
    products = products_of(make_rollouts(), np.stack([first, 4 * first, -first]))
    signal = signal_and_noise(products.total, products.chunks, num_chunks=4)
    assert signal.products[0, 0] > 0
    expected = np.outer([1, 1, -1], [1, 1, -1])
    np.testing.assert_allclose(signal.cosines, expected, rtol=1e-5)


def test_without_signal_a_cosine_is_undefined():
    cosine_matrix = cosines(
        np.array([[4.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, -1.0]])
    )
    assert cosine_matrix[0, 0] == 1
    np.testing.assert_array_equal(
        np.isnan(cosine_matrix), np.arange(9).reshape(3, 3) > 0
    )


def test_one_chunk_is_an_error():
    with pytest.raises(ValueError, match='num_chunks=1 must be at least 2'):
        signal_and_noise(np.ones((1, 1)), np.ones((1, 1)), num_chunks=1)


# A bandit: prompts of one token, of a few kinds, and responses of one token.
RIGHT = np.arange(VOCAB) < np.array([[1], [2], [3], [7]])
RESPONSES, CHUNKS, K = 8, 64, 4


@jax.jit
def bandit_probabilities(params):
    """``[kinds, V]``, from the log-probability of every token."""
    kinds = np.arange(len(RIGHT), dtype=np.int32)
    prompts = Prompts(kinds[:, None], np.ones_like(kinds), kinds)
    tokens = np.tile(np.arange(VOCAB, dtype=np.int32)[:, None], (len(kinds), 1, 1))
    log_probs, *_ = policies.token_log_probs(
        make_policy(), params, prompts, tokens, temperature=1.0
    )
    return jnp.exp(log_probs[..., 0])


def bandit_step(probabilities, seed):
    """Rollouts and correctness: every chunk has a problem of each kind."""
    kinds = np.repeat(np.arange(len(RIGHT)), CHUNKS)
    edges = np.cumsum(probabilities, axis=-1)[kinds, None, :-1]
    uniform = np.random.default_rng(seed).random((len(kinds), RESPONSES, 1))
    tokens = (uniform > edges).sum(axis=-1).astype(np.int32)
    ones, zeros = np.ones_like(tokens), np.zeros((*tokens.shape, 1), np.float32)
    ids = np.arange(len(kinds), dtype=np.int32)
    prompts = Prompts(kinds[:, None].astype(np.int32), np.ones_like(ids), ids)
    rollouts = Rollouts(prompts, tokens[..., None], ones, ones > 0, *[zeros] * 3)
    return rollouts, RIGHT[kinds[:, None], tokens]


@pytest.mark.slow
def test_on_a_bandit_the_estimates_are_the_enumerated_gradients():
    """RLOO follows p, and canonical_k pass@k, exactly: so do signal and cosine."""
    params = oracle.random_params(make_policy())

    def objective(params, k):
        p = (bandit_probabilities(params) * RIGHT).sum(axis=-1)
        return (1 - (1 - p) ** k).mean()

    exact = [jax.grad(objective)(params, k) for k in (1, K)]
    exact = np.array([[sum_of_products(a, b) for a in exact] for b in exact])
    estimators = [
        make_estimator('rloo', num_rollouts=RESPONSES),
        make_estimator('canonical_k', num_rollouts=RESPONSES, k=K),
    ]
    probabilities, samples = jax.device_get(bandit_probabilities(params)), []
    for seed in range(12):
        rollouts, correct = bandit_step(probabilities, seed)
        rewards = correct.astype(np.float32)
        advantages = np.stack([estimator(rewards, correct) for estimator in estimators])
        products = products_of(rollouts, advantages, num_chunks=CHUNKS, params=params)
        samples.append(
            signal_and_noise(products.total, products.chunks, num_chunks=CHUNKS)
        )
    estimates = np.array([x.products for x in samples])
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(samples))
    assert (np.abs(estimates.mean(axis=0) - exact) < 3 * error).all()
    assert (error < 0.05 * np.abs(exact)).all()
    cosine = cosines(exact)[0, 1]
    assert 0.3 < cosine < 0.95
    assert cosines(estimates.mean(axis=0))[0, 1] == pytest.approx(cosine, abs=0.02)


def sum_of_products(a, b):
    return sum(float(jnp.vdot(a[name], b[name])) for name in a)

"""Rows of the token table that the tokenizer has no ids for."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sampling
from passk_jax.config import sampling_options
from passk_jax.models import policy as policies
from tests.models import oracle

TABLE, TOKENS = 300, 200


@pytest.fixture(scope='module')
def policy():
    plain = oracle.tiny_policy(vocab_size=TABLE, num_layers=1)
    return dataclasses.replace(plain, num_tokens=TOKENS)


@pytest.fixture(scope='module')
def params(policy):
    params = oracle.random_params(policy)
    # What pads the table is far more probable than any token.
    params['head.kernel'] = params['head.kernel'].at[:, TOKENS:].multiply(20.0)
    return params


@pytest.fixture(scope='module')
def batch():
    prompts, tokens, _ = oracle.random_batch(vocab_size=TOKENS)
    return prompts, tokens


@functools.partial(jax.jit, static_argnums=0)
def score(policy, params, batch, temperature):
    """Log-probabilities and entropies, and the gradient of a sum of both."""

    def loss(params):
        outputs = policies.token_log_probs(
            policy, params, *batch, temperature=temperature
        )[:2]
        return sum(map(jnp.sum, outputs)), outputs

    grads, outputs = jax.grad(loss, has_aux=True)(params)
    return outputs, grads


@pytest.mark.parametrize('temperature', [1e-30, 0.7, 1e30])
def test_the_learner_has_the_distribution_of_the_smaller_table(
    policy, params, batch, temperature
):
    cut = params | {
        'embed.embedding': params['embed.embedding'][:TOKENS],
        'head.kernel': params['head.kernel'][:, :TOKENS],
    }
    smaller = oracle.tiny_policy(vocab_size=TOKENS, num_layers=1)
    expected, grads = score(smaller, cut, batch, temperature)
    outputs, padded = score(policy, params, batch, temperature)
    for ours, want in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(ours, want, rtol=1e-5, atol=1e-5)
    assert all(np.isfinite(x).all() for x in padded.values())
    padding = padded['embed.embedding'][TOKENS:], padded['head.kernel'][:, TOKENS:]
    assert not any(x.any() for x in padding)
    if temperature == 1e-30:
        # A difference in rounding is as large as the gradient.
        return
    padded['embed.embedding'] = padded['embed.embedding'][:TOKENS]
    padded['head.kernel'] = padded['head.kernel'][:, :TOKENS]
    for name, want in grads.items():
        np.testing.assert_allclose(padded[name], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    'options',
    [
        {'temperature': 0.0},
        {'temperature': 1.0},
        # So hot that every token is equally probable.
        {'temperature': 1e30},
        {'temperature': 1e-30, 'top_p': 0.5},
        {'top_p': 0.999, 'top_k': TABLE, 'min_p': 1e-9},
    ],
)
def test_the_sampler_draws_from_the_learners_distribution(
    policy, params, batch, options
):
    prompts, _ = batch
    options = sampling_options(**options)
    key = sampling.step_key(seed=0, purpose=sampling.Purpose.ROLLOUTS, step=0)
    drawn = sampling.sample(
        policy,
        params,
        prompts,
        key=key,
        num_rollouts=32,
        max_response_tokens=4,
        stop_tokens=(),
        options=options,
    )
    tokens = np.asarray(drawn.tokens)
    assert (tokens < TOKENS).all()
    for name in ('sampler_log_probs', 'untruncated_log_probs', 'entropies'):
        assert np.isfinite(getattr(drawn, name)).all()
    if options.temperature not in (0, 1e-30):
        scored, _ = score(policy, params, (prompts, tokens), options.temperature)
        log_probs, entropies = scored
        np.testing.assert_allclose(
            drawn.untruncated_log_probs, log_probs, rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(drawn.entropies, entropies, rtol=1e-5, atol=1e-5)
    if options.temperature == 1e30:
        np.testing.assert_allclose(drawn.entropies, np.log(TOKENS), rtol=1e-6)


def test_a_table_without_padding_costs_nothing(batch):
    """Its programs are the same, to the letter."""
    plain = oracle.tiny_policy(vocab_size=TABLE, num_layers=1)
    params = oracle.random_params(plain)

    def programs(num_tokens):
        policy = dataclasses.replace(plain, num_tokens=num_tokens)
        hidden = jnp.zeros((2, 3, plain.arch.embed_dim))
        logits = jax.jit(functools.partial(policies.logits, policy))
        learner = jax.jit(functools.partial(score.__wrapped__, policy))
        return (
            logits.lower(params, hidden).as_text(),
            learner.lower(params, batch, 1.0).as_text(),
        )

    unpadded = programs(TABLE)
    assert unpadded == programs(None)
    assert all(map(str.__ne__, unpadded, programs(TABLE - 1)))

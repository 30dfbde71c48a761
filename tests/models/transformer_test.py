"""Ways through the network: scanned or not, one stream or two, whole or by steps."""

import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.models import policy as policies
from passk_jax.models.transformer import Cache, Prefix
from tests.models import oracle

P, N, S, T = 2, 3, 5, 4


@pytest.fixture(scope='module')
def policy():
    return oracle.tiny_policy(num_layers=3)


@pytest.fixture(scope='module')
def params(policy):
    return oracle.random_params(policy)


@pytest.fixture(scope='module')
def streams():
    """Prompts of S tokens each, and responses."""
    prompts, tokens, _ = oracle.random_batch(vocab_size=16, P=P, S=S, N=N, T=T)
    return prompts.tokens[:, None], tokens


def at(start, count):
    return np.broadcast_to(start + np.arange(count, dtype=np.int32), (P, 1, count))


@functools.partial(jax.jit, static_argnums=0, static_argnames='keep')
def forward(policy, params, *args, keep):
    return policy.bind(params).forward(*args, keep=keep)


@functools.partial(jax.jit, static_argnums=0)
def step(policy, params, *args):
    return policy.bind(params).step(*args)


def test_responses_after_their_prompts_equal_whole_sequences(policy, params, streams):
    prompts, responses = streams
    places = (at(0, S), at(S, T))
    lengths = np.full(P, S)
    xs, _, _ = forward(policy, params, streams, places, lengths, keep=False)
    both = np.concatenate([np.repeat(prompts, N, axis=1), responses], axis=2)
    (want,), _, _ = forward(policy, params, (both,), (at(0, S + T),), keep=False)
    np.testing.assert_allclose(xs[0], want[:, :1, :S], atol=1e-5)
    np.testing.assert_allclose(xs[1], want[:, :, S:], atol=1e-5)


def test_layers_scanned_equal_layers_apart(policy, params, streams):
    args = (streams, (at(0, S), at(S, T)), np.array([S, 2]))
    apart = policies.prepare_decoding(policy, params)
    have, caches, _ = forward(policy, apart, *args, keep=True)
    want, scanned, _ = forward(policy, params, *args, keep=True)
    assert len(caches) == len(scanned) == 3
    pairs = zip(
        jax.tree.leaves((have, caches)), jax.tree.leaves((want, scanned)), strict=True
    )
    for x, y in pairs:
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_steps_equal_the_whole(policy, params, streams):
    prompts, responses = streams
    weights = policies.prepare_decoding(policy, params)
    lengths = np.array([S, 2])
    _, caches, _ = forward(policy, weights, (prompts,), (at(0, S),), keep=True)
    shared = tuple(map(policies.take_first_sequences, caches))
    prefix = Prefix(layers=shared, lengths=lengths)
    cache = policies.empty_cache(policy, num_prompts=P, num_rollouts=N, num_tokens=T)
    places = (at(0, S), lengths[:, None, None] + np.arange(T))
    (_, want), _, _ = forward(policy, weights, streams, places, lengths, keep=False)
    for t in range(T):
        have, layers, _ = step(policy, weights, responses[..., t], prefix, cache)
        cache = Cache(layers, cache.index + 1, cache.lengths + 1)
        np.testing.assert_allclose(have, want[:, :, t], atol=1e-5)


@pytest.mark.parametrize('tie', [False, True])
def test_logits_are_float32_products_of_normed_states_with_the_head(tie):
    policy = oracle.tiny_policy(dtype='bfloat16', tie_embeddings=tie)
    params = oracle.random_params(policy)
    model = policy.bind(params)
    hidden = jax.random.normal(jax.random.key(0), (3, 32), jnp.bfloat16)
    logits = model.logits(hidden[None, None], model.head_weights((1, 1)))[0, 0]
    assert logits.dtype == jnp.float32
    head = params['embed.embedding'].T if tie else params['head.kernel']
    wide = np.float64(hidden)
    root = np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    want = wide / root * np.float64(params['final_norm.scale']) @ np.float64(head)
    np.testing.assert_allclose(logits, want, atol=0.05)

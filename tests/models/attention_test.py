import functools
import math

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import attention
from tests.models import oracle
from tests.slow import slow_values


def random_inputs(*, P=2, N=3, S=5, T=4, H=6, J=4, C=2, R=None, large=1):
    """Queries, own and prefix keys and values, and how long each prefix is."""
    R = R or T
    rng = np.random.default_rng(0)

    def normal(*shape, scale=1):
        return jax.device_put(scale * rng.normal(size=shape).astype(np.float32))

    query = normal(P, N, T, J, H)
    prefix = attention.KeyValues(
        keys=normal(P, C, H, S, scale=large), values=normal(P, C, S, H)
    )
    suffix = attention.KeyValues(
        keys=normal(P, C, N, H, R), values=normal(P, C, N, R, H)
    )
    return query, suffix, prefix, np.array([S, 2] + [S] * (P - 2))


@pytest.mark.parametrize(('num_heads', 'num_kv_heads'), [(4, 4), (4, 2), (3, 1)])
@pytest.mark.parametrize('max_logits', [attention.MAX_LOGITS, 1])
@pytest.mark.parametrize('window', [0, 3])
def test_prefix_and_own_tokens_share_one_softmax(
    num_heads, num_kv_heads, max_logits, window
):
    J, C = num_heads, num_kv_heads
    # Large logits: the common maximum must keep both parts finite.
    query, suffix, prefix, lengths = random_inputs(J=J, C=C, large=30)
    P, N, T, _, _ = query.shape
    attend = functools.partial(attention.attend, window=window, max_logits=max_logits)
    have = jax.jit(attend)(query, suffix, np.arange(T), prefix, lengths)
    query, have, suffix, prefix = jax.tree.map(
        np.asarray, (query, have, suffix, prefix)
    )
    for p, n, t, j in np.ndindex(P, N, T, J):
        c, real = j // (J // C), int(lengths[p])
        keys = [prefix.keys[p, c, :, :real], suffix.keys[p, c, n, :, : t + 1]]
        values = [prefix.values[p, c, :real], suffix.values[p, c, n, : t + 1]]
        keys = np.concatenate(keys, axis=1)[:, -window:]
        scores = np.float64(query[p, n, t, j]) @ keys
        weights = np.exp(scores - scores.max())
        want = weights / weights.sum() @ np.concatenate(values)[-window:]
        np.testing.assert_allclose(have[p, n, t, j], want, atol=2e-5)


def attended(last, lengths, *, width, num_slots):
    """A loss on the mixed values, and them, ``width`` queries a chunk."""

    def fn(query, suffix, prefix):
        have = attention.attend(
            query,
            suffix,
            last,
            prefix,
            None if prefix is None else lengths,
            max_logits=width * math.prod(query.shape[:2]) * query.shape[3] * num_slots,
        )
        weights = jnp.cos(jnp.arange(have.size)).reshape(have.shape)
        return (weights * have).sum(), have

    return jax.value_and_grad(fn, argnums=(0, 1, 2), has_aux=True)


@functools.cache
def in_chunks(case, width):
    """Values and gradients, and whether the program has a loop over chunks."""
    T, S = 11, 5
    slots = T + 4 if case == 'cache' else T
    query, suffix, prefix, lengths = random_inputs(T=T, S=S, R=slots)
    last = np.arange(T) + (2 if case == 'cache' else 0)
    if case == 'prompt':
        prefix = None
    num_slots = slots + (0 if prefix is None else S)
    fn = attended(last, lengths, width=width, num_slots=num_slots)
    looped = 'scan' in str(jax.make_jaxpr(fn)(query, suffix, prefix))
    return jax.jit(fn)(query, suffix, prefix), looped


# Alone as a prompt is, after a prompt, and through a cache with dead slots.
@pytest.mark.parametrize('case', ['prompt', 'response', 'cache'])
@pytest.mark.parametrize('width', slow_values([1, 3, 4, 10], quick=[3]))
def test_chunks_of_queries_change_neither_values_nor_gradients(case, width):
    (have, looped), (want, whole_looped) = in_chunks(case, width), in_chunks(case, 11)
    assert looped
    assert not whole_looped
    for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-5)


def test_neither_pass_holds_the_logits_of_more_than_a_chunk():
    T, S, width = 64, 3, 8
    query, suffix, prefix, lengths = random_inputs(P=1, N=2, T=T, S=S, H=2)
    lengths = lengths[:1]

    def largest(width):
        fn = attended(jnp.arange(T), lengths, width=width, num_slots=T + S)
        return max(oracle.array_sizes(jax.make_jaxpr(fn)(query, suffix, prefix).jaxpr))

    one = 2 * 4 * T * T
    assert largest(width) <= one / 4
    assert largest(T) >= one


def test_chunked_attention_on_a_mesh_equals_one_devices():
    *inputs, lengths = random_inputs(P=4, T=11, S=5)

    @jax.jit
    def run(query, suffix, prefix):
        query = sharding.shard(query, 'batch', None, None, 'heads', None)
        # A device has a prompt of the four, and half of the heads: 8 queries a chunk.
        fn = attended(jnp.arange(11), lengths, width=1, num_slots=16)
        return fn(query, suffix, prefix)

    want = run(*inputs)
    mesh = sharding.make_mesh(data=2, fsdp=2, rollout=1, tensor=2)
    with jax.set_mesh(mesh):
        have = run(*jax.device_put(inputs, sharding.batch_sharding(mesh, inputs)))
    for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-5)

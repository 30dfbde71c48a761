import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.models import attention


@pytest.mark.parametrize(('num_heads', 'num_kv_heads'), [(4, 4), (4, 2), (3, 1)])
def test_prefix_and_own_tokens_share_one_softmax(num_heads, num_kv_heads):
    P, N, S, T, H = 2, 3, 5, 4, 6
    J, C = num_heads, num_kv_heads
    draw = iter(jax.random.split(jax.random.key(0), 5))
    query = jax.random.normal(next(draw), (P, N, T, J, H))
    # Large logits: the common maximum must keep both parts finite.
    prefix = attention.KeyValues(
        keys=30 * jax.random.normal(next(draw), (P, C, H, S)),
        values=jax.random.normal(next(draw), (P, C, S, H)),
    )
    own = attention.KeyValues(
        keys=jax.random.normal(next(draw), (P, C, N, H, T)),
        values=jax.random.normal(next(draw), (P, C, N, T, H)),
    )
    lengths = np.array([S, 2])
    have = attention.attend(
        query,
        own,
        jnp.tril(jnp.ones((T, T), bool)),
        prefix,
        jnp.arange(S) < lengths[:, None],
    )
    query, have, own, prefix = jax.tree.map(np.asarray, (query, have, own, prefix))
    for p, n, t, j in np.ndindex(P, N, T, J):
        c, real = j // (J // C), lengths[p]
        keys = [prefix.keys[p, c, :, :real], own.keys[p, c, n, :, : t + 1]]
        values = [prefix.values[p, c, :real], own.values[p, c, n, : t + 1]]
        scores = np.float64(query[p, n, t, j]) @ np.concatenate(keys, axis=1)
        weights = np.exp(scores - scores.max())
        want = weights / weights.sum() @ np.concatenate(values)
        np.testing.assert_allclose(have[p, n, t, j], want, atol=2e-5)


def test_rotation_depends_on_relative_positions_only():
    draw = iter(jax.random.split(jax.random.key(0), 2))
    query = jax.random.normal(next(draw), (1, 1, 1, 1, 8))
    key = jax.random.normal(next(draw), (1, 1, 1, 1, 8))

    def score(query_at, key_at):
        def turned(x, at):
            turn = attention.rotary(jnp.full((1, 1, 1), at), head_dim=8, theta=1e4)
            return attention.rotate(x, turn)

        return float((turned(query, query_at) * turned(key, key_at)).sum())

    assert score(7, 3) == pytest.approx(score(104, 100), abs=1e-4)
    assert score(7, 3) != pytest.approx(score(8, 3), abs=1e-2)
    assert score(0, 0) == pytest.approx(float((query * key).sum()), abs=1e-6)


def test_rotation_scales_in_float32():
    x = jnp.ones((1, 1, 1, 1, 4), jnp.bfloat16)
    turn = attention.rotary(jnp.zeros((1, 1, 1)), head_dim=4, theta=1e4)
    y = attention.rotate(x, turn, scale=0.3)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, jnp.full_like(y, 0.3))

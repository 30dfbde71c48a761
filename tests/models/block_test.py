import jax
import numpy as np
from flax import nnx
from jax import numpy as jnp

from passk_jax.models.block import Block
from passk_jax.models.feed_forward import FEED_FORWARDS
from tests.models import oracle


def test_a_block_adds_attention_and_its_feed_forward_part_to_what_comes_in():
    arch = oracle.tiny_arch()
    block = Block(arch, arch.layers[0], rngs=nnx.Rngs(params=jax.random.key(0)))
    x = jax.random.normal(jax.random.key(0), (1, 1, 4, 32))
    turn = (jnp.ones((1, 1, 4, 1, 4)), jnp.zeros((1, 1, 4, 1, 4)))
    block.attention.out.kernel[...] *= 0
    (mixed,), *_ = block.forward((x,), (turn,), None)
    hidden = block.mlp_norm(x)[0]
    gate = hidden @ block.mlp.gate.kernel[...]
    want = gate / (1 + jnp.exp(-gate)) * (hidden @ block.mlp.up.kernel[...])
    want = x + want @ block.mlp.down.kernel[...]
    np.testing.assert_allclose(mixed, want, atol=1e-5)
    block.mlp.down.kernel[...] *= 0
    (same,), *_ = block.forward((x,), (turn,), None)
    np.testing.assert_array_equal(same, x)


class Twice(nnx.Module):
    """A feed-forward part with a parameter that no other part has."""

    def __init__(self, arch, *, stack=(), rngs):
        del rngs
        self.scale = nnx.Param(jnp.ones((*stack, arch.embed_dim)))

    def __call__(self, *xs):
        return tuple(2 * self.scale[...] * x for x in xs), {}


def test_the_layer_chooses_the_feed_forward_part(monkeypatch):
    monkeypatch.setitem(FEED_FORWARDS, 'twice', Twice)
    arch = oracle.tiny_arch(feed_forward='twice')
    block = Block(arch, arch.layers[0], rngs=nnx.Rngs(params=jax.random.key(0)))
    x = jax.random.normal(jax.random.key(0), (1, 1, 4, 32))
    block.attention.out.kernel[...] *= 0
    turn = (jnp.ones((1, 1, 4, 1, 4)), jnp.zeros((1, 1, 4, 1, 4)))
    (mixed,), *_ = block.forward((x,), (turn,), None)
    np.testing.assert_allclose(mixed, x + 2 * block.mlp_norm(x)[0], atol=1e-6)

import jax
import numpy as np
import pytest
from flax import nnx
from jax import numpy as jnp

from passk_jax.models import layers
from passk_jax.models.lora import Lora
from tests.models import oracle

ARCH = oracle.tiny_arch()


def rngs():
    return nnx.Rngs(params=jax.random.key(0))


@pytest.mark.parametrize('stack', [(), (5,)])
def test_a_stacked_kernel_starts_as_large_as_one_layers(stack):
    arch = oracle.tiny_arch(embed_dim=256, num_heads=8, head_dim=32)
    for name, before, after in [('query', (256,), (8, 32)), ('out', (8, 32), (256,))]:
        declared = layers.Attention.parameters(arch)[f'{name}.kernel']
        linear = layers.Linear(declared, before, after, arch, stack=stack, rngs=rngs())
        assert linear.kernel.shape == (*stack, *before, *after)
        # Of a lecun_normal, truncated at two sigma and made up for it.
        assert np.std(linear.kernel[...]) == pytest.approx(256**-0.5, rel=0.02)


def test_a_norm_divides_by_the_root_mean_square_and_scales():
    norm = layers.RMSNorm((32,), ARCH)
    norm.scale[...] = jnp.arange(32.0)
    x = jax.random.normal(jax.random.key(0), (2, 3, 4, 32))
    other = 10 * x[:, :1]
    wide = np.float64(x)
    root = np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    have, again = norm(x, other)
    np.testing.assert_allclose(have, wide / root * np.arange(32), rtol=1e-5)
    np.testing.assert_allclose(again, have[:, :1], rtol=1e-5)


def test_the_factor_of_adapters_is_exact_in_bfloat16():
    """As in PEFT and in a merged export; 4/3 in bfloat16 is 0.2 % larger."""
    arch = oracle.tiny_arch(
        embed_dim=12, dtype='bfloat16', lora=Lora(12, 16.0, ('q_proj',))
    )
    declared = layers.Attention.parameters(arch)['query.kernel']
    linear = layers.Linear(
        declared, (12,), (1, 12), arch, rngs=nnx.Rngs(params=0, adapters=1)
    )
    linear.kernel[...] = jnp.zeros_like(linear.kernel[...])
    linear.lora_a[...] = jnp.eye(12)
    linear.lora_b[...] = jnp.eye(12)[:, None]
    x = jnp.linspace(1, 2, 12 * 1024).astype('bfloat16').reshape(1, 1, 1024, 12)
    (y,) = linear(x)
    ratio = np.float32(y[..., 0, :]) / np.float32(x)
    # Results are rounded, which averages out.
    assert ratio.mean() == pytest.approx(4 / 3, rel=3e-4)


def test_unstacking_gives_a_tree_for_each_index():
    tree = {'x': jnp.arange(6).reshape(3, 2), 'nothing': None}
    parts = layers.unstack(tree)
    assert [part['x'].tolist() for part in parts] == [[0, 1], [2, 3], [4, 5]]
    assert all(part['nothing'] is None for part in parts)

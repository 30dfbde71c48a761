"""The network honors what its architecture says, with no value at its default."""

import jax
import numpy as np
import pytest
from flax import nnx
from jax import numpy as jnp

from passk_jax.models import layers
from passk_jax.models.rope import Rope, rotary
from passk_jax.models.transformer import Transformer
from tests.models import oracle


def rngs():
    return nnx.Rngs(params=jax.random.key(0))


def test_norms_have_their_epsilon():
    norm = layers.RMSNorm((4,), oracle.tiny_arch(norm_eps=0.5))
    x = np.array([[[[0.1, -0.2, 0.3, 0.4]]]])
    (have,) = norm(jnp.float32(x))
    want = x / np.sqrt((x**2).mean() + 0.5)
    np.testing.assert_allclose(have, want, rtol=1e-5)


def test_positions_turn_by_their_base():
    cos, sin = rotary(jnp.array([[[3]]]), Rope(kind='default', theta=500.0), head_dim=4)
    angles = np.array([3.0, 3.0 * 500.0**-0.5])
    np.testing.assert_allclose(cos.ravel(), np.cos(angles), rtol=1e-5)
    np.testing.assert_allclose(sin.ravel(), np.sin(angles), rtol=1e-5)


@pytest.mark.parametrize('tie', [False, True])
def test_a_tied_policy_has_no_head_of_its_own(tie):
    arch = oracle.tiny_arch(tie_embeddings=tie)
    network = nnx.eval_shape(lambda: Transformer(arch, stacked=True, rngs=rngs()))
    names = {
        '.'.join(map(str, path)) for path, _ in nnx.to_flat_state(nnx.state(network))
    }
    assert ('head.kernel' in names) == (not tie)


@pytest.mark.parametrize(
    ('masters', 'products'), [('bfloat16', 'float32'), ('float32', 'bfloat16')]
)
def test_masters_and_products_have_dtypes_of_their_own(masters, products):
    arch = oracle.tiny_arch(param_dtype=masters, dtype=products)
    declared = layers.Attention.parameters(arch)['query.kernel']
    linear = layers.Linear(declared, (32,), (4, 8), arch, rngs=rngs())
    assert linear.kernel.dtype == masters
    (y,) = linear(jnp.ones((1, 1, 2, 32), jnp.float32))
    assert y.dtype == products

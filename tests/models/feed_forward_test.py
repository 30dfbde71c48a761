import jax
import numpy as np
import pytest
from flax import nnx
from jax import numpy as jnp

from passk_jax.models.feed_forward import FEED_FORWARDS, SwiGLU
from tests.models import oracle


@pytest.mark.parametrize('kind', FEED_FORWARDS)
@pytest.mark.parametrize('stack', [(), (3,)])
def test_a_kind_declares_the_parameters_that_it_makes(kind, stack):
    part = FEED_FORWARDS[kind]
    arch = oracle.tiny_arch()
    made = part(arch, stack=stack, rngs=nnx.Rngs(params=0))
    declared = part.parameters(arch)
    shapes = {
        '.'.join(map(str, path)): x[...].shape
        for path, x in nnx.to_flat_state(nnx.state(made))
    }
    assert shapes.keys() == declared.keys()
    for name, shape in shapes.items():
        assert shape[: len(stack)] == stack
        assert len(shape) - len(stack) == len(declared[name].axes)


def test_swiglu_gates_each_stream_and_its_gradient_is_exact():
    part = SwiGLU(oracle.tiny_arch(), rngs=nnx.Rngs(params=0))
    gate, up, down = (x.kernel[...] for x in (part.gate, part.up, part.down))
    xs = jax.random.normal(jax.random.key(0), (2, 1, 3, 4, 32))

    def plain(x):
        return (x @ gate * jax.nn.sigmoid(x @ gate) * (x @ up)) @ down

    for have, x in zip(part(*xs), xs, strict=True):
        np.testing.assert_allclose(have, plain(x), atol=1e-5)
    have = jax.grad(lambda xs: jnp.sin(jnp.stack(part(*xs))).sum())(xs)
    want = jax.grad(lambda xs: jnp.sin(plain(xs)).sum())(xs)
    np.testing.assert_allclose(have, want, atol=1e-5)

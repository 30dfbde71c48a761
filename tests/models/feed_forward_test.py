import jax
import numpy as np
import pytest
from flax import nnx
from jax import numpy as jnp

from passk_jax.models import policy as policies
from passk_jax.models.feed_forward import FEED_FORWARDS, SwiGLU
from passk_jax.planning.flops import program_flops
from tests.models import oracle


@pytest.mark.parametrize('kind', FEED_FORWARDS)
@pytest.mark.parametrize('stack', [(), (3,)])
def test_a_kind_declares_the_parameters_that_it_makes(kind, stack):
    part = FEED_FORWARDS[kind]
    arch = oracle.tiny_arch(feed_forward=kind)
    layer = part(arch, stack=stack, rngs=nnx.Rngs(params=0))
    declared = part.parameters(arch)
    shapes = {
        '.'.join(map(str, path)): x[...].shape
        for path, x in nnx.to_flat_state(nnx.state(layer))
    }
    assert shapes.keys() == declared.keys()
    for name, shape in shapes.items():
        assert shape[: len(stack)] == stack
        assert len(shape) - len(stack) == len(declared[name].array_axes)


def test_swiglu_gates_each_stream_and_its_gradient_is_exact():
    part = SwiGLU(oracle.tiny_arch(), rngs=nnx.Rngs(params=0))
    gate, up, down = (x.kernel[...] for x in (part.gate, part.up, part.down))
    xs = jax.random.normal(jax.random.key(0), (2, 1, 3, 4, 32))

    def plain(x):
        return (x @ gate * jax.nn.sigmoid(x @ gate) * (x @ up)) @ down

    for have, x in zip(part(*xs)[0], xs, strict=True):
        np.testing.assert_allclose(have, plain(x), atol=1e-5)
    have = jax.grad(lambda xs: jnp.sin(jnp.stack(part(*xs)[0])).sum())(xs)
    want = jax.grad(lambda xs: jnp.sin(plain(xs)).sum())(xs)
    np.testing.assert_allclose(have, want, atol=1e-5)


class Measured(SwiGLU):
    """It also says how large its inputs are."""

    def __call__(self, *xs):
        ys, _ = super().__call__(*xs)
        return ys, {'size': tuple(jnp.square(x).mean(-1) for x in xs)}


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setitem(FEED_FORWARDS, 'measured', Measured)


@pytest.mark.slow
@pytest.mark.parametrize('windows', [(0,), (0, 3)])
def test_statistics_of_each_layer_reach_the_caller_and_change_nothing(
    measured, windows
):
    policy, plain = (
        oracle.tiny_policy(num_layers=4, windows=windows, feed_forward=kind)
        for kind in ('measured', 'swiglu')
    )
    params = oracle.random_params(policy)
    prompts, tokens, _ = oracle.random_batch(vocab_size=16)
    (P, S), N, T = prompts.tokens.shape, tokens.shape[1], tokens.shape[2]
    streams = prompts.tokens[:, None], tokens
    places = np.arange(S)[None, None], S + np.arange(T)[None, None]
    places = tuple(np.broadcast_to(x, (P, *x.shape[1:])) for x in places)
    args = streams, places, prompts.lengths
    by_form = {}
    for form, weights in {
        'stacked': params,
        'apart': policies.prepare_decoding(policy, params),
    }.items():
        xs, _, statistics = policy.bind(weights).forward(*args, keep=False)
        want, _, none = plain.bind(weights).forward(*args, keep=False)
        assert none == {}
        jax.tree.map(np.testing.assert_array_equal, xs, want)
        assert statistics.keys() == {'size'}
        by_form[form] = statistics['size']
        assert [x.shape for x in by_form[form]] == [(4, P, 1, S), (4, P, N, T)]
    for x, y in zip(*by_form.values(), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4)
    # Each layer has its own: a norm makes the size the mean of its squared scale.
    scales = np.square(params['layers.mlp_norm.scale']).mean(-1)
    ratios = by_form['stacked'][1].mean((1, 2, 3)) / scales
    assert np.all((ratios > 0.5) & (ratios < 2))
    assert len(set(by_form['stacked'][1].mean((1, 2, 3)).tolist())) == 4


def test_flops_are_those_of_the_traced_products():
    arch = oracle.tiny_arch()
    part = SwiGLU(arch, rngs=nnx.Rngs(params=0))
    x = jnp.ones((1, 1, 3, arch.embed_dim))
    jaxpr = jax.make_jaxpr(lambda x: part(x)[0])(x)
    assert program_flops(jaxpr).total == 3 * SwiGLU.flops(arch)

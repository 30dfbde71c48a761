"""The router, the statistics of its choices, and what sampling reads of it."""

import dataclasses

import jax
import numpy as np
import pytest
from flax import nnx
from jax import numpy as jnp

from passk_jax.models import policy as policies
from passk_jax.models.experts import ROUTING, Experts, routing_dtype
from passk_jax.planning.flops import program_flops
from tests.models import oracle
from tests.slow import slow_values

MOE = {'feed_forward': 'moe', 'num_experts': 8, 'experts_per_token': 3}


def make(**changes):
    return Experts(oracle.tiny_arch(**(MOE | changes)), rngs=nnx.Rngs(params=0))


def draw(*shape):
    return jax.random.normal(jax.random.key(1), (*shape, 32))


def plain(part, x, *, renormalized):
    """The same by numpy, a token and an expert at a time."""
    router, gate, up, down = (
        np.asarray(y.kernel[...], np.float64)
        for y in (part.router, part.gate, part.up, part.down)
    )
    ys = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        row = np.asarray(x[place], np.float64)
        probs = np.exp(row @ router)
        probs /= probs.sum()
        top = np.argsort(-probs)[:3]
        scale = probs[top].sum() if renormalized else 1.0
        for e in top:
            a = row @ gate[e]
            hidden = a / (1 + np.exp(-a)) * (row @ up[e])
            ys[place] += probs[e] / scale * (hidden @ down[e])
    return ys


@pytest.mark.parametrize('renormalized', slow_values([True, False], quick=[True]))
def test_the_chosen_experts_count_by_their_probability(renormalized):
    part = make(norm_topk_prob=renormalized)
    xs = draw(2, 1, 5), draw(2, 3, 4)
    for y, x in zip(part(*xs)[0], xs, strict=True):
        np.testing.assert_allclose(
            y, plain(part, x, renormalized=renormalized), atol=1e-5
        )


def test_the_statistics_are_the_choices_and_the_entropy_of_the_router():
    part = make()
    x = draw(2, 3, 4)
    _, statistics = part(x)
    scores = x @ part.router.kernel[...]
    (chosen,), (entropy,) = statistics[ROUTING], statistics['router_entropy']
    assert chosen.dtype == jnp.uint8
    np.testing.assert_array_equal(chosen, jnp.argsort(-scores)[..., :3])
    probs = jax.nn.softmax(scores)
    np.testing.assert_allclose(entropy, -(probs * jnp.log(probs)).sum(-1), atol=1e-5)


@pytest.mark.parametrize(('count', 'dtype'), [(256, 'uint8'), (257, 'uint16')])
def test_choices_are_kept_in_the_smallest_integers(count, dtype):
    arch = oracle.tiny_arch(feed_forward='moe', num_experts=count)
    assert routing_dtype(arch) == dtype


def test_the_router_is_float32_where_all_else_is_not():
    """In the learner, and in what sampling reads."""
    part = make(dtype='bfloat16')
    x = draw(1, 2, 5).astype(jnp.bfloat16)
    _, statistics = part(x)
    kernel = part.router.kernel[...]
    rounded = kernel.astype(jnp.bfloat16).astype(jnp.float32)
    assert (kernel != rounded).any()
    with jax.default_matmul_precision('float32'):
        probs = jax.nn.softmax(x.astype(jnp.float32) @ kernel)
    want = jax.scipy.special.entr(probs).sum(-1)
    np.testing.assert_allclose(statistics['router_entropy'][0], want, atol=1e-6)
    policy = oracle.tiny_policy(**MOE, dtype='bfloat16')
    params = oracle.random_params(policy)
    for decoding in (
        policies.decoding_weights(policy, params),
        policies.prepare_decoding(policy, params),
    ):
        for name, y in decoding.items():
            wide = name.endswith('router.kernel')
            assert y.dtype == (jnp.float32 if wide else jnp.bfloat16), name
        router = decoding['layers.1.mlp.router.kernel']
        np.testing.assert_array_equal(router, params['layers.mlp.router.kernel'][1])


@pytest.mark.slow
def test_sampling_and_learner_choose_alike_in_bfloat16():
    policy = oracle.tiny_policy(**MOE, dtype='bfloat16')
    params = oracle.random_params(policy)
    decoding = policies.prepare_decoding(policy, params)
    xs = draw(2, 3, 4).astype(jnp.bfloat16)
    chosen = []
    for network, x in ((params, xs), (decoding, xs[:, :, :1])):
        model = policy.bind(network)
        if model.stacked:
            graphdef, state = nnx.split(model.layers)
            block = nnx.merge(graphdef, jax.tree.map(lambda x: x[1], state))
        else:
            block = model.layers[1]
        chosen.append(block.mlp(x)[1][ROUTING][0])
    np.testing.assert_array_equal(chosen[0][:, :, :1], chosen[1])


def test_experts_without_probability_have_no_weight_and_a_finite_gradient():
    """The recorded experts of a pad may be any, all of one number."""
    part = make(norm_topk_prob=True)
    graphdef, params = nnx.split(part)
    x = 1e4 * draw(2, 3, 4)
    scores = x @ part.router.kernel[...]
    worst = jnp.argmin(scores, axis=-1, keepdims=True)
    routing = (jnp.repeat(worst, 3, axis=-1),)
    lost = jnp.take_along_axis(jax.nn.softmax(scores), worst, axis=-1)
    assert (lost == 0).any()

    def loss(params):
        return nnx.merge(graphdef, params)(x, routing=routing)[0][0].sum()

    value, grads = jax.value_and_grad(loss)(params)
    assert all(jnp.isfinite(y).all() for y in jax.tree.leaves((value, grads)))


def test_the_gradient_reaches_the_router_through_the_weights():
    """As autodiff has it where every expert runs."""
    part = make(norm_topk_prob=True)
    x = draw(2, 3, 4)
    graphdef, params = nnx.split(part)

    def loss(params):
        return jnp.sin(nnx.merge(graphdef, params)(x)[0][0]).sum()

    def every(params):
        flat = {path[0]: y[...] for path, y in nnx.to_flat_state(params)}
        probs = jax.nn.softmax(x @ flat['router'])
        top = probs >= jnp.sort(probs)[..., -3:][..., :1]
        weights = jnp.where(top, probs, 0)
        weights /= weights.sum(-1, keepdims=True)
        a, b = (jnp.einsum('...d,edf->...ef', x, flat[y]) for y in ('gate', 'up'))
        ys = jnp.einsum('...ef,efd->...ed', jax.nn.silu(a) * b, flat['down'])
        return jnp.sin((ys * weights[..., None]).sum(-2)).sum()

    have, want = jax.grad(loss)(params), jax.grad(every)(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), have, want)
    assert np.abs(have['router']['kernel'][...]).max() > 0.01


def test_flops_are_those_of_the_active_experts():
    arch = oracle.tiny_arch(**MOE)
    dense = dataclasses.replace(
        oracle.tiny_arch(), mlp_dim=arch.mlp_dim * arch.experts_per_token
    )
    x = jnp.ones((1, 1, 4, 32))
    router = make().router
    jaxpr = jax.make_jaxpr(lambda x: router(x)[0])(x)
    of_router = program_flops(jaxpr).total / 4
    assert Experts.flops(arch) == of_router + 6 * dense.embed_dim * dense.mlp_dim


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'feed_forward': 'moe', 'num_experts': 0}, 'num_experts=0, experts_per_tok'),
        ({'feed_forward': 'moe', 'experts_per_token': 5}, 'runs 1 to num_experts'),
        ({'feed_forward': 'moe', 'experts_per_token': 0}, 'experts_per_token=0'),
        ({'num_experts': 4}, 'must be 0: this family has no experts'),
        ({'feed_forward': 'moe', 'experts': 'dense'}, "experts='dense' is none of"),
    ],
)
def test_an_architecture_has_the_experts_that_its_tokens_run(changes, words):
    with pytest.raises(ValueError, match=words):
        oracle.tiny_arch(**changes)

"""Grouped products against a sum over all experts, on one device and on several."""

import functools
import re
from unittest import mock

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import expert_products, grouped_products
from passk_jax.models.expert_products import mix
from passk_jax.models.grouped_products import IMPLEMENTATIONS
from passk_jax.models.layers import INSIDE_LAYERS, stream_axes
from tests.slow import slow_rows, slow_values

D, F = 16, 12


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """The TPU's kernel runs here as Python."""
    forward, backward = IMPLEMENTATIONS['ragged']
    backward = functools.partial(backward, interpret=True)
    monkeypatch.setitem(IMPLEMENTATIONS, 'ragged', (forward, backward))
    monkeypatch.setattr(grouped_products, '_TILES', (8, 16, 16))


def draw(shapes, *, E, k, seed=0, dtype='float32', favourites=None):
    """Streams, their experts and weights, and kernels."""
    rng = np.random.default_rng(seed)
    xs, chosen, weights = [], [], []
    for shape in shapes:
        xs.append(jnp.asarray(rng.standard_normal((*shape, D)), dtype))
        scores = rng.standard_normal((*shape, E))
        if favourites is not None:
            scores[..., favourites] += 100
        chosen.append(jnp.asarray(np.argsort(-scores)[..., :k], jnp.int32))
        weights.append(jnp.asarray(rng.uniform(0.1, 1, (*shape, k)), jnp.float32))
    sizes = (E, D, F), (E, D, F), (E, F, D)
    kernels = tuple(jnp.asarray(rng.standard_normal(x), jnp.float32) for x in sizes)
    return tuple(xs), tuple(chosen), tuple(weights), kernels


def every_expert(xs, chosen, weights, kernels):
    """All experts of all tokens, those not chosen with the weight 0."""
    gate, up, down = kernels
    ys = []
    for x, of_token, w in zip(xs, chosen, weights, strict=True):
        every = (of_token[..., None] == jnp.arange(len(gate))) * w[..., None]
        a = jnp.einsum('...d,edf->...ef', x, gate)
        b = jnp.einsum('...d,edf->...ef', x, up)
        y = jnp.einsum('...ef,efd->...ed', jax.nn.silu(a) * b, down)
        ys.append((y * every.sum(-2)[..., None]).sum(-2))
    return tuple(ys)


def grouped(implementation):
    def run(xs, chosen, weights, kernels):
        axes = stream_axes(xs, INSIDE_LAYERS)
        return mix(xs, chosen, weights, kernels, axes, implementation)

    return run


def evaluate(fn, xs, chosen, weights, kernels):
    """Values, and gradients of a loss that weighs every number differently."""

    def loss(xs, weights, kernels):
        ys = fn(xs, chosen, weights, kernels)
        total = sum(
            (y.astype(jnp.float32) * jnp.cos(jnp.arange(y.size).reshape(y.shape))).sum()
            for y in ys
        )
        return total, ys

    grads, ys = jax.grad(loss, (0, 1, 2), has_aux=True)(xs, weights, kernels)
    return ys, grads


def assert_close(have, want, tolerance=1e-6):
    """Relative to the largest number of each array."""
    for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * np.abs(y).max())


PROMPTS, RESPONSES = (2, 1, 8), (2, 4, 6)


@pytest.mark.parametrize('implementation', IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ('shapes', 'E', 'k', 'favourites'),
    [
        *slow_rows(
            [
                ([PROMPTS, RESPONSES], 8, 3, None),
                ([RESPONSES], 8, 1, None),
                ([PROMPTS], 4, 4, None),
            ]
        ),
        *slow_rows(
            [
                ([RESPONSES], 1, 1, None),
                # A token of one rollout; more experts than tokens.
                ([(1, 1, 1)], 8, 2, None),
                ([(2, 3, 1)], 32, 2, None),
            ]
        ),
        # All tokens have the same experts, so that most have none.
        ([PROMPTS, RESPONSES], 8, 2, [2, 7]),
    ],
)
def test_the_experts_of_each_token_are_added_up(
    implementation, shapes, E, k, favourites
):
    arguments = draw(shapes, E=E, k=k, favourites=favourites)
    want = evaluate(every_expert, *arguments)
    assert_close(evaluate(grouped(implementation), *arguments), want)


@pytest.mark.parametrize('max_pairs', slow_values([1, 7, 64], quick=[7]))
@pytest.mark.parametrize('implementation', IMPLEMENTATIONS)
def test_rows_in_chunks_give_what_all_rows_give(implementation, max_pairs, monkeypatch):
    arguments = draw([PROMPTS, RESPONSES], E=8, k=3)
    want = evaluate(every_expert, *arguments)
    monkeypatch.setattr(expert_products, 'MAX_PAIRS', max_pairs)
    assert_close(evaluate(grouped(implementation), *arguments), want)


def test_a_device_holds_a_chunk_of_the_rows(monkeypatch):
    arguments = draw([PROMPTS, RESPONSES], E=8, k=2)
    monkeypatch.setattr(expert_products, 'MAX_PAIRS', 10)
    jaxpr = str(
        jax.make_jaxpr(functools.partial(evaluate, grouped('blocks')))(*arguments)
    )
    # The 128 pairs of 64 tokens, 10 at a time.
    assert f'f32[10,{D}]' in jaxpr
    assert not re.search(rf'\[12[0-9],({D}|{F})\]', jaxpr)


@pytest.mark.parametrize('implementation', IMPLEMENTATIONS)
def test_a_token_depends_on_no_other(implementation):
    """Not even on one that holds NaN, and whatever experts the others have."""
    xs, chosen, weights, kernels = draw([RESPONSES], E=8, k=2)
    run = jax.jit(grouped(implementation))
    alone = run(xs, chosen, weights, kernels)[0]
    is_other = jnp.asarray(np.arange(6) > 2)
    (x,), (of_token,) = xs, chosen
    for changed in (jnp.nan, 1e30):
        ys = jnp.where(is_other[:, None], changed, x)
        ids = jnp.where(is_other[:, None], (of_token + 3) % 8, of_token)
        have = run((ys,), (ids,), weights, kernels)[0]
        np.testing.assert_array_equal(have[:, :, :3], alone[:, :, :3])


@pytest.mark.parametrize(
    'implementation', slow_values(IMPLEMENTATIONS, quick=['ragged'])
)
def test_the_gradient_of_a_kernel_is_not_rounded(implementation):
    """Only its factors are bfloat16, not the sum over a thousand tokens."""
    shape = (4, 16, 16)
    (x,), chosen, _, kernels = draw([shape], E=2, k=1, favourites=[1], dtype='bfloat16')
    ones = (jnp.ones((*shape, 1)),)
    run = functools.partial(grouped(implementation), (x,), chosen, ones)

    def loss(kernels):
        return run(kernels)[0].astype(jnp.float32).sum()

    grads = jax.grad(loss)(kernels)
    for gradient in grads:
        assert gradient.dtype == jnp.float32
        assert not gradient[0].any()
    gate, up = (y[1].astype(jnp.bfloat16) for y in kernels[:2])
    rows = x.reshape(-1, D)
    hidden = np.asarray(jax.nn.silu(rows @ gate) * (rows @ up), np.float64)
    want = np.broadcast_to(hidden.sum(axis=0)[:, None], (F, D))
    error = np.abs(grads[2][1] - want).max() / np.abs(want).max()
    assert error < 2e-4
    # XLA:CPU would leave a rounding out.
    jaxpr = str(jax.make_jaxpr(jax.grad(loss))(kernels))
    assert not re.search(rf'bf16\[({D},{F}|{F},{D})\] = dot_general', jaxpr)


@pytest.mark.parametrize('implementation', IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ('sizes', 'E'),
    [
        *slow_rows([({'tensor': size}, 8) for size in (1, 2, 4)]),
        *slow_rows([({'tensor': 4}, 4)]),
        # Devices that do not divide the experts have all of them.
        *slow_rows([({'tensor': 4}, 6), ({'fsdp': 2, 'tensor': 2}, 8)]),
        ({'data': 2, 'rollout': 2, 'tensor': 2}, 8),
        # The batch is not divided: all of its devices compute all of it.
        *slow_rows([({'fsdp': 4, 'tensor': 2}, 8)]),
    ],
    ids=str,
)
# The last prompts and responses are not divided either.
@pytest.mark.parametrize('shapes', [(PROMPTS, RESPONSES), ((2, 1, 7), (2, 3, 5))])
def test_devices_that_share_the_experts_give_what_one_gives(
    implementation, sizes, E, shapes
):
    arguments = draw(shapes, E=E, k=3)
    want = evaluate(every_expert, *arguments)
    sizes = dict.fromkeys(sharding.MESH_AXES, 1) | sizes
    count = int(np.prod(list(sizes.values())))
    mesh = sharding.make_mesh(**sizes, devices=jax.devices()[:count])
    with jax.set_mesh(mesh):
        have = jax.jit(functools.partial(evaluate, grouped(implementation)))(*arguments)
    assert_close(have, want)


def test_a_device_multiplies_by_its_own_experts_alone():
    """And nothing of every row with every expert is in the program."""
    xs, chosen, weights, kernels = draw([PROMPTS, RESPONSES], E=8, k=3)
    mesh = sharding.make_mesh(
        data=1, fsdp=1, rollout=1, tensor=4, devices=jax.devices()[:4]
    )
    with jax.set_mesh(mesh):
        run = functools.partial(evaluate, grouped('blocks'))
        compiled = jax.jit(run).lower(xs, chosen, weights, kernels).compile()
    text = compiled.as_text()
    assert 'all-to-all' not in text
    assert f'f32[2,{D},{F}]' in text
    assert f'f32[8,{D},{F}]' not in text


def test_kernels_are_gathered_once_for_streams_that_are_split_alike():
    """Prompts and responses share a sort, and one gradient crosses the network."""
    arguments = draw([PROMPTS, RESPONSES], E=4, k=2)
    with mock.patch.object(
        expert_products, '_sort', wraps=expert_products._sort
    ) as sort:
        grouped('blocks')(*arguments)
    assert sort.call_count == 1

"""Several responses in one row are each what they are in a row of their own."""

import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import attention_kernels
from passk_jax.models import policy as policies
from passk_jax.models.attention import attend
from passk_jax.types import Prompts
from tests.models import oracle
from tests.models.attention_kernels_test import (
    CASES,
    loss_and_value,
    random_inputs,
    with_interpreted_splash,
)
from tests.slow import slow_rows, slow_values

VOCAB, S, T = 16, 5, 9
# Responses 0 .. 3 of each prompt: row, first slot, tokens; the rest of a row is pads.
PLACES = [(0, 0, 4), (0, 4, 5), (1, 0, 1), (1, 1, 6)]
LENGTHS = np.array([place[2] for place in PLACES])


def packed(tokens, garbage=0):
    """The tokens ``[P, 4, T]`` in rows ``[P, 2, T]``, and where their responses start.

    A pad starts itself, and holds ``garbage``.
    """
    P = len(tokens)
    rows = np.full((P, 2, T), garbage, np.int32)
    starts = np.broadcast_to(np.arange(T, dtype=np.int32), rows.shape).copy()
    for n, (row, first, length) in enumerate(PLACES):
        rows[:, row, first : first + length] = tokens[:, n, :length]
        starts[:, row, first : first + length] = first
    return rows, starts


def unpacked(values):
    """The reverse for what was computed; 0 at pads."""
    places = np.zeros((4, T), int)
    for n, (row, first, length) in enumerate(PLACES):
        places[n, :length] = row * T + first + np.arange(length)
    flat = values.reshape(len(values), -1)[:, places]
    return jnp.where(jnp.arange(T) < LENGTHS[:, None], flat, 0.0)


def distance(a, b):
    """That of two trees, relative to the second."""
    vectors = [
        np.concatenate([np.float64(x).ravel() for x in jax.tree.leaves(tree)])
        for tree in (a, b)
    ]
    return np.linalg.norm(vectors[0] - vectors[1]) / np.linalg.norm(vectors[1])


@pytest.mark.parametrize(
    ('attention', 'remat', 'windows'),
    slow_rows(
        [
            ('plain', 'none', (0,)),
            ('plain', 'full', (0,)),
            ('plain', 'none', (4, 2)),
            ('splash', 'attention', (0, 3)),
        ],
        quick=[('plain', 'none', (4, 2))],
    ),
)
@with_interpreted_splash
def test_log_probs_entropies_and_gradients_are_those_of_rows_of_their_own(
    attention, remat, windows
):
    policy = oracle.tiny_policy(attention=attention, remat=remat, windows=windows)
    params = oracle.random_params(policy)
    rng = np.random.default_rng(0)
    prompts = Prompts(
        rng.integers(0, VOCAB, (2, S)), np.array([S, 2]), np.arange(2, dtype=np.int32)
    )
    tokens = rng.integers(0, VOCAB, (2, 4, T)).astype(np.int32)
    inside = np.arange(T) < LENGTHS[:, None]
    weights = rng.normal(size=tokens.shape) * inside

    def loss(params, rows, starts):
        outputs = policies.token_log_probs(
            policy, params, prompts, rows, starts, temperature=0.7
        )[:2]
        if starts is not None:
            outputs = tuple(map(unpacked, outputs))
        log_probs, entropies = (jnp.where(inside, x, 0.0) for x in outputs)
        return (weights * (log_probs + entropies)).sum(), (log_probs, entropies)

    grad = jax.jit(jax.value_and_grad(loss, has_aux=True))
    want = grad(params, tokens, None)
    for garbage in (0, VOCAB - 1):
        have = grad(params, *packed(tokens, garbage))
        for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(x, y, atol=2e-5, rtol=2e-5)
        assert distance(have[1], want[1]) < 1e-6


def random_starts(P, N, T):
    rng = np.random.default_rng(1)
    cuts = rng.uniform(size=(P, N, T)) < 0.4
    cuts[..., 0] = True
    return jnp.array(np.maximum.accumulate(np.where(cuts, np.arange(T), 0), axis=-1))


def value_and_gradients(name, window=0):
    """Of an attention, as a function of its arrays."""
    if name in CASES:
        attend_to = functools.partial(CASES[name], window=window)
    else:
        attend_to = functools.partial(
            attention_kernels.attend_whole, name, window=window
        )

    def value(query, suffix, prefix, lengths, starts):
        return loss_and_value(attend_to(query, suffix, prefix, lengths, starts))

    return jax.jit(jax.value_and_grad(value, argnums=(0, 1, 2), has_aux=True))


@pytest.mark.parametrize(
    ('name', 'with_prefix'), [('dense', True), ('splash', True), ('splash', False)]
)
@pytest.mark.parametrize('window', slow_values([0, 1, 4], quick=[4]))
def test_a_kernel_equals_the_plain_form_in_values_and_gradients(
    name, with_prefix, window
):
    query, suffix, prefix, lengths = random_inputs()
    if not with_prefix:
        prefix = lengths = None
    args = query, suffix, prefix, lengths, random_starts(*query.shape[:3])
    have, want = (value_and_gradients(x, window)(*args) for x in (name, 'plain'))
    for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('window', [0, 150])
def test_splash_is_exact_over_many_blocks_and_in_any_batch_of_rows(window):
    """Blocks are of 128 slots here, and the last ones are partly pads."""
    inputs = random_inputs(P=3, N=2, S=300, T=270)
    starts = jnp.array([0, 40, 41, 129, 260])
    starts = starts[jnp.searchsorted(starts, jnp.arange(270), side='right') - 1]
    starts = jnp.stack([starts, jnp.zeros_like(starts)])[None].repeat(3, axis=0)
    have, want = (
        value_and_gradients(name, window)(*inputs, starts)
        for name in ('splash', 'plain')
    )
    np.testing.assert_allclose(have[0][1], want[0][1], atol=1e-5)
    assert distance(have[1], want[1]) < 1e-6


@pytest.mark.parametrize('name', slow_values(CASES, quick=['dense']))
@pytest.mark.parametrize(
    'sizes', slow_values([(1, 2, 2, 2), (2, 1, 1, 4)], quick=[(1, 2, 2, 2)])
)
def test_the_gradient_of_a_prefix_adds_up_over_the_devices_that_share_its_rows(
    name, sizes
):
    inputs = random_inputs(P=4)
    args = *inputs, random_starts(*inputs[0].shape[:3])
    want = value_and_gradients(name)(*args)
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    with jax.set_mesh(mesh):
        have = value_and_gradients(name)(*args)
    for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_in_bfloat16_splash_is_as_near_as_the_plain_form():
    query, suffix, prefix, lengths = random_inputs(S=40, T=50)
    starts = random_starts(*query.shape[:3])
    want = value_and_gradients('plain')(query, suffix, prefix, lengths, starts)
    half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), (query, suffix, prefix))
    errors = [
        distance(value_and_gradients(name)(*half, lengths, starts)[1], want[1])
        for name in ('splash', 'plain')
    ]
    assert errors[0] < 1.5 * errors[1] < 0.03


@pytest.mark.slow
@with_interpreted_splash
def test_splash_runs_forward_once_where_remat_saves_attention():
    """Two kernels a row and one a prompt, each forward and backward."""
    policies_of = [
        oracle.tiny_policy(attention='splash', remat=remat)
        for remat in ('none', 'attention', 'full')
    ]
    counts = []
    for policy in policies_of:
        params = oracle.random_params(policy)
        loss = oracle.loss_of(policy, *oracle.random_batch(vocab_size=VOCAB))
        counts.append(str(jax.make_jaxpr(jax.grad(loss))(params)).count('pallas_call['))
    assert counts == [6, 6, 9]


def test_chunks_of_queries_see_where_their_responses_start():
    query, suffix, _, _ = random_inputs()
    starts = random_starts(*query.shape[:3])
    args = query, attention_kernels.key_values(suffix), jnp.arange(query.shape[2])
    unchunked = attend(*args, None, None, starts)
    cut = attend(*args, None, None, starts, max_logits=1)
    np.testing.assert_allclose(unchunked, cut, atol=1e-6)
    assert np.abs(unchunked - attend(*args, None, None)).max() > 1e-2

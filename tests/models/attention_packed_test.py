"""Several responses in one row are each what they are in a row of their own."""

import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.models import attention_kernels
from passk_jax.models import policy as policies
from passk_jax.models.attention import attend
from passk_jax.types import Prompts
from tests.models import oracle
from tests.models.attention_kernels_test import loss_and_value, random_inputs

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


@pytest.mark.parametrize(
    ('remat', 'windows'), [('none', (0,)), ('full', (0,)), ('none', (4, 2))]
)
def test_log_probs_entropies_and_gradients_are_those_of_rows_of_their_own(
    remat, windows
):
    policy = oracle.tiny_policy(remat=remat, windows=windows)
    params = oracle.random_params(policy)
    rng = np.random.default_rng(0)
    prompts = Prompts(
        rng.integers(0, VOCAB, (2, S)), np.array([S, 2]), np.arange(2, dtype=np.int32)
    )
    tokens = rng.integers(0, VOCAB, (2, 4, T)).astype(np.int32)
    inside = np.arange(T) < LENGTHS[:, None]
    weights = rng.normal(size=tokens.shape) * inside

    def loss(params, rows, starts):
        found = policies.token_log_probs(
            policy, params, prompts, rows, starts, temperature=0.7
        )[:2]
        if starts is not None:
            found = tuple(map(unpacked, found))
        log_probs, entropies = (jnp.where(inside, x, 0.0) for x in found)
        return (weights * (log_probs + entropies)).sum(), (log_probs, entropies)

    grad = jax.jit(jax.value_and_grad(loss, has_aux=True))
    want = grad(params, tokens, None)
    for garbage in (0, VOCAB - 1):
        have = grad(params, *packed(tokens, garbage))
        for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(x, y, atol=2e-5, rtol=2e-5)


def random_starts(P, N, T):
    rng = np.random.default_rng(1)
    cuts = rng.uniform(size=(P, N, T)) < 0.4
    cuts[..., 0] = True
    return jnp.array(np.maximum.accumulate(np.where(cuts, np.arange(T), 0), axis=-1))


@pytest.mark.parametrize('window', [0, 1, 4])
def test_the_call_of_a_kernel_equals_the_plain_form_in_values_and_gradients(window):
    query, own, prefix, lengths = random_inputs()
    starts = random_starts(*query.shape[:3])

    def have(query, own, prefix):
        shifted = lengths if window else None
        pair = attention_kernels.after_prefix(own, prefix, shifted)
        return loss_and_value(
            attention_kernels._dense(query, pair, lengths, 'xla', starts, window)
        )

    def want(query, own, prefix):
        mixed = attention_kernels.attend_whole(
            'plain', query, own, prefix, lengths, starts, window=window
        )
        return loss_and_value(mixed)

    run = functools.partial(jax.value_and_grad, argnums=(0, 1, 2), has_aux=True)
    have, want = (jax.jit(run(fn))(query, own, prefix) for fn in (have, want))
    for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, atol=2e-5, rtol=2e-5)


def test_chunks_of_queries_see_where_their_responses_start():
    query, own, _, _ = random_inputs()
    starts = random_starts(*query.shape[:3])
    args = query, attention_kernels.key_values(own), jnp.arange(query.shape[2])
    whole = attend(*args, None, None, starts)
    cut = attend(*args, None, None, starts, max_logits=1)
    np.testing.assert_allclose(whole, cut, atol=1e-6)
    assert np.abs(whole - attend(*args, None, None)).max() > 1e-2


def test_a_kernel_that_cannot_is_refused():
    query, own, prefix, lengths = random_inputs()
    starts = jnp.zeros(query.shape[:3], jnp.int32)
    with pytest.raises(ValueError, match=r"'splash' cannot attend to several .*plain"):
        attention_kernels.attend_whole('splash', query, own, prefix, lengths, starts)

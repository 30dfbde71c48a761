"""Sampling with keys and values as int8: the plain loop's tokens, in less memory."""

import dataclasses
import functools
import math

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import attention_kernels, decode_attention, decode_mesh
from passk_jax.models import policy as policies
from passk_jax.sampling.scheduled import grid
from passk_jax.sampling.scheduled.grid import Size
from tests.models.moved_weights_test import MESHES, four_heads, placed
from tests.sampling.sampler_test import (
    DEFAULT,
    LONGER,
    assert_same,
    at,
    decodings,
    free_decisions,  # noqa: F401
    key,
    plain,
    run,
    select,
    work_of,
)
from tests.sampling.sampler_test import T as SHORTER
from tests.slow import slow_rows

# Where a mesh sums in another order, a number between two steps may take the other one.
ONE_STEP = 1e-3


def with_int8_cache(policy):
    return dataclasses.replace(policy, quantizes_cache=True)


@pytest.fixture(scope='module')
def int8(two_layers):
    policy, params = two_layers
    return with_int8_cache(policy), params


@pytest.fixture(scope='module')
def oracles(int8, prompts):
    """The plain loop's, for both limits."""
    limits = (SHORTER, LONGER)
    return {limit: plain(*int8, prompts, max_response_tokens=limit) for limit in limits}


@pytest.mark.parametrize(
    ('size', 'tokens', 'ring'),
    [
        (Size(2, 2), LONGER, 80),
        *slow_rows([(None, SHORTER, 48), (Size(1, 1), SHORTER, 48)]),
    ],
)
def test_every_schedule_gives_the_plain_loops_rollouts(
    int8, prompts, oracles, size, tokens, ring
):
    """Rows are refilled and moved, prompts wait, and rings wrap and grow."""
    limit = work_of(int8[0], prompts, tokens=tokens).cache_bytes(size) if size else 0
    settings = {'max_response_tokens': tokens, 'max_cache_bytes': limit}
    with decodings() as runs:
        assert_same(run(*int8, prompts, **settings), oracles[tokens])
    (done,) = runs
    assert done.ring == ring > grid.shortest_ring(ring)
    assert done.arrays.state.layers[0].keys.dtype == jnp.int8


def test_it_draws_from_nearly_the_same_distribution(two_layers, int8, oracles):
    """So the learner's probabilities of its tokens are near, and not equal."""
    rollouts, (policy, params) = oracles[LONGER], two_layers
    learned = policies.token_log_probs(
        policy, params, rollouts.prompts, rollouts.tokens, temperature=1.0
    ).log_probs
    seen = np.arange(LONGER) < np.asarray(rollouts.lengths)[..., None]
    away = np.abs(learned - rollouts.sampler_log_probs)[seen]
    assert 1e-4 < away.mean() < 0.02
    # A prompt's own pass is not rounded.
    np.testing.assert_allclose(
        learned[..., 0], rollouts.sampler_log_probs[..., 0], atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize('sizes', [(2, 2, 1, 2), (1, 2, 2, 2)])
def test_the_mesh_does_not_matter(int8, prompts, oracles, sizes):
    policy, params = int8
    mesh, weights = placed(policy, params, sizes)
    with jax.set_mesh(mesh), decodings() as runs:
        local = jax.device_put(prompts, sharding.batch_sharding(mesh, prompts))
        limit = work_of(policy, local).cache_bytes(Size(1, 2))
        call_key = key()
        with jax.transfer_guard('disallow'):
            have = run(policy, weights, local, key=call_key, max_cache_bytes=limit)
    assert_same(have, oracles[SHORTER], atol=ONE_STEP)
    assert runs[0].num_cells == math.prod(sizes[:3])


@pytest.mark.slow
@pytest.mark.parametrize(('sizes', 'tensor'), MESHES)
def test_a_mesh_of_sampling_does_not_matter(prompts, sizes, tensor):
    policy, params = four_heads()
    policy = with_int8_cache(policy)
    expected = plain(policy, params, prompts)
    mesh, weights = placed(policy, params, sizes)
    decode = decode_mesh.make(mesh, tensor, num_kv_heads=4)
    with jax.set_mesh(mesh), jax.set_mesh(decode):
        local = jax.device_put(prompts, sharding.batch_sharding(decode, prompts))
        limit = work_of(policy, local).cache_bytes(Size(1, 1))
        scheduled = run(policy, weights, local, max_cache_bytes=limit)
        # The plain loop, which has room for everything.
        with at(DEFAULT):
            alone = run(policy, weights, local)
    for have in (scheduled, alone):
        assert_same(have, expected, atol=ONE_STEP)


@pytest.mark.slow
def test_the_kernel_of_tpus_samples_the_plain_forms_tokens(int8, prompts, monkeypatch):
    for module, name in (
        (attention_kernels, '_splash'),
        (decode_attention, 'attend_filled'),
    ):
        kernel = functools.partial(getattr(module, name), interpret=True)
        monkeypatch.setattr(module, name, kernel)
    policy, params = int8
    few = select(prompts, slice(0, 4))
    on_tpus = dataclasses.replace(
        policy, arch=dataclasses.replace(policy.arch, attention='splash')
    )
    limit = work_of(policy, few).cache_bytes(Size(2, 2))
    want = plain(policy, params, few, temperature=0.0)
    have = run(on_tpus, params, few, temperature=0.0, max_cache_bytes=limit)
    np.testing.assert_array_equal(have.tokens, want.tokens)


def test_about_twice_the_rows_fit_in_the_memory_of_bfloat16(prompts):
    policy, _ = four_heads()
    arch = dataclasses.replace(policy.arch, dtype='bfloat16', head_dim=64)
    policy = dataclasses.replace(policy, arch=arch)
    full, half = (work_of(x, prompts) for x in (policy, with_int8_cache(policy)))
    assert half.token_bytes / full.token_bytes == pytest.approx(68 / 128)
    limit = full.cache_bytes(Size(4, 4))
    few, many = (grid.first_size(x, max_bytes=limit).total for x in (full, half))
    assert 1.6 * few < many

"""Sampling on another mesh of the same devices than that of the weights."""

import jax
import pytest

from passk_jax import sharding
from passk_jax.models import decode_mesh
from passk_jax.sampling.scheduled.grid import Size
from tests.models.moved_weights_test import MESHES, four_heads, placed
from tests.sampling.sampler_test import (
    DEFAULT,
    assert_same,
    at,
    decodings,
    free_decisions,  # noqa: F401
    key,
    plain,
    run,
    work_of,
)
from tests.slow import slow_rows


@pytest.mark.parametrize(('sizes', 'tensor'), slow_rows(MESHES, quick=MESHES[:1]))
def test_every_mesh_of_sampling_gives_the_plain_loops_tokens(prompts, sizes, tensor):
    policy, params = four_heads()
    expected = plain(policy, params, prompts)
    mesh, weights = placed(policy, params, sizes)
    decode = decode_mesh.make(mesh, tensor, num_kv_heads=4)
    assert decode.shape['tensor'] == tensor
    assert [*decode.devices.flat] == [*mesh.devices.flat]
    with jax.set_mesh(mesh), jax.set_mesh(decode), decodings() as runs:
        local = jax.device_put(prompts, sharding.batch_sharding(decode, prompts))
        limit = work_of(policy, local).cache_bytes(Size(1, 1))
        call_key = key()
        with jax.transfer_guard('disallow'):
            scheduled = run(policy, weights, local, key=call_key, max_cache_bytes=limit)
        # The plain loop, which has room for everything.
        with at(DEFAULT):
            alone = run(policy, weights, local, key=call_key)
    for have in (scheduled, alone):
        assert_same(have, expected)
        assert have.tokens.sharding.mesh == decode
    (done,) = runs
    assert done.num_cells == 8 // tensor

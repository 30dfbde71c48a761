"""The mesh of sampling: which there are, and what becomes of one on fewer devices."""

import jax
import pytest

from passk_jax import sharding
from passk_jax.config import MeshConfig
from passk_jax.models import decode_mesh


@pytest.mark.parametrize(
    ('sizes', 'heads', 'want'),
    [
        # The replicas of the weights first, then their shards.
        ((1, 2, 4, 1), 4, {1: (1, 2, 4, 1), 2: (1, 2, 2, 2), 4: (1, 2, 1, 4)}),
        (
            (1, 4, 1, 2),
            8,
            {1: (1, 4, 2, 1), 2: (1, 4, 1, 2), 4: (1, 2, 1, 4)} | {8: (1, 1, 1, 8)},
        ),
        # Slices share 'data' alone.
        ((8, 1, 1, 1), 4, {1: (8, 1, 1, 1)}),
        ((2, 2, 2, 1), 6, {1: (2, 2, 2, 1), 2: (2, 2, 1, 2)}),
    ],
)
@pytest.mark.parametrize('abstract', [False, True])
def test_sampling_has_a_mesh_of_the_same_devices(sizes, heads, want, abstract):
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    mesh = mesh.abstract_mesh if abstract else mesh
    assert decode_mesh.sizes(mesh, num_kv_heads=heads) == want
    for tensor, axis_sizes in want.items():
        other = decode_mesh.make(mesh, tensor, num_kv_heads=heads)
        assert (other.axis_sizes, other.axis_types) == (axis_sizes, mesh.axis_types)
        assert (other is mesh) == (axis_sizes == sizes)
        if not abstract:
            assert [*other.devices.flat] == [*mesh.devices.flat]
    assert decode_mesh.make(mesh, 0, num_kv_heads=heads) is mesh


@pytest.mark.parametrize('tensor', [3, 8, 16])
def test_a_mesh_of_sampling_that_does_not_divide_is_refused(tensor):
    mesh = sharding.make_mesh(data=2, fsdp=1, rollout=4, tensor=1)
    with pytest.raises(ValueError, match=rf'={tensor} must be 0 .* one of \[1, 2, 4\]'):
        decode_mesh.make(mesh, tensor, num_kv_heads=24 if tensor == 3 else 16)


def test_a_multiple_whose_factor_does_not_divide_fsdp_is_refused():
    mesh = sharding.make_mesh(data=1, fsdp=2, rollout=1, tensor=4)
    assert 8 in decode_mesh.sizes(mesh, num_kv_heads=16)
    with pytest.raises(ValueError, match='by a factor that divides fsdp'):
        decode_mesh.make(mesh, 16, num_kv_heads=16)


@pytest.mark.parametrize(
    ('axes', 'size', 'want'),
    [
        ((1, -1, 1, 1), 2, 0),
        ((1, 1, -1, 1), 2, 0),
        ((1, -1, 1, 1), 1, 1),
        ((1, -1, 1, 1), 0, 0),
        # A fixed mesh is what was asked for; 'data' gives no devices; 3 divides no
        # heads on any. So these are refused later.
        ((1, 1, 1, 1), 2, 2),
        ((-1, 1, 1, 1), 2, 2),
        ((1, -1, 1, 1), 3, 3),
    ],
)
def test_an_open_mesh_of_too_few_devices_samples_itself(axes, size, want, caplog):
    config = MeshConfig(*axes, decode_tensor=size)
    mesh = sharding.one_device_mesh(jax.devices()[0])
    assert decode_mesh.tensor_on(mesh, config, num_kv_heads=4) == want
    assert ('has no mesh on these devices' in caplog.text) == (size != want)


def test_with_enough_devices_it_has_its_own():
    config = MeshConfig(data=1, fsdp=-1, rollout=1, tensor=1, decode_tensor=2)
    mesh = sharding.make_mesh(data=1, fsdp=8, rollout=1, tensor=1)
    assert decode_mesh.tensor_on(mesh, config, num_kv_heads=4) == 2

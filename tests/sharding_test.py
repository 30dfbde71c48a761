import dataclasses

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import AxisType, PartitionSpec

from passk_jax import sharding

EIGHT = {'data': 2, 'fsdp': 2, 'rollout': 1, 'tensor': 2}


def test_one_free_axis_takes_the_devices_that_are_left():
    assert dict(sharding.make_mesh(data=-1, fsdp=2, rollout=1, tensor=2).shape) == EIGHT
    assert dict(sharding.make_mesh(data=2, fsdp=-1, rollout=1, tensor=2).shape) == EIGHT
    assert dict(sharding.make_mesh(data=2, fsdp=2, rollout=1, tensor=-1).shape) == EIGHT
    mesh = sharding.make_mesh(
        data=1, fsdp=1, rollout=1, tensor=1, devices=jax.devices()[:1]
    )
    assert mesh.size == 1
    assert set(mesh.axis_types) == {AxisType.Auto}


def test_a_process_may_compute_on_a_device_of_its_own():
    device = jax.local_devices()[3]
    with jax.set_mesh(sharding.make_mesh(**EIGHT)):
        with jax.set_mesh(sharding.one_device_mesh(device)):
            assert (jnp.arange(3) + np.ones(3)).devices() == {device}
        assert len((jnp.arange(8) + np.ones(8)).devices()) == 8


@pytest.mark.parametrize(
    ('sizes', 'words'),
    [
        ((-1, -1, 1), 'at most one -1'),
        ((0, 1, 1), 'positive'),
        ((-2, 1, -1), 'positive'),
        ((3, 1, 1), "'data': 3.*8 devices"),
        ((-1, 3, 1), "'data': -1, 'fsdp': 3.*8 devices"),
        ((-1, 16, 1), "'data': -1, 'fsdp': 16.*8 devices"),
        ((4, 4, 1), '8 devices'),
    ],
)
def test_sizes_that_do_not_fit_the_devices_are_refused(sizes, words):
    data, fsdp, tensor = sizes
    with pytest.raises(ValueError, match=words):
        sharding.make_mesh(data=data, fsdp=fsdp, rollout=1, tensor=tensor)


@dataclasses.dataclass(frozen=True)
class Chip:
    """What a TPU's device says of itself."""

    id: int
    coords: tuple[int, ...]
    slice_index: int
    platform: str = 'tpu'
    device_kind: str = 'TPU v5 lite'
    process_index: int = 0
    core_on_chip: int = 0


def two_slices():
    """Two slices of 2 x 2 chips."""
    return [
        Chip(4 * i + 2 * y + x, (x, y, 0), i)
        for i in range(2)
        for y in range(2)
        for x in range(2)
    ]


@pytest.mark.parametrize('data', [2, 4])
def test_slices_share_the_data_axis_alone(data):
    grid = sharding._grid((data, 4 // data, 1, 2), two_slices())
    for i, half in enumerate(np.split(grid, 2)):
        assert {chip.slice_index for chip in half.flat} == {i}


def test_a_data_axis_that_slices_do_not_divide_is_refused():
    with pytest.raises(ValueError, match=r'data=1 must be a multiple of the 2 slices'):
        sharding._grid((1, 4, 1, 2), two_slices())


def test_an_axis_is_split_by_the_rules_and_whole_where_it_does_not_divide():
    def spec(axes, shape):
        return sharding.partition_spec(axes, shape, EIGHT)

    assert spec(('batch', None), (8, 3)) == PartitionSpec(('data', 'fsdp'), None)
    assert spec(('batch', None), (6, 3)) == PartitionSpec(None, None)
    assert spec(('embed', 'heads', None), (4, 6, 8)) == PartitionSpec(
        'fsdp', 'tensor', None
    )
    assert spec(('embed', 'kv_heads', None), (4, 1, 8)) == PartitionSpec(
        'fsdp', None, None
    )
    alone = sharding.partition_spec(('batch', 'vocab'), (8, 8), dict.fromkeys(EIGHT, 1))
    assert alone == PartitionSpec(None, None)


def test_the_parts_of_an_axis_are_counted_under_a_mesh_only():
    assert sharding.mesh_shards('batch') == 1
    assert sharding.num_shards('batch', 8) == 1
    assert sharding.local_size('batch', 8) == 8
    with jax.set_mesh(sharding.make_mesh(**EIGHT)):
        assert sharding.num_shards('batch', 8) == 4
        assert sharding.local_size('batch', 8) == 2
        assert sharding.divides('batch', 8)
        # 6 is not divisible, so every device has the whole array.
        assert not sharding.divides('batch', 6)
        assert sharding.num_shards('batch', 6) == 1
        assert sharding.local_size('batch', 6) == 6
        # Whatever the size.
        assert sharding.mesh_shards('batch') == 4


def test_unknown_axes_and_wrong_ranks_are_refused():
    with pytest.raises(ValueError, match=r"\['layers'\].*'batch'"):
        sharding.partition_spec(('layers',), (8,), EIGHT)
    with pytest.raises(ValueError, match=r'shape=\(8, 2\)'):
        sharding.partition_spec(('batch',), (8, 2), EIGHT)


def test_shard_constrains_inside_a_mesh_and_does_nothing_outside():
    x = jnp.arange(32.0).reshape(8, 4)
    assert sharding.shard(x, 'batch', 'heads') is x
    mesh = sharding.make_mesh(**EIGHT)
    with jax.set_mesh(mesh):
        y = jax.jit(lambda x: sharding.shard(x, 'batch', 'heads'))(x)
    assert {s.data.shape for s in y.addressable_shards} == {(2, 2)}
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ('sizes', 'kind'),
    [
        ((1, 4, 2, 1), 'reduce-scatter'),
        ((2, 2, 1, 2), 'reduce-scatter'),
        # Nobody shares the batch, or the sum is not split: nothing to scatter.
        ((1, 1, 8, 1), 'all-reduce'),
        ((1, 1, 1, 8), None),
    ],
)
def test_the_sum_over_shards_is_scattered_as_the_master_is(sizes, kind):
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    with jax.set_mesh(mesh):
        G, K = sharding.num_shards('batch', 8), sharding.num_shards('rollouts', 8)
        parts = jnp.arange(G * K * 8 * 16.0).reshape(G, K, 8, 16)
        run = jax.jit(lambda x: sharding.sum_over_shards(x, ('embed', 'mlp')))

        have = run(parts)
        text = run.lower(parts).compile().as_text()
    np.testing.assert_array_equal(have, parts.sum((0, 1)))
    spec = sharding.partition_spec(('embed', 'mlp'), (8, 16), mesh.shape)
    assert have.sharding.is_equivalent_to(jax.NamedSharding(mesh, spec), 2)
    assert ('reduce-scatter' in text) == (kind == 'reduce-scatter')


@pytest.mark.parametrize('axes', [('mlp', None), (None, 'heads')])
def test_a_sum_without_the_axis_that_is_scattered_is_split_by_the_others(axes):
    mesh = sharding.make_mesh(data=2, fsdp=2, rollout=1, tensor=2)
    parts = jnp.arange(4 * 8 * 16.0).reshape(4, 1, 8, 16)
    with jax.set_mesh(mesh):
        have = jax.jit(lambda x: sharding.sum_over_shards(x, axes))(parts)
    np.testing.assert_array_equal(have, parts.sum((0, 1)))
    spec = sharding.partition_spec(axes, (8, 16), mesh.shape)
    assert have.sharding.is_equivalent_to(jax.NamedSharding(mesh, spec), 2)


def test_a_sum_whose_batch_is_not_shared_is_cut_and_not_added_up():
    mesh = sharding.make_mesh(data=1, fsdp=8, rollout=1, tensor=1)
    with jax.set_mesh(mesh):
        have = jax.jit(lambda x: sharding.sum_over_shards(x, ('embed', None)))(
            jnp.ones((1, 1, 8, 2))
        )
    np.testing.assert_array_equal(have, 1)


def test_batches_and_optimizer_states_find_their_shardings():
    mesh = sharding.make_mesh(**EIGHT)
    batch = {'tokens': jnp.zeros((8, 3, 2)), 'lengths': jnp.zeros(8)}
    for x in jax.tree.leaves(sharding.batch_sharding(mesh, batch)):
        assert x.spec[0] == ('data', 'fsdp')
    state = (jnp.int32(0), {'mu': {'mlp.up': jnp.zeros((4, 2))}})
    paths = []

    def axes_of(path):
        paths.append(path)
        return ('embed', 'mlp')

    count, moments = sharding.tree_sharding(mesh, state, axes_of)
    assert paths == ['1.mu.mlp.up']
    assert count == sharding.replicated(mesh)
    assert moments['mu']['mlp.up'].spec == PartitionSpec('fsdp', 'tensor')


def test_a_batch_is_placed_over_the_mesh_and_comes_back_as_it_was():
    mesh = sharding.make_mesh(data=2, fsdp=4, rollout=1, tensor=1)
    batch = {'a': np.arange(16).reshape(8, 2), 'b': np.arange(3)}
    placed = sharding.place(mesh, batch)
    assert len(placed['a'].sharding.device_set) == 8
    assert placed['a'].addressable_shards[0].data.shape == (1, 2)
    # Three rows do not divide: they are everywhere whole.
    assert placed['b'].addressable_shards[0].data.shape == (3,)
    back = jax.device_get(placed)
    jax.tree.map(np.testing.assert_array_equal, back, batch)

import dataclasses
import math

import pytest

from passk_jax.config import MeshConfig
from passk_jax.planning import fits, meshes, topologies
from tests import tiny
from tests.planning.conftest import make_builder

SIZES = {
    'model__arch__num_kv_heads': 2,
    'train__num_prompts': 16,
    'train__mini_batch_prompts': 8,
    'train__micro_batch_prompts': 4,
}


@pytest.fixture
def builder():
    """16 prompts a step, 8 an update, 4 a pass, of 4 rollouts; two heads of keys."""
    return make_builder(tiny.make_config(**SIZES), fsdp=4, rollout=2, tensor=1)


def sizes(builder, overrides):
    return dict(builder.changed(overrides).mesh.shape)


def test_other_meshes_have_the_same_devices_and_repeat_no_work(builder):
    alternatives = meshes.other_meshes(builder)
    shapes = [tuple(sizes(builder, overrides).values()) for overrides in alternatives]
    assert shapes == [
        # The nearest first, and those with more shards of tensors last.
        *((1, 2, 4, 1), (1, 8, 1, 1)),
        *((1, 2, 2, 2), (1, 4, 1, 2), (1, 1, 4, 2)),
    ]
    for overrides in alternatives:
        other = builder.changed(overrides)
        assert other.train.micro_batch_prompts % other.mesh.shape['fsdp'] == 0
        assert 8 % other.train.micro_batch_prompts == 0


def test_other_meshes_have_the_mesh_of_sampling_that_is_asked_for_or_none(builder):
    apart = builder.changed({'mesh.decode_tensor': 2})
    # That of 8 prompts and no rollout shards gives 'tensor' two of the eight.
    assert meshes.other_meshes(apart) == meshes.other_meshes(builder)
    # 'data' gives up none of its devices.
    (alone,) = meshes.other_meshes(builder, data=8)
    (same,) = meshes.other_meshes(apart, data=8)
    assert same == alone | {'mesh.decode_tensor': 0}
    # One that was dropped comes back where a mesh has it.
    dropped = builder.changed({'mesh.decode_tensor': 0})
    back = meshes.other_meshes(dropped, decode_tensor=2)
    again = [x | {'mesh.decode_tensor': 2} for x in meshes.other_meshes(builder)]
    assert back == again


def test_a_pass_that_a_mesh_does_not_divide_is_one_prompt_a_device(builder):
    alternatives = meshes.other_meshes(builder)
    (wide,) = (x for x in alternatives if sizes(builder, x)['fsdp'] == 8)
    assert wide['train.micro_batch_prompts'] == 8
    assert all(
        'train.micro_batch_prompts' not in x for x in alternatives if x is not wide
    )


def test_the_rollouts_of_a_pass_are_divided_not_those_of_a_step(builder):
    part = builder.changed({'train.micro_batch_rollouts': 2})
    alternatives = meshes.other_meshes(part)
    assert alternatives
    assert all(sizes(part, x)['rollout'] <= 2 for x in alternatives)


@pytest.mark.parametrize(
    ('mesh', 'want'),
    [
        ((1, -1, 2, 1), (1, 16, 2, 1)),
        ((1, 4, 2, 1), (1, 4, 2, 1)),
        ((1, -1, 64, 1), (1, 1, 64, 1)),
    ],
)
def test_an_open_axis_takes_the_devices_that_are_left(mesh, want):
    axes = ('data', 'fsdp', 'rollout', 'tensor')
    config = MeshConfig(**dict(zip(axes, mesh, strict=True)), decode_tensor=0)
    assert tuple(meshes.completed(config, 32).shape.values()) == want


def on(name, *, memory):
    topology = topologies.parse(name)
    chip = dataclasses.replace(topology.chip, memory=memory)
    return dataclasses.replace(topology, chip=chip)


def test_a_mesh_of_the_devices_stays(builder):
    assert meshes.first_mesh(builder, ['train'], on('v5e:2x4', memory=1e12)) == {}


def test_for_other_devices_the_nearest_mesh_is_taken(builder):
    first = meshes.first_mesh(builder, ['train'], on('v5e:2x2', memory=1e12))
    assert first == {'mesh.fsdp': 2}


def test_a_nearer_mesh_that_cannot_fit_is_passed_over(builder):
    four = builder.changed({'mesh.rollout': 1})
    needed = max(fits.count_bytes(four, x) for x in ('train', 'decode'))
    near = builder.changed({'mesh.fsdp': 2})
    assert fits.count_bytes(near, 'train') > needed
    topology = on('v5e:2x2', memory=needed)
    first = meshes.first_mesh(builder, ['train', 'decode'], topology)
    assert first == {'mesh.rollout': 1}


def test_slices_share_the_axis_data(builder):
    topology = on('2xv5e:2x4', memory=1e12)
    first = meshes.first_mesh(builder, ['train'], topology)
    assert sizes(builder, first)['data'] == 2
    assert math.prod(sizes(builder, first).values()) == 16


def test_devices_that_divide_nothing_are_refused(builder):
    with pytest.raises(ValueError, match='no mesh of 9 devices divides the prompts'):
        meshes.first_mesh(builder, ['train'], on('v5e:3x3', memory=1e12))

"""Master weights on one mesh, and what sampling reads of them on another."""

import functools
import math
import re
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.models import decode_mesh, moved_weights
from passk_jax.models import policy as policies
from tests.models import oracle

# The sizes of the mesh of the weights, and 'tensor' of that of sampling.
MESHES = [
    ((1, 2, 4, 1), 4),
    ((2, 1, 4, 1), 2),
    ((1, 4, 1, 2), 4),
    ((1, 8, 1, 1), 4),
    ((1, 2, 1, 4), 1),
]


@functools.cache
def four_heads():
    """A policy whose keys and values four devices share, with its weights."""
    policy = oracle.tiny_policy(
        vocab_size=12, num_layers=2, num_heads=4, num_kv_heads=4
    )
    return policy, oracle.random_params(policy)


def placed(policy, params, sizes):
    """The weights on a mesh, and that mesh."""
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    shapes = policies.param_shapes(policy, mesh)
    return mesh, {k: jax.device_put(v, shapes[k].sharding) for k, v in params.items()}


@pytest.mark.parametrize(('sizes', 'tensor'), MESHES)
def test_the_weights_move_once_with_their_values(sizes, tensor):
    policy, params = four_heads()
    mesh, weights = placed(policy, params, sizes)
    decode = decode_mesh.make(mesh, tensor, num_kv_heads=4)
    with jax.set_mesh(decode):
        moved = moved_weights.weights_of_sampling(policy, weights)
        _, at_home = placed(policy, params, decode.axis_sizes)
        expected = policies.decoding_weights(policy, at_home)
    assert moved.keys() == expected.keys()
    for name, x in expected.items():
        assert moved[name].sharding.mesh == decode, name
        assert moved[name].sharding.is_equivalent_to(x.sharding, x.ndim), name
        np.testing.assert_array_equal(moved[name], x, err_msg=name)


def test_a_device_receives_its_part_of_the_weights_alone():
    policy, params = four_heads()
    mesh, weights = placed(policy, params, (1, 2, 4, 1))
    decode = decode_mesh.make(mesh, 4, num_kv_heads=4)
    with jax.set_mesh(decode):
        program = moved_weights.move_program(policy, decode).lower(weights)
        text = program.compile().as_text()
        moved = moved_weights.weights_of_sampling(policy, weights)
    largest = max(math.prod(x.sharding.shard_shape(x.shape)) for x in moved.values())
    gathers = re.findall(r'= f32\[([\d,]+)\]\S* all-gather\(', text)
    assert gathers
    for shape in gathers:
        assert math.prod(map(int, shape.split(','))) <= largest
    assert 'all-to-all(' not in text


def test_weights_on_the_mesh_of_sampling_are_prepared_as_ever():
    policy, params = four_heads()
    mesh, weights = placed(policy, params, (1, 2, 2, 2))
    moves = mock.patch.object(moved_weights, 'move_program', side_effect=AssertionError)
    with moves:
        moved_weights.weights_of_sampling(policy, weights)
        moved_weights.weights_of_sampling(policy, params)
        with jax.set_mesh(mesh):
            moved_weights.weights_of_sampling(policy, weights)

import dataclasses

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from passk_jax import sampling
from passk_jax.models import policy as policies
from passk_jax.planning.builder import shard_bytes, tree_bytes
from passk_jax.planning.programs import PROGRAMS, build
from passk_jax.types import Prompts
from tests import tiny
from tests.planning.conftest import make_builder, make_decoding_apart


def test_a_device_holds_its_shard_of_what_is_split(builder):
    split = NamedSharding(builder.mesh, PartitionSpec('fsdp', None))
    unsplit = NamedSharding(builder.mesh, PartitionSpec())
    tree = [
        jax.ShapeDtypeStruct((8, 3), np.float32, sharding=split),
        jax.ShapeDtypeStruct((5,), np.int8, sharding=unsplit),
        None,
    ]
    assert shard_bytes(tree) == 4 * 3 * 4 + 5
    assert tree_bytes(tree) == 8 * 3 * 4 + 5


def test_a_function_that_does_not_say_where_its_result_lies_is_refused(builder):
    assert builder.constrained(lambda: jnp.int32(0)).sharding.is_fully_replicated
    with pytest.raises(ValueError, match=r'does not constrain the sharding of'):
        builder.constrained(lambda: jnp.zeros((8,)))


@pytest.mark.parametrize('int8', [False, True])
def test_what_sampling_keeps_lies_where_the_compiler_puts_it(builder, int8):
    """The sampler's own functions, compiled, against what their constraints say."""
    policy = dataclasses.replace(builder.policy, quantizes_cache=int8)
    builder = dataclasses.replace(builder, policy=policy)
    sizes = {'num_prompts': 8, 'num_rollouts': 4, 'num_tokens': 4}

    def compute():
        params = policies.init_params(builder.policy, jax.random.key(0), builder.mesh)
        weights = policies.prepare_decoding(builder.policy, params)
        return weights, policies.empty_cache(builder.policy, **sizes).layers

    with jax.set_mesh(builder.mesh):
        arrays = jax.jit(compute)()
    want = builder.decoding_weights(), builder.cache().layers
    assert jax.tree.structure(arrays) == jax.tree.structure(want)
    for have, shape in zip(*map(jax.tree.leaves, (arrays, want)), strict=True):
        assert have.shape == shape.shape
        assert have.sharding.is_equivalent_to(shape.sharding, have.ndim)


def test_a_changed_experiment_has_its_own_mesh_policy_and_sizes(builder):
    overrides = {'mesh.fsdp': 4, 'mesh.rollout': 1, 'model.remat': 'full'}
    overrides |= {'model.head_chunk_tokens': 3, 'train.num_prompts': 16}
    other = builder.changed(overrides | {'train.mini_batch_prompts': 16})
    assert dict(other.mesh.shape) == {'data': 1, 'fsdp': 4, 'rollout': 1, 'tensor': 2}
    assert (other.policy.arch.remat, other.policy.head_chunk_tokens) == ('full', 3)
    assert other.train == dataclasses.replace(
        builder.train, num_prompts=16, mini_batch_prompts=16
    )
    config = tiny.make_config(
        model__remat='full',
        model__head_chunk_tokens=3,
        train__num_prompts=16,
        train__mini_batch_prompts=16,
    )
    want = make_builder(config, fsdp=4, rollout=1)
    for name in PROGRAMS:
        have = build(other, name)
        assert shard_bytes(have.arguments) == shard_bytes(build(want, name).arguments)


def test_a_changed_mesh_of_sampling_is_one_of_the_devices():
    apart = make_decoding_apart()
    assert apart.sampling_run.mesh.axis_sizes == (1, 2, 2, 2)
    other = apart.changed({'mesh.decode_tensor': 0})
    assert other.sampling_run.mesh.axis_sizes == other.mesh.axis_sizes == (1, 2, 4, 1)
    assert (
        other.changed({'mesh.decode_tensor': 2}).sampling_run.mesh.shape['tensor'] == 2
    )
    with pytest.raises(ValueError, match=r'mesh.decode_tensor=3 .* one of \[1, 2\]'):
        apart.changed({'mesh.decode_tensor': 3})


def test_the_rollouts_are_those_that_sampling_gives(builder):
    params = policies.param_shapes(builder.policy, builder.mesh)
    have = builder.rollouts()

    def sample(params, tokens, lengths, problem_ids):
        return sampling.sample(
            builder.policy,
            params,
            Prompts(tokens, lengths, problem_ids),
            key=jax.random.key(0),
            num_rollouts=builder.sampling.num_rollouts,
            max_response_tokens=builder.sampling.max_response_tokens,
            options=builder.sampling.options,
            stop_tokens=(1,),
        )

    prompts = have.prompts
    want = jax.eval_shape(
        sample, params, prompts.tokens, prompts.lengths, prompts.problem_ids
    )
    assert jax.tree.structure(have) == jax.tree.structure(want)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), (have, want))
    assert shapes[0] == shapes[1]

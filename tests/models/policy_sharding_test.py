"""The policy's parameters and results on meshes of several devices."""

import dataclasses

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import policy as policies
from tests import tiny
from tests.models import oracle
from tests.planning.conftest import make_builder
from tests.slow import slow_rows

# Every axis with every other one, two by two or all of the devices.
MESHES = [
    {'data': 2, 'fsdp': 2, 'rollout': 1, 'tensor': 2},
    {'data': 1, 'fsdp': 2, 'rollout': 2, 'tensor': 2},
    {'data': 2, 'fsdp': 1, 'rollout': 4, 'tensor': 1},
]


def place(mesh, tree):
    return jax.device_put(tree, sharding.batch_sharding(mesh, tree))


def place_params(policy, mesh, params):
    shapes = policies.param_shapes(policy, mesh)
    return jax.tree.map(lambda x, s: jax.device_put(x, s.sharding), params, shapes)


@pytest.mark.parametrize(
    ('tie', 'head_chunk_tokens', 'shape'),
    [
        *slow_rows([(True, 4, MESHES[0]), (False, 1 << 20, MESHES[1])]),
        (True, 4, MESHES[2]),
    ],
)
def test_sharded_log_probs_and_gradients_equal_one_devices(
    tie, head_chunk_tokens, shape
):
    policy = oracle.tiny_policy(tie_embeddings=tie, head_chunk_tokens=head_chunk_tokens)
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16, P=4, S=6, N=4)
    want, want_grads = oracle.evaluate(policy, params, *batch)
    mesh = sharding.make_mesh(**shape)
    with jax.set_mesh(mesh):
        have, have_grads = oracle.evaluate(
            policy, place_params(policy, mesh, params), *place(mesh, batch)
        )
    np.testing.assert_allclose(have, want, atol=1e-5)
    assert oracle.relative_error(have_grads, want_grads) < 1e-5


@pytest.mark.parametrize(
    ('family', 'shape'),
    [
        ('qwen2', {'fsdp': 2, 'rollout': 2, 'tensor': 2}),
        *slow_rows(
            [
                ('qwen3_moe', {'fsdp': 2, 'rollout': 1, 'tensor': 4}),
                ('qwen3_vl', {'fsdp': 2, 'rollout': 1, 'tensor': 4}),
            ]
        ),
    ],
)
def test_no_layer_splits_its_heads_late(family, shape):
    """Tokens that 'tensor' splits are gathered, not exchanged for heads."""
    sizes = {'data__max_prompt_tokens': 8, 'sampling__max_response_tokens': 8}
    arch = oracle.family_arch(family, num_layers=1, num_heads=8, num_kv_heads=4)
    if arch.vision:
        vision = dataclasses.replace(arch.vision, num_heads=4)
        arch = dataclasses.replace(arch, vision=vision)
    policy = policies.Policy(arch, head_chunk_tokens=64)
    builder = make_builder(tiny.make_config(**sizes), **shape)
    builder = dataclasses.replace(builder, policy=policy)

    def loss(params, rollouts):
        streams = rollouts.prompts, rollouts.tokens
        scores = policies.token_log_probs(policy, params, *streams, temperature=1.0)
        return scores.log_probs.sum()

    arguments = builder.weights().merged, builder.rollouts()
    with jax.set_mesh(builder.mesh):
        text = jax.jit(jax.grad(loss)).lower(*arguments).compile().as_text()
    assert 'all-reduce' in text
    assert 'all-to-all' not in text


@pytest.mark.slow
@pytest.mark.parametrize('shape', MESHES[:2])
def test_sharded_prefill_and_decode_equal_one_devices(shape):
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, _ = oracle.random_batch(vocab_size=16, P=4, N=4)

    @jax.jit
    def run(params, prompts, tokens):
        P, N, T = tokens.shape
        params = policies.prepare_decoding(policy, params)
        hidden, prefix = policies.prefill(policy, params, prompts)
        out = [policies.logits(policy, params, hidden)[:, None].repeat(N, 1)]
        cache = policies.empty_cache(
            policy, num_prompts=P, num_rollouts=N, num_tokens=T
        )
        for t in range(T):
            hidden, cache = policies.decode(
                policy, params, tokens[..., t], prefix, cache
            )
            out.append(policies.logits(policy, params, hidden))
        return jnp.stack(out)

    want = run(params, prompts, tokens)
    mesh = sharding.make_mesh(**shape)
    with jax.set_mesh(mesh):
        have = run(place_params(policy, mesh, params), *place(mesh, (prompts, tokens)))
    np.testing.assert_allclose(have, want, atol=1e-5)


def test_first_parameters_are_the_same_bits_on_every_mesh():
    policy = oracle.tiny_policy(num_layers=1)

    def init(data, fsdp, tensor):
        devices = jax.devices()[: data * fsdp * tensor]
        mesh = sharding.make_mesh(
            data=data, fsdp=fsdp, rollout=1, tensor=tensor, devices=devices
        )
        params = policies.init_params(policy, jax.random.key(3), mesh)
        shapes = policies.param_shapes(policy, mesh)
        assert params.keys() == shapes.keys()
        for name, x in params.items():
            assert (x.shape, x.dtype) == (shapes[name].shape, shapes[name].dtype)
            assert x.sharding == shapes[name].sharding
        return params

    want = init(1, 1, 1)
    for sizes in [(1, 2, 4), (2, 2, 2)]:
        have = init(*sizes)
        jax.tree.map(np.testing.assert_array_equal, have, want)


@pytest.mark.parametrize('tie', [True, False])
def test_every_parameter_is_split_by_its_axes(tie):
    policy = oracle.tiny_policy(tie_embeddings=tie, qk_norm=True)
    mesh = sharding.make_mesh(data=2, fsdp=2, rollout=1, tensor=2)
    shapes = policies.param_shapes(policy, mesh)
    for name, x in shapes.items():
        axes = policies.param_axes(policy, name)
        assert len(axes) == len(x.shape), name
        spec = sharding.partition_spec(axes, x.shape, mesh.shape)
        assert x.sharding.spec == spec, name


def test_parameters_are_split_by_the_rules_and_whole_where_they_do_not_divide():
    policy = oracle.tiny_policy(vocab_size=15)
    mesh = sharding.make_mesh(data=1, fsdp=2, rollout=1, tensor=4)
    params = policies.init_params(policy, jax.random.key(0), mesh)

    def part(name):
        x = params[name]
        shards = {s.data.shape for s in x.addressable_shards}
        assert len(shards) == 1
        return shards.pop()

    assert part('layers.attention.query.kernel') == (2, 16, 1, 8)
    assert part('layers.attention.key.kernel') == (2, 16, 2, 8)  # 2 heads, 4 devices
    assert part('layers.attention.out.kernel') == (2, 1, 8, 16)
    assert part('layers.mlp.gate.kernel') == (2, 16, 12)
    assert part('layers.mlp.down.kernel') == (2, 12, 16)
    assert part('embed.embedding') == (15, 16)
    assert part('head.kernel') == (16, 15)
    assert part('final_norm.scale') == (32,)


def test_qwen25_7b_has_its_published_size_and_costs_nothing_to_define():
    policy = oracle.tiny_policy(
        vocab_size=152064,
        num_layers=28,
        embed_dim=3584,
        num_heads=28,
        num_kv_heads=4,
        head_dim=128,
        mlp_dim=18944,
    )
    mesh = sharding.make_mesh(data=1, fsdp=4, rollout=1, tensor=2)
    shapes = policies.param_shapes(policy, mesh)
    assert sum(x.size for x in shapes.values()) == 7_615_616_512
    per_device = sum(np.prod(x.sharding.shard_shape(x.shape)) for x in shapes.values())
    # Norms and QKV biases are all that is not split eight ways.
    assert per_device < 1.001 * 7_615_616_512 / 8

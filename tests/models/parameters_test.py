"""What is stacked over layers, and over layers and experts, in memory and in files."""

import jax
import numpy as np
import pytest
import safetensors.numpy
from flax import nnx
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.feed_forward import FEED_FORWARDS
from passk_jax.models.hf import save as hf_save
from passk_jax.models.hf import weights
from passk_jax.models.parameters import Parameter, kernel, tensors_in_order, vector
from passk_jax.models.transformer import Transformer
from tests.models import oracle

UP = 'layers.mlp.experts.up.kernel'
NUM_EXPERTS, MESH = 4, {'data': 1, 'fsdp': 2, 'rollout': 1, 'tensor': 4}


class Experts(nnx.Module):
    """A feed-forward part that adds up all experts; no family has it."""

    def __init__(self, arch, *, stack=(), rngs):
        shape = (*stack, NUM_EXPERTS, arch.embed_dim, arch.embed_dim)
        kernels = jax.random.normal(rngs.params(), shape) / arch.embed_dim
        self.experts = nnx.Dict(up=nnx.Dict(kernel=nnx.Param(kernels)))

    @staticmethod
    def parameters(arch):
        up = kernel('mlp.experts.{expert}.up_proj.weight', 'embed', None)
        return {'experts.up.kernel': up}

    def __call__(self, *xs):
        kernels = self.experts.up.kernel[...]
        return tuple(jnp.einsum('...d,edf->...f', x, kernels) for x in xs), {}


@pytest.fixture
def policy(monkeypatch):
    monkeypatch.setitem(FEED_FORWARDS, 'experts', Experts)
    return oracle.tiny_policy(feed_forward='experts')


def test_the_name_of_a_tensor_declares_the_stack(policy):
    row = Transformer.parameters(policy.arch)[UP]
    assert row.tensor == 'model.layers.{layer}.mlp.experts.{expert}.up_proj.weight'
    assert row.stack == ('layer', 'expert')
    assert row.array_axes == (None, 'experts', 'embed', None)
    assert row.stored_shape((2, 4, 8, 3)) == (3, 8)
    assert row.tensor_at((1, 3)) == 'model.layers.1.mlp.experts.3.up_proj.weight'
    with pytest.raises(ValueError, match=r"over \['head'\], none of \['layer', 'exp"):
        Parameter('model.{head}.weight', (None,), ((0,),))


def test_stacked_or_apart_a_parameter_has_its_axes(policy):
    assert policies.param_axes(policy, UP) == (None, 'experts', 'embed', None)
    apart = UP.replace('layers.', 'layers.1.')
    assert policies.param_axes(policy, f'0.mu.{apart}') == ('experts', 'embed', None)
    mesh = sharding.make_mesh(**MESH)
    params = policies.init_params(policy, jax.random.key(0), mesh)
    assert params[UP].shape == (2, NUM_EXPERTS, 32, 32)
    assert params[UP].sharding.shard_shape(params[UP].shape) == (2, 1, 16, 32)


@pytest.mark.parametrize('shard_bytes', [10**9, 10_000])
def test_a_tensor_of_each_expert_is_written_and_read(policy, shard_bytes, tmp_path):
    params = oracle.random_params(policy)
    mesh = sharding.make_mesh(**MESH)
    options = {'dtype': 'float32', 'max_shard_bytes': shard_bytes}
    hf_save.write_params(policy, params, tmp_path, **options)
    stored = {}
    for path in tmp_path.glob('*.safetensors'):
        stored |= safetensors.numpy.load_file(path)
    for layer, expert in np.ndindex(2, NUM_EXPERTS):
        name = f'model.layers.{layer}.mlp.experts.{expert}.up_proj.weight'
        want = params[UP][layer, expert].T
        np.testing.assert_array_equal(stored.pop(name), want, strict=True)
    assert not any('experts' in name for name in stored)
    have = weights.load_params(policy, str(tmp_path), mesh)
    assert have.keys() == params.keys()
    jax.tree.map(np.testing.assert_array_equal, have, params)
    shapes = policies.param_shapes(policy, mesh)
    assert have[UP].sharding == shapes[UP].sharding


def test_a_missing_expert_is_named(policy, tmp_path):
    params = oracle.random_params(policy)
    options = {'dtype': 'float32', 'max_shard_bytes': 10**9}
    hf_save.write_params(policy, params, tmp_path, **options)
    path = tmp_path / 'model.safetensors'
    stored = safetensors.numpy.load_file(path)
    del stored['model.layers.1.mlp.experts.2.up_proj.weight']
    safetensors.numpy.save_file(stored, path)
    words = r'missing model\.layers\.1\.mlp\.experts\.2\.up_proj\.weight$'
    with pytest.raises(ValueError, match=words):
        weights.load_params(policy, str(tmp_path), sharding.make_mesh(**MESH))


def test_layers_apart_keep_their_experts_together(policy):
    params = oracle.random_params(policy)
    for decoding in (
        policies.decoding_weights(policy, params),
        policies.prepare_decoding(policy, params),
    ):
        for layer in range(2):
            part = decoding[f'layers.{layer}.mlp.experts.up.kernel']
            np.testing.assert_array_equal(part, params[UP][layer])
        assert len(decoding) == 3 + 2 * (len(params) - 3)
    prompts, _, _ = oracle.random_batch(vocab_size=16)
    one, other = (
        policies.prefill(policy, x, prompts)[0]
        for x in (params, policies.prepare_decoding(policy, params))
    )
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_tensors_are_in_the_order_of_the_network_layer_by_layer():
    table = {
        'table': vector('table', None),
        'layers.a': vector('layers.{layer}.a', None),
        'layers.b': vector('layers.{layer}.{expert}.b', None),
        'norm': vector('norm', None),
    }
    shapes = {
        'table': (1,),
        'layers.a': (2, 1),
        'layers.b': (2, 2, 1),
        'norm': (1,),
    }
    assert [tensor for tensor, _, _ in tensors_in_order(table, shapes)] == [
        'table',
        *('layers.0.a', 'layers.0.0.b', 'layers.0.1.b'),
        *('layers.1.a', 'layers.1.0.b', 'layers.1.1.b'),
        'norm',
    ]


@pytest.mark.parametrize(
    'changes',
    [
        {'qkv_bias': True},
        {'qkv_bias': False, 'qk_norm': True},
        {'tie_embeddings': True},
    ],
)
def test_the_architecture_declares_the_parameters_that_the_network_makes(changes):
    policy = oracle.tiny_policy(**changes)
    mesh = sharding.make_mesh(data=2, fsdp=2, rollout=1, tensor=2)
    shapes = policies.param_shapes(policy, mesh)
    table = Transformer.parameters(policy.arch)
    assert shapes.keys() == table.keys()
    for name, row in table.items():
        dimensions = [d for group in row.dims for d in group]
        assert sorted(dimensions) == list(range(len(row.axes))), name
        assert len(row.array_axes) == len(shapes[name].shape), name
    tensors = [row.tensor for row in table.values()]
    assert len(set(tensors)) == len(tensors)

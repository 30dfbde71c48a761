"""Adapters: their parameters, what they compute, and which matrices may have one."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.models import lora
from passk_jax.models import policy as policies
from passk_jax.models.lora import Lora
from passk_jax.models.transformer import Transformer
from tests.models import oracle
from tests.models.policy_sharding_test import MESHES, place, place_params
from tests.slow import slow_values

ALL = Lora(rank=3, alpha=12.0, targets=('all-linear',))
# An untied head, a tied one, windows, experts beside an adapted attention, and norms
# after the parts of a block or on both sides.
NETWORKS = {
    'dense': {},
    'tied': {'tie_embeddings': True, 'qk_norm': True},
    'windows': {'windows': (0, 3)},
    'experts': {'feed_forward': 'moe'},
    'norms_after': {'norms': 'after', 'qk_norm': True, 'qk_norm_over_heads': True},
    'norms_both': {'norms': 'both', 'norm_scale': 'one_plus', 'scale_embedding': True},
}


@functools.cache
def make_policy(network='dense', adapters=ALL, **changes):
    return oracle.tiny_policy(lora=adapters, **NETWORKS[network], **changes)


@functools.partial(jax.jit, static_argnums=0)
def log_probs(policy, params, prompts, tokens):
    scores = policies.token_log_probs(policy, params, prompts, tokens, temperature=1.0)
    return scores.log_probs


@functools.partial(jax.jit, static_argnums=0)
def hidden_state(policy, weights, prompts, tokens):
    """Decodes one token of each rollout."""
    P, N = tokens.shape
    _, prefix = policies.prefill(policy, weights, prompts)
    cache = policies.empty_cache(policy, num_prompts=P, num_rollouts=N, num_tokens=1)
    return policies.decode(policy, weights, tokens, prefix, cache)[0]


def merged_by_hand(params, scale):
    """Numpy's: W + alpha / rank A B, layer by layer and output by output."""
    merged = lora.without_adapters(jax.device_get(params))
    for name, x in merged.items():
        a, b = (params.get(part) for part in lora.adapter_names(name))
        if a is not None and b is not None:
            num_layers, rank = x.shape[0], b.shape[1]
            a, b = (np.asarray(y, np.float64) for y in (a, b))
            product = a.reshape(num_layers, -1, rank) @ b.reshape(num_layers, rank, -1)
            merged[name] = (x + scale * product.reshape(x.shape)).astype(x.dtype)
    return merged


@pytest.mark.parametrize('network', NETWORKS)
def test_the_rows_are_those_of_the_network(network):
    policy = make_policy(network)
    mesh = sharding.make_mesh(**MESHES[0])
    shapes = policies.param_shapes(policy, mesh)
    table = Transformer.parameters(policy.arch)
    assert table.keys() == shapes.keys()
    base = Transformer.parameters(policy.arch.base)
    assert lora.without_adapters(table) == base
    for name in base:
        parts = lora.adapter_names(name)
        if parts[0] in table:
            a, b, kernel = (shapes[x] for x in (*parts, name))
            inner = table[name].dims[1][-1] + 2
            assert a.shape == (*kernel.shape[:inner], 3)
            assert b.shape == (2, 3, *kernel.shape[inner:])
            # Each side is split as its side of the matrix.
            assert a.sharding.spec[1:inner] == kernel.sharding.spec[1:inner]
            assert b.sharding.spec[2:] == kernel.sharding.spec[inner:]
    adapted = {x.split('.')[2] for x in table if lora.is_adapter(x)}
    dense = {'down', 'gate', 'up'} if network != 'experts' else set()
    assert adapted == {'query', 'key', 'value', 'out'} | dense


def test_new_adapters_change_nothing_and_the_seed_draws_the_same_base():
    policy = make_policy()
    mesh = sharding.make_mesh(**MESHES[0])
    key = jax.random.key(7)
    params = policies.init_params(policy, key, mesh)
    base = policies.init_params(policy.base, key, mesh)
    jax.tree.map(np.testing.assert_array_equal, lora.without_adapters(params), base)
    alone = policies.init_params(policy, key, mesh, only_adapters=True)
    assert {**base, **alone}.keys() == params.keys()
    a, b = (f'layers.mlp.down.{part}' for part in (lora.A, lora.B))
    np.testing.assert_array_equal(alone[a], params[a])
    assert not params[b].any()
    # Uniform within 1 / sqrt(F), all rows different.
    bound = policy.arch.mlp_dim**-0.5
    assert 0.9 * bound < abs(np.asarray(params[a])).max() <= bound
    prompts, tokens, _ = oracle.random_batch(vocab_size=16, P=4, N=2)
    args = place(mesh, (prompts, tokens))
    with jax.set_mesh(mesh):
        have, want = (log_probs(policy, x, *args) for x in (params, base))
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize('network', slow_values(NETWORKS, quick=['dense']))
def test_learner_and_sampler_add_the_product_times_alpha_by_rank(network):
    policy = make_policy(network)
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16)[:2]
    merged = merged_by_hand(params, scale=4.0)
    want = log_probs(policy.base, merged, *batch)
    have = log_probs(policy, params, *batch)
    np.testing.assert_allclose(have, want, rtol=1e-5, atol=2e-5)
    base = lora.without_adapters(params)
    assert np.abs(log_probs(policy, base, *batch) - want).max() > 0.1
    prompts, tokens = batch
    weights = policies.decoding_weights(policy.base, merged)
    of_merged = hidden_state(policy.base, weights, prompts, tokens[:, :, 0])
    for weights in (
        policies.decoding_weights(policy, params),
        policies.prepare_decoding(policy, params),
    ):
        have = hidden_state(policy, weights, prompts, tokens[:, :, 0])
        # Hidden states reach 9, and the two sum in another order.
        np.testing.assert_allclose(have, of_merged, rtol=1e-5, atol=1e-4)
    together = lora.merge(params, policy.arch.lora, 'float32')
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, atol=1e-6),
        *(dict(sorted(x.items())) for x in (together, merged)),
    )


def test_the_sampler_rounds_no_sum_of_a_matrix_and_its_adapter():
    """A product that is small beside its matrix would be lost in bfloat16."""
    policy = make_policy(dtype='bfloat16')
    params = oracle.random_params(policy)
    weights = policies.decoding_weights(policy, params)
    for name in ('up.kernel', 'up.lora_a', 'up.lora_b'):
        for layer in range(2):
            want = params[f'layers.mlp.{name}'][layer].astype('bfloat16')
            np.testing.assert_array_equal(weights[f'layers.{layer}.mlp.{name}'], want)


@pytest.mark.parametrize('shape', slow_values(MESHES, quick=MESHES[:1]))
@pytest.mark.parametrize('network', slow_values(['tied', 'experts']))
def test_sharded_equals_one_device(network, shape):
    policy = make_policy(network, head_chunk_tokens=4)
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16, P=4, S=6, N=4)
    want, want_grads = oracle.evaluate(policy, params, *batch)
    weights = policies.prepare_decoding(policy, params)
    mesh = sharding.make_mesh(**shape)
    with jax.set_mesh(mesh):
        placed = place_params(policy, mesh, params)
        have, have_grads = oracle.evaluate(policy, placed, *place(mesh, batch))
        sharded_weights = policies.decoding_weights(policy, placed)
    np.testing.assert_allclose(have, want, atol=1e-5)
    assert oracle.relative_error(have_grads, want_grads) < 1e-5
    for name, x in sharded_weights.items():
        np.testing.assert_allclose(x, weights[name], atol=1e-5)


def test_targets_are_ends_of_the_names_in_a_checkpoint():
    def adapted(*targets):
        policy = make_policy(adapters=dataclasses.replace(ALL, targets=targets))
        table = Transformer.parameters(policy.arch)
        return {name.split('.')[2] for name in table if lora.is_adapter(name)}

    assert adapted('q_proj') == adapted('self_attn.q_proj') == {'query'}
    assert adapted('gate_proj', 'mlp.up_proj') == {'gate', 'up'}
    assert len(adapted('all-linear')) == 7


@pytest.mark.parametrize(
    ('network', 'target'),
    [
        ('dense', 'embed_tokens'),
        ('tied', 'lm_head'),
        ('dense', 'lm_head'),
        ('dense', 'proj'),
        ('dense', 'query'),
        ('dense', 'q_proj.bias'),
        ('dense', 'input_layernorm'),
        ('dense', 'layers.1.self_attn.q_proj'),
        ('experts', 'gate'),
        ('experts', 'up_proj'),
        ('experts', 'experts.0.up_proj'),
    ],
)
def test_another_target_is_refused_by_its_name(network, target):
    adapters = dataclasses.replace(ALL, targets=('q_proj', target))
    with pytest.raises(ValueError, match=f"targets names '{target}', none of .'q_pro"):
        make_policy(network, adapters)


@pytest.mark.parametrize('target', ['qkv', 'proj', 'linear_fc1', 'lora_A', 'q_prj'])
def test_the_choices_are_the_matrices_of_the_decoder(target):
    arch = oracle.family_arch('qwen3_vl', lora=ALL)
    for targets in ((target,), ('q_proj', target)):
        adapters = dataclasses.replace(ALL, targets=targets)
        with pytest.raises(ValueError, match=f"targets names '{target}'") as error:
            Transformer.parameters(dataclasses.replace(arch, lora=adapters))
        heads = [f'{letter}_proj' for letter in 'qkvo']
        choices = [*heads, 'gate_proj', 'up_proj', 'down_proj']
        assert f'none of {choices} and' in str(error.value)


@pytest.mark.parametrize('change', [{'rank': 0}, {'alpha': 0.0}, {'targets': ()}])
def test_adapters_that_train_nothing_are_refused(change):
    with pytest.raises(ValueError, match='trains nothing'):
        dataclasses.replace(ALL, **change)

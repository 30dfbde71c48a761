"""The verb *update* with the auxiliary loss that balances experts."""

import dataclasses
import functools
import re

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

from passk_jax import sharding
from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.expert_load import balance_factors, balance_loss
from passk_jax.learning.optimizer import make_optimizer
from passk_jax.learning.update import Update
from passk_jax.models.hf import weights
from passk_jax.models.transformer import Transformer
from tests import tiny
from tests.learning.update_frozen_test import SGD
from tests.learning.update_test import LOSS, VOCAB, make_advantages, make_rollouts
from tests.models.hf import oracle as hf_oracle
from tests.models.hf.parity_gradient_test import apart, stored
from tests.slow import slow_values

COEF = 0.5
AUX = dataclasses.replace(LOSS, router_aux_coef=COEF)
STEEP = dataclasses.replace(SGD, learning_rate=1.0)


@pytest.fixture(scope='module')
def pair(tmp_path_factory):
    """Their model and the directory that it is read from."""
    directory = tmp_path_factory.mktemp('model')
    model = hf_oracle.make_model('qwen3_moe', vocab_size=VOCAB)
    model.save_pretrained(directory)
    return model, directory


@functools.cache
def start(directory, sizes):
    """The policy, which keeps the probabilities of its router, and its mesh."""
    count = int(np.prod(sizes))
    mesh = sharding.make_mesh(
        **dict(zip(sharding.MESH_AXES, sizes, strict=True)),
        devices=jax.devices()[:count],
    )
    policy, _ = hf_oracle.read(directory)
    arch = dataclasses.replace(policy.arch, keep_router_probs=True)
    return dataclasses.replace(policy, arch=arch), mesh


def run(directory, *, loss=AUX, advantages=None, sizes=(1, 1, 1, 1), **settings):
    """Makes a step of SGD; returns metrics, and how far it moved the parameters."""
    policy, mesh = start(directory, sizes)
    options = {'num_updates': 1, 'num_micro_batches': 1} | settings
    update = Update(
        loss=BatchLoss(policy, 1.0, loss),
        optimizer=make_optimizer(STEEP),
        mesh=mesh,
        **options,
    )
    rollouts = make_rollouts()
    if advantages is None:
        advantages = np.zeros(rollouts.lengths.shape, np.float32)
    params = weights.load_params(policy, str(directory), mesh)
    before = jax.device_get(params)
    with jax.set_mesh(mesh):
        state = states.init_state(policy, update.optimizer, params, mesh)
        state, metrics = update(state, rollouts, advantages)
    after = jax.device_get(state.params)
    return jax.device_get(metrics), {k: before[k] - after[k] for k in before}


def their_loss(model):
    """The auxiliary loss of transformers at the positions that predict a token."""
    rollouts = make_rollouts()
    logits = []
    for p, n in np.ndindex(rollouts.lengths.shape):
        prompt = rollouts.prompts.tokens[p, : rollouts.prompts.lengths[p]]
        response = rollouts.tokens[p, n, : rollouts.lengths[p, n]]
        ids = np.concatenate([prompt, response])[None].astype(np.int64)
        outputs = model(input_ids=torch.tensor(ids), output_router_logits=True)
        first = len(prompt) - 1
        rows = slice(first, first + len(response))
        logits.append([layer[rows] for layer in outputs.router_logits])
    layers = tuple(torch.cat(layer) for layer in zip(*logits, strict=True))
    config = model.config
    return load_balancing_loss_func(
        layers, config.num_experts, config.num_experts_per_tok
    )


def test_value_and_gradient_are_those_of_transformers(pair):
    model, directory = pair
    metrics, moved = run(directory)
    want = their_loss(model)
    assert metrics['router_aux_loss'] == pytest.approx(want.item(), abs=1e-6)
    assert metrics['loss'] == pytest.approx(COEF * want.item(), abs=1e-6)
    assert metrics['problem_loss'].sum() == pytest.approx(metrics['loss'], abs=1e-6)
    model.zero_grad()
    (COEF * want).backward()
    zeros = torch.zeros(())
    expected = apart(
        {
            name: (zeros.expand_as(x) if x.grad is None else x.grad).numpy()
            for name, x in model.named_parameters()
        }
    )
    policy, _ = start(directory, (1, 1, 1, 1))
    ours = stored(Transformer.parameters(policy.arch), moved)
    assert ours.keys() == expected.keys()
    for name, x in expected.items():
        np.testing.assert_allclose(ours[name], x, rtol=0, atol=1e-6, err_msg=name)
    assert np.abs(expected['model.layers.0.mlp.gate.weight']).max() > 1e-3
    # It is not what the head is for.
    assert not expected['lm_head.weight'].any()


@pytest.fixture(scope='module')
def baseline(pair):
    return run(pair[1], advantages=make_advantages())


@pytest.mark.parametrize(
    'settings',
    slow_values(
        [
            {'num_micro_batches': 4},
            {'rollout_parts': 2},
            {'num_micro_batches': 2, 'pack_sizes': 2},
            {'sizes': (1, 1, 1, 2)},
            {'sizes': (1, 2, 1, 4)},
        ],
        quick=[{'num_micro_batches': 4}],
    ),
    ids=str,
)
def test_neither_passes_nor_packing_nor_devices_change_it(settings, pair, baseline):
    metrics, moved = run(pair[1], advantages=make_advantages(), **settings)
    for name in ('router_aux_loss', 'loss', 'policy_loss', 'expert_load_max'):
        assert metrics[name] == pytest.approx(baseline[0][name], abs=1e-5), name
    for name, x in moved.items():
        np.testing.assert_allclose(
            x, baseline[1][name], rtol=0, atol=2e-5, err_msg=name
        )


def test_it_is_added_to_the_loss_of_the_advantages(pair, baseline):
    metrics, moved = baseline
    plain, without = run(pair[1], loss=LOSS, advantages=make_advantages())
    _, alone = run(pair[1])
    assert 'router_aux_loss' not in plain
    assert metrics['policy_loss'] == pytest.approx(plain['loss'], abs=1e-6)
    name = 'layers.mlp.router.kernel'
    np.testing.assert_allclose(moved[name], without[name] + alone[name], atol=1e-5)


@pytest.mark.slow
def test_a_step_multiplies_by_the_experts_of_its_device_and_by_one_at_a_time(pair):
    """In the compiled program, whose dense form would have a row for every expert."""
    policy, mesh = start(pair[1], (1, 2, 1, 4))
    update = Update(
        loss=BatchLoss(policy, 1.0, AUX),
        optimizer=make_optimizer(STEEP),
        mesh=mesh,
        num_updates=1,
        num_micro_batches=2,
    )
    E, D, F = policy.arch.num_experts, policy.arch.embed_dim, policy.arch.mlp_dim
    # The devices of the experts split 8 tokens of a prompt and of a response.
    rollouts, advantages = make_rollouts(pad=3), make_advantages()
    tokens = np.pad(rollouts.prompts.tokens, ((0, 0), (0, 2)))
    prompts = dataclasses.replace(rollouts.prompts, tokens=tokens)
    rollouts = dataclasses.replace(rollouts, prompts=prompts)
    with jax.set_mesh(mesh):
        params = weights.load_params(policy, str(pair[1]), mesh)
        state = states.init_state(policy, update.optimizer, params, mesh)
        lowered = update.program.lower(state, rollouts, advantages, None, None)
        text = lowered.compile().as_text()
    assert 'all-to-all' not in text
    shapes = {
        tuple(map(int, x.split(','))) for x in re.findall(r'f32\[([\d,]+)\]', text)
    }
    kernels = {x for x in shapes if x[-2:] in ((D, F), (F, D))}
    assert (E // 4, D, F) in kernels
    assert not any(E in x[:-2] for x in kernels)
    # Rows by the width of an expert: a matrix, never one for every expert.
    products = re.findall(r'= f32\[([\d,]+)\]\S* dot\(', text)
    products = [tuple(map(int, x.split(','))) for x in products]
    wide = [x for x in products if F in x]
    assert wide
    assert all(len(x) == 2 for x in wide), wide


def test_off_the_program_is_the_one_without_it(pair):
    policy, mesh = start(pair[1], (1, 1, 1, 1))
    arch = dataclasses.replace(policy.arch, keep_router_probs=False)
    config = tiny.make_config()
    sections = {'train': config.train, 'sampling': config.sampling}
    plain = dataclasses.replace(policy, arch=arch)
    optimizer = make_optimizer(STEEP)
    off = Update.configured(plain, optimizer, mesh, loss=LOSS, **sections)
    on = Update.configured(plain, optimizer, mesh, loss=AUX, **sections)
    assert off.loss.policy == plain
    assert on.loss.policy == policy
    assert (off.loss.balances, on.loss.balances) == (False, True)
    assert on.loss.vanishes_without_advantages is False


def test_a_policy_without_experts_refuses_it():
    config = tiny.make_config(loss__router_aux_coef=0.01)
    with pytest.raises(ValueError, match=r'router_aux_coef=0.01 balances experts, and'):
        tiny.make_setup(config)


def test_a_balanced_load_has_the_least_loss():
    """Which is k, whatever the probabilities."""
    mask = jnp.ones((2, 1, 3), bool)
    factors = balance_factors(jnp.full((2, 4), 3.0), mask)
    probs = jax.nn.softmax(jax.random.normal(jax.random.key(0), (2, 1, 3, 2, 4)))
    assert float(balance_loss(probs, mask, factors).sum()) == pytest.approx(2)

"""The verb *update* on a policy with adapters."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.optimizer import make_optimizer
from passk_jax.learning.update import Update
from passk_jax.models import policy as policies
from passk_jax.models.frozen import reference_params, split_weights
from passk_jax.models.lora import Lora, adapter_names, is_adapter, merge
from passk_jax.planning import hlo_costs
from tests.learning.update_frozen_test import SGD
from tests.learning.update_test import (
    LOSS,
    OPTIMIZER,
    make_advantages,
    make_mesh,
    make_policy,
    make_rollouts,
)
from tests.slow import slow_values

ALL = Lora(rank=2, alpha=4.0, targets=('all-linear',))
KERNEL = 'layers.mlp.up.kernel'
STEEP = dataclasses.replace(SGD, learning_rate=1.0)
KL = dataclasses.replace(LOSS, kl_coef=0.1)


@functools.cache
def with_adapters(adapters=ALL, also_frozen=()):
    policy = make_policy()
    arch = dataclasses.replace(policy.arch, lora=adapters)
    base = policies.Transformer.parameters(arch.base)
    frozen = frozenset({*base, *also_frozen})
    return dataclasses.replace(policy, arch=arch, frozen=frozen)


def run(policy, params, *, steps=1, mesh=None, optimizer=SGD, loss=LOSS, updates=1):
    """Trains from these parameters; returns all of them afterwards, and metrics."""
    mesh = mesh or make_mesh()
    update = Update(
        loss=BatchLoss(policy, 1.0, loss),
        optimizer=make_optimizer(optimizer),
        mesh=mesh,
        num_updates=updates,
        num_micro_batches=1,
    )
    shapes = policies.param_shapes(policy, mesh)
    placed = {k: jax.device_put(x, shapes[k].sharding) for k, x in params.items()}
    placed = jax.tree.map(jnp.copy, placed)
    with jax.set_mesh(mesh):
        weights = split_weights(policy, placed)
        state = states.init_state(policy, update.optimizer, weights.trained, mesh)
        reference = reference_params(policy, weights.trained) if loss.kl_coef else None
        for _ in range(steps):
            args = make_rollouts(), make_advantages(), reference, weights.frozen
            state, metrics = update(state, *args)
    merged = dataclasses.replace(weights, trained=state.params).merged
    return jax.device_get(merged), jax.device_get(metrics), state


@pytest.fixture(scope='module')
def first():
    return begin(with_adapters())


def begin(policy):
    return policies.init_params(policy, jax.random.key(0), make_mesh())


def test_only_adapters_move_and_only_they_have_an_optimizer(first):
    after, _, state = run(with_adapters(), first, steps=2, optimizer=OPTIMIZER)
    for name, x in after.items():
        assert (x != first[name]).any() == is_adapter(name), name
    assert state.params.keys() == {name for name in first if is_adapter(name)}
    paths = [
        jax.tree_util.keystr(path, simple=True, separator='.')
        for path, x in jax.tree.leaves_with_path(state)
        if x.ndim
    ]
    assert paths
    assert all(is_adapter(path) for path in paths)


@pytest.mark.slow
def test_the_same_on_a_mesh(first):
    one, _, _ = run(with_adapters(), first, steps=2)
    many, _, _ = run(with_adapters(), first, steps=2, mesh=make_mesh(2, 2, 2))
    for name, x in many.items():
        np.testing.assert_allclose(x, one[name], atol=2e-6)


@pytest.mark.slow
def test_the_reference_is_the_base(first):
    """It has no arrays, and runs no adapter: at first the policy itself."""
    policy = with_adapters()
    trained = split_weights(policy, first).trained
    assert reference_params(policy, trained) == {}
    _, once, _ = run(with_adapters(), first, loss=KL)
    assert once['ref_kl_k3'] == 0
    options = {'loss': KL, 'optimizer': OPTIMIZER}
    _, later, _ = run(with_adapters(), first, steps=4, **options)
    assert later['ref_kl_k3'] > 1e-5
    # From adapters that change something, it still is the base.
    moved = {k: x + 0.1 * is_adapter(k) for k, x in first.items()}
    _, far, _ = run(with_adapters(), moved, loss=KL)
    assert far['ref_kl_k3'] > 1e-5


@pytest.mark.parametrize('updates', slow_values([1, 2], quick=[1]))
@pytest.mark.parametrize(
    'optimizer', [*slow_values([STEEP]), OPTIMIZER], ids=['sgd', 'adamw']
)
def test_of_full_rank_it_is_full_fine_tuning_of_the_matrix(optimizer, updates):
    """If A is the identity, and stays, B has the gradient of the matrix itself.

    With alpha = rank = the matrix's inputs, ``W + A B = W + B``. A product's gradient
    gives ``dB = A' dW = dW``, so B's steps are those of W, of Adam too, to rounding. (A
    that moves changes the later steps. So does weight decay, which draws B to 0 and not
    W.)
    """
    optimizer = dataclasses.replace(optimizer, weight_decay=0.0)
    policy = make_policy()
    rank = policy.arch.embed_dim
    adapters = Lora(rank, float(rank), ('up_proj',))
    a, _ = adapter_names(KERNEL)
    adapted = with_adapters(adapters, also_frozen=(a,))
    params = begin(adapted)
    params[a] = jnp.broadcast_to(jnp.eye(rank), params[a].shape)
    options = {'optimizer': optimizer, 'steps': 3, 'updates': updates}
    ours, _, _ = run(adapted, params, **options)
    ours = merge(ours, adapters, 'float32')
    names = policies.Transformer.parameters(policy.arch).keys()
    alone = dataclasses.replace(policy, frozen=frozenset(names - {KERNEL}))
    base = {name: params[name] for name in names}
    full, _, _ = run(alone, base, **options)
    moved = np.abs(full[KERNEL] - np.asarray(base[KERNEL])).max()
    assert moved > 1e-3
    np.testing.assert_allclose(ours[KERNEL], full[KERNEL], atol=1e-3 * moved)


def test_no_gradient_of_a_matrix_of_the_base_is_computed(first):
    """The step of adapters of rank 1 has fewer FLOPs than that of the parameters."""
    flops = []
    for policy in (make_policy(), with_adapters(Lora(1, 1.0, ALL.targets))):
        mesh = make_mesh()
        update = Update(
            loss=BatchLoss(policy, 1.0, LOSS),
            optimizer=make_optimizer(SGD),
            mesh=mesh,
            num_updates=1,
            num_micro_batches=1,
        )
        with jax.set_mesh(mesh):
            state = states.state_shapes(policy, update.optimizer, mesh)
            shapes = policies.param_shapes(policy, mesh)
            frozen = split_weights(policy, shapes).frozen
            args = state, make_rollouts(), make_advantages(), None, frozen
            text = update.program.lower(*args).compile().as_text()
        flops.append(hlo_costs.count(text, num_devices=1).flops)
    # The backward pass of a layer's products is half as much; the tied head's, too.
    assert flops[1] < 0.8 * flops[0]

"""The verb *update* on a policy some of whose parameters are frozen."""

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
from passk_jax.models.frozen import split_weights
from passk_jax.planning import hlo_costs
from tests.learning.update_test import (
    LOSS,
    OPTIMIZER,
    N,
    P,
    S,
    T,
    make_advantages,
    make_mesh,
    make_policy,
    make_rollouts,
    place,
)
from tests.slow import slow_values

KERNEL = 'layers.mlp.up.kernel'
FROZEN = frozenset({'embed.embedding', 'layers.attention.query.kernel', KERNEL})
# SGD's step is the gradient itself: no clip or moment mixes parameters.
SGD = dataclasses.replace(OPTIMIZER, name='sgd', max_grad_norm=0.0, weight_decay=0.0)


@functools.cache
def make_update(mesh, frozen, *, optimizer=SGD, loss=LOSS, num_updates=1):
    policy = dataclasses.replace(make_policy(), frozen=frozen)
    return Update(
        loss=BatchLoss(policy, 1.0, loss),
        optimizer=make_optimizer(optimizer),
        mesh=mesh,
        num_updates=num_updates,
        num_micro_batches=2 // num_updates,
    )


def begin(mesh, update):
    """The first state, and what is frozen."""
    policy = update.loss.policy
    weights = split_weights(policy, place(mesh).params)
    state = states.init_state(policy, update.optimizer, weights.trained, mesh)
    return state, weights.frozen


def run(mesh, frozen=FROZEN, *, steps=1, with_ref=False, **options):
    update = make_update(mesh, frozen, **options)
    with jax.set_mesh(mesh):
        state, frozen_params = begin(mesh, update)
        ref = jax.tree.map(jnp.copy, state.params) if with_ref else None
        for _ in range(steps):
            state, metrics = update(
                state, make_rollouts(), make_advantages(), ref, frozen_params
            )
    return state, frozen_params, jax.device_get(metrics)


@pytest.mark.parametrize('num_updates', slow_values([1, 2], quick=[1]))
def test_what_is_trained_moves_as_it_does_in_full_and_the_rest_not_at_all(num_updates):
    """In the first of two updates; in the second the gradient is another."""
    mesh = make_mesh()
    first = place(mesh).params
    state, frozen_params, _ = run(mesh, num_updates=num_updates, steps=2)
    assert frozen_params.keys() == FROZEN
    for name, x in frozen_params.items():
        assert not x.is_deleted()
        np.testing.assert_array_equal(x, first[name])
    assert state.params.keys() == first.keys() - FROZEN
    assert all((x != first[name]).any() for name, x in state.params.items())
    if num_updates == 1:
        once, _, _ = run(mesh)
        full, _, _ = run(mesh, frozenset())
        for name, x in once.params.items():
            np.testing.assert_allclose(x, full.params[name], atol=1e-7)


@pytest.mark.slow
def test_the_same_on_a_mesh():
    (one, _, _), (many, _, _) = (run(make_mesh(*sizes)) for sizes in ((), (2, 2, 2)))
    for name, x in many.params.items():
        np.testing.assert_allclose(x, one.params[name], atol=2e-6)


def test_no_state_of_the_optimizer_belongs_to_what_is_frozen():
    mesh = make_mesh()
    state, _, _ = run(mesh, optimizer=OPTIMIZER)
    update = make_update(mesh, FROZEN, optimizer=OPTIMIZER)
    shapes = states.state_shapes(update.loss.policy, update.optimizer, mesh)
    for tree in (state, shapes):
        paths = [
            jax.tree_util.keystr(path, simple=True, separator='.')
            for path, _ in jax.tree.leaves_with_path(tree)
        ]
        assert any(path.endswith('layers.mlp.down.kernel') for path in paths)
        assert not [path for path in paths if path.endswith(tuple(FROZEN))]


def test_no_gradient_is_computed_of_what_is_frozen():
    """The compiled step has fewer FLOPs: those of the gradient's product."""
    mesh = make_mesh()
    flops = []
    for frozen in (frozenset(), frozenset({KERNEL})):
        update = make_update(mesh, frozen)
        with jax.set_mesh(mesh):
            state, frozen_params = begin(mesh, update)
            args = state, make_rollouts(), make_advantages(), None, frozen_params
            text = update.program.lower(*args).compile().as_text()
        flops.append(hlo_costs.count(text, num_devices=1).flops)
    arch = make_policy().arch
    tokens = P * (S + N * T)
    assert flops[0] - flops[1] == 2 * tokens * arch.embed_dim * arch.mlp_dim


def test_the_reference_is_frozen_too():
    loss = dataclasses.replace(LOSS, kl_coef=0.1)
    mesh = make_mesh()
    *_, first = run(mesh, loss=loss, with_ref=True)
    *_, later = run(mesh, loss=loss, with_ref=True, steps=4, optimizer=OPTIMIZER)
    assert first['ref_kl_k3'] == pytest.approx(0, abs=1e-6)
    assert later['ref_kl_k3'] > 1e-5

"""What an update hands to the policy and to the loss; it is traced, not run."""

import dataclasses
from unittest import mock

import jax
import pytest

from passk_jax.learning import losses
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.update import Update
from passk_jax.models import policy as policies
from tests.learning.update_test import (
    LOSS,
    OPTIMIZER,
    make_advantages,
    make_mesh,
    make_policy,
    make_rollouts,
)


def trace(*, loss=LOSS, num_updates=2):
    """The calls of ``token_log_probs``, ``normalizer`` and ``total_loss``."""
    mesh, policy = make_mesh(), make_policy()
    optimizer = optimizers.make_optimizer(OPTIMIZER)
    update = Update(
        loss=BatchLoss(policy, 0.7, loss),
        optimizer=optimizer,
        mesh=mesh,
        num_updates=num_updates,
        num_micro_batches=2,
    )
    state = states.state_shapes(policy, optimizer, mesh)
    reference = state.params if loss.kl_coef else None
    watched = (
        mock.patch.object(module, name, side_effect=getattr(module, name))
        for module, name in (
            (policies, 'token_log_probs'),
            (losses, 'normalizer'),
            (losses, 'total_loss'),
        )
    )
    a, b, c = watched
    with jax.set_mesh(mesh), a as log_probs, b as normalizer, c as total_loss:
        # The function itself: a program of these settings may be traced already.
        jax.eval_shape(
            update.train_step,
            *(state, make_rollouts(), make_advantages(), reference),
        )
    return log_probs, normalizer, total_loss


@pytest.mark.parametrize('kl_coef', [0.0, 0.1])
def test_all_log_probs_are_at_the_temperature_of_the_rollouts(kl_coef):
    loss = dataclasses.replace(LOSS, kl_coef=kl_coef)
    log_probs, _, total_loss = trace(loss=loss)
    # Calls for the old policy, the reference, and the differentiated loss.
    assert log_probs.call_count >= (3 if kl_coef else 2)
    assert {call.kwargs['temperature'] for call in log_probs.mock_calls} == {0.7}
    ref_log_probs = total_loss.call_args.args[3]
    assert (ref_log_probs is not None) == bool(kl_coef)


def test_the_loss_gets_its_section():
    loss = dataclasses.replace(LOSS, aggregation='sequence', sampler_weight_cap=3.0)
    _, normalizer, total_loss = trace(loss=loss)
    assert total_loss.call_args.kwargs['config'] == loss
    assert normalizer.call_args.kwargs['aggregation'] == 'sequence'


def test_runs_of_equal_settings_share_a_program():
    """Of a rate that is constant, however long they are."""
    steps = [
        Update(
            loss=BatchLoss(make_policy(), temperature, LOSS),
            optimizer=optimizers.make_optimizer(OPTIMIZER, num_updates=num_updates),
            mesh=make_mesh(),
            num_updates=2,
            num_micro_batches=2,
        ).program
        for num_updates, temperature in ((4, 1.0), (8, 1.0), (4, 0.5))
    ]
    assert steps[0] is steps[1]
    assert steps[0] is not steps[2]

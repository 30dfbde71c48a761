"""Packing responses into rows changes how long an update takes, and not the update."""

import dataclasses

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.learning import learner, packing
from passk_jax.learning import optimizer as optimizers
from tests.learning.learner_test import (
    LOSS,
    OPTIMIZER,
    N,
    P,
    T,
    assert_params_close,
    begin,
    make_advantages,
    make_rollouts,
    make_step,
    run_step,
)
from tests.models import oracle

PAD = 3
# Programs of 1, 2 and 4 rows.
SIZES = 3
# One program for the tests to which it does not matter which.
PACKED = {'num_updates': 2, 'num_micro_batches': 2, 'pack_sizes': SIZES}


def assert_same_step(a, b, *, atol=2e-6):
    """Parameters and every metric but the one that says how much was computed."""
    (params, metrics), (others, other_metrics) = a, b
    assert_params_close(params, others, atol=atol)
    assert metrics.keys() == other_metrics.keys()
    for name in metrics.keys() - {'padding'}:
        np.testing.assert_allclose(
            metrics[name], other_metrics[name], rtol=1e-5, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize('aggregation', ['token', 'sequence'])
def test_packing_changes_neither_the_update_nor_its_metrics(aggregation):
    settings = {
        'rollouts': make_rollouts(pad=PAD),
        'loss': dataclasses.replace(
            LOSS, aggregation=aggregation, kl_coef=0.1, entropy_coef=0.01
        ),
        'num_updates': 2,
        'num_micro_batches': 2,
        'with_ref': True,
    }
    plain, packed = run_step(**settings), run_step(**settings, pack_sizes=SIZES)
    assert_same_step(plain, packed)
    assert packed[1]['padding'] < 0.8 * plain[1]['padding']


@pytest.mark.parametrize('mesh', [(2, 2, 1), (2, 1, 2)])
def test_packing_on_a_mesh_changes_nothing(mesh):
    data, fsdp, rollout = mesh
    devices = jax.devices()[: data * fsdp * rollout]
    mesh = sharding.make_mesh(
        data=data, fsdp=fsdp, rollout=rollout, tensor=1, devices=devices
    )
    rollouts = make_rollouts(pad=PAD)
    settings = {'rollouts': rollouts, 'num_updates': 2}
    packed = run_step(**settings, mesh=mesh, pack_sizes=SIZES)
    assert_same_step(run_step(**settings), packed, atol=5e-6)


def test_problem_losses_stand_in_the_order_of_the_problems():
    advantages = np.zeros((P, N), np.float32)
    advantages[3] = 1.0
    _, metrics = run_step(
        rollouts=make_rollouts(pad=PAD), advantages=advantages, **PACKED
    )
    assert np.flatnonzero(metrics['problem_loss'][0]).tolist() == [3]


@pytest.mark.parametrize(('updates', 'sizes'), [(1, N), (2, SIZES)])
def test_padding_is_the_share_of_computed_positions_without_a_token(updates, sizes):
    rollouts = make_rollouts(pad=PAD)
    # The second of two updates has little to do.
    rollouts.lengths[1::2] = 1
    tokens, width = rollouts.lengths.sum(), T + PAD
    _, metrics = run_step(rollouts=rollouts, num_updates=updates)
    assert metrics['padding'] == pytest.approx(1 - tokens / (P * N * width))
    _, metrics = run_step(
        rollouts=rollouts,
        num_updates=updates,
        num_micro_batches=4 // updates,
        pack_sizes=sizes,
    )
    # The prompts of a pass, two here, are alike and have the rows of the larger one,
    # or the next number that is compiled.
    needed = packing.pack(jnp.array(rollouts.lengths), width=width).num_rows
    each = [np.sort(needed[u::updates])[1::2] for u in range(updates)]
    compiled = np.array(packing.row_counts(N, sizes=sizes))
    rows = 2 * int(compiled[np.searchsorted(compiled, each)].sum())
    assert rows < P * N
    assert metrics['padding'] == pytest.approx(1 - tokens / (rows * width))


def test_responses_of_full_width_are_not_packed():
    rollouts = make_rollouts(pad=PAD)
    whole = np.full((P, N), T + PAD, np.int32)
    rollouts = dataclasses.replace(rollouts, lengths=whole)
    plain, packed = (
        run_step(rollouts=rollouts, num_updates=2),
        run_step(rollouts=rollouts, **PACKED),
    )
    assert_same_step(plain, packed)
    assert packed[1]['padding'] == 0


def test_random_lengths_compile_one_program():
    mesh = sharding.one_device_mesh(jax.devices()[0])
    rng = np.random.default_rng(0)
    with jax.set_mesh(mesh):
        state = begin(mesh)
        # The other tests that have compiled it gave it these very shapes.
        train_step = make_step(mesh, **PACKED)
        paddings = set()
        for longest in (1, 2, 3, T):
            lengths = rng.integers(1, longest + 1, (P, N)).astype(np.int32)
            rollouts = dataclasses.replace(make_rollouts(pad=PAD), lengths=lengths)
            state, metrics = train_step(state, rollouts, make_advantages(), None)
            assert np.isfinite(metrics['loss'])
            paddings.add(float(metrics['padding']))
        assert len(paddings) > 1
        assert train_step._cache_size() == 1


def test_attention_that_cannot_read_packed_rows_is_refused():
    policy = oracle.tiny_policy(attention='splash')
    mesh = sharding.one_device_mesh(jax.devices()[0])
    with pytest.raises(ValueError, match=r"pack_sizes=4 .*'splash'.*'plain', 'cudnn'"):
        learner.make_train_step(
            policy,
            optimizers.make_optimizer(OPTIMIZER),
            mesh,
            loss=LOSS,
            temperature=1.0,
            num_updates=1,
            num_micro_batches=1,
            pack_sizes=4,
        )

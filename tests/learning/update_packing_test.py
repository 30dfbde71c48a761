"""Packing responses into rows changes how long an update takes, and not the update."""

import dataclasses

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.learning import packing
from tests.learning.update_test import (
    LOSS,
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
from tests.slow import slow_rows, slow_values

PAD = 3
# Two programs of a whole and its packing, of 2 and 4 rows, for all tests but two.
UNPACKED = {
    'loss': dataclasses.replace(LOSS, aggregation='sequence'),
    'num_updates': 2,
    'num_micro_batches': 2,
}
PACKED = UNPACKED | {'pack_sizes': 2}
# Every kind of pass.
EVERYTHING = {
    'loss': dataclasses.replace(LOSS, kl_coef=0.1, entropy_coef=0.01),
    'with_ref': True,
}


def assert_same_step(a, b, *, atol=2e-6):
    """Parameters and every metric but the one that says how much was computed."""
    (params, metrics), (other_params, other_metrics) = a, b
    assert_params_close(params, other_params, atol=atol)
    assert metrics.keys() == other_metrics.keys()
    for name in metrics.keys() - {'padding'}:
        np.testing.assert_allclose(
            metrics[name], other_metrics[name], rtol=1e-5, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize('changes', slow_values([{}, EVERYTHING], quick=[EVERYTHING]))
def test_packing_changes_neither_the_update_nor_its_metrics(changes):
    rollouts = make_rollouts(pad=PAD)
    plain = run_step(rollouts=rollouts, **(UNPACKED | changes))
    packed = run_step(rollouts=rollouts, **(PACKED | changes))
    assert_same_step(plain, packed)
    assert packed[1]['padding'] < 0.8 * plain[1]['padding']


@pytest.mark.slow
def test_packing_on_a_mesh_changes_nothing():
    mesh = sharding.make_mesh(data=2, fsdp=2, rollout=2, tensor=1)
    rollouts = make_rollouts(pad=PAD)
    packed = run_step(
        rollouts=rollouts, mesh=mesh, **(PACKED | {'num_micro_batches': 1})
    )
    assert_same_step(run_step(rollouts=rollouts, **UNPACKED), packed, atol=5e-6)


@pytest.mark.slow
def test_parts_of_the_rollouts_change_nothing():
    """Not the update nor a metric, packed and on a mesh that divides rollouts."""
    rollouts = make_rollouts(pad=PAD)
    undivided = run_step(rollouts=rollouts, **(UNPACKED | EVERYTHING))
    parts = run_step(
        rollouts=rollouts, **(UNPACKED | EVERYTHING | {'rollout_parts': 2})
    )
    assert_same_step(undivided, parts)
    assert parts[1]['padding'] == undivided[1]['padding']
    mesh = sharding.make_mesh(data=2, fsdp=2, rollout=2, tensor=1)
    changes = {'rollout_parts': 2, 'num_micro_batches': 1}
    packed = run_step(rollouts=rollouts, mesh=mesh, **(PACKED | EVERYTHING | changes))
    assert_same_step(undivided, packed, atol=5e-6)


def test_problem_losses_stand_in_the_order_of_the_problems():
    advantages = np.zeros((P, N), np.float32)
    advantages[3] = 1.0
    _, metrics = run_step(
        rollouts=make_rollouts(pad=PAD), advantages=advantages, **PACKED
    )
    assert np.flatnonzero(metrics['problem_loss'][0]).tolist() == [3]


# One pass over all prompts, which chooses among 1, 2 and 4 rows.
ONE_PASS = {'loss': LOSS, 'num_updates': 1, 'num_micro_batches': 1, 'pack_sizes': 3}


@pytest.mark.parametrize(
    ('settings', 'longest'),
    slow_rows([(ONE_PASS, 3), (PACKED, T)], quick=[(PACKED, T)]),
)
def test_padding_is_the_share_of_computed_positions_without_a_token(settings, longest):
    rollouts = make_rollouts(pad=PAD)
    rollouts.lengths[:] = np.minimum(rollouts.lengths, longest)
    # The second of two updates has little to do.
    rollouts.lengths[1::2] = 1
    tokens, width = rollouts.lengths.sum(), T + PAD
    _, metrics = run_step(rollouts=rollouts, **settings)
    # The prompts of a pass are alike and have the rows of the largest one, or the next
    # number that is compiled.
    updates = settings['num_updates']
    prompts = P // updates // settings['num_micro_batches']
    needed = packing.pack(jnp.array(rollouts.lengths), width=width).num_rows
    row_counts = [
        np.sort(needed[u::updates])[prompts - 1 :: prompts] for u in range(updates)
    ]
    compiled = np.array(packing.row_counts(N, sizes=settings['pack_sizes']))
    rows = prompts * int(compiled[np.searchsorted(compiled, row_counts)].sum())
    assert rows < P * N
    assert metrics['padding'] == pytest.approx(1 - tokens / (rows * width))


def test_padding_without_packing_is_that_of_a_row_a_response():
    rollouts = make_rollouts(pad=PAD)
    _, metrics = run_step(rollouts=rollouts, **UNPACKED)
    share = rollouts.lengths.sum() / (P * N * (T + PAD))
    assert metrics['padding'] == pytest.approx(1 - share)


def test_packed_too_a_scaled_advantage_scales_the_gradient_bit_for_bit():
    settings = {'rollouts': make_rollouts(pad=PAD), **ONE_PASS}
    _, one = run_step(**settings)
    _, four = run_step(**settings, advantages=4 * make_advantages())
    assert four['grad_norm'] == 4 * one['grad_norm']
    np.testing.assert_array_equal(four['problem_loss'], 4 * one['problem_loss'])


def test_responses_of_full_width_are_not_packed():
    rollouts = make_rollouts(pad=PAD)
    lengths = np.full((P, N), T + PAD, np.int32)
    rollouts = dataclasses.replace(rollouts, lengths=lengths)
    plain, packed = (
        run_step(rollouts=rollouts, **UNPACKED),
        run_step(rollouts=rollouts, **PACKED),
    )
    assert_same_step(plain, packed)
    assert packed[1]['padding'] == 0


def test_random_lengths_compile_one_program():
    mesh = sharding.one_device_mesh(jax.devices()[0])
    rng = np.random.default_rng(0)
    with jax.set_mesh(mesh):
        state = begin(mesh)
        train_step = make_step(mesh, **PACKED)
        sizes, paddings = [], set()
        for longest in (1, 2, 3, T):
            lengths = rng.integers(1, longest + 1, (P, N)).astype(np.int32)
            rollouts = dataclasses.replace(make_rollouts(pad=PAD), lengths=lengths)
            state, metrics = train_step(state, rollouts, make_advantages(), None)
            assert np.isfinite(metrics['loss'])
            paddings.add(float(metrics['padding']))
            sizes.append(train_step.program._cache_size())
        assert len(paddings) > 1
        assert sizes[1:] == sizes[:-1]

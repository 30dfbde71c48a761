"""Blocks of packed rows: every response once, and the step that it would have been."""

import dataclasses
import functools
import itertools
import math

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.learning import blocks
from passk_jax.learning.batch_loss import Batch
from passk_jax.learning.blocks import BlockSize
from passk_jax.planning import lengths as distributions
from tests.learning.update_packing_test import EVERYTHING, PAD, assert_same_step
from tests.learning.update_test import (
    LOSS,
    N,
    P,
    T,
    make_advantages,
    make_mesh,
    make_rollouts,
    make_step,
    place,
    run_step,
)
from tests.models.attention_kernels_test import with_interpreted_splash
from tests.slow import slow_values

SETTINGS = {'loss': LOSS, 'num_updates': 2, 'num_micro_batches': 2}
DEALT = SETTINGS | {'deals': True}
WIDTH = 16


def draw(seed, prompts=5, rollouts=8):
    rng = np.random.default_rng(seed)
    lengths = np.ceil(rng.lognormal(np.log(4), 0.9, (prompts, rollouts)))
    return (
        np.clip(lengths, 1, WIDTH).astype(np.int32),
        rng.uniform(size=(prompts, rollouts)) < rng.uniform(),
    )


@pytest.mark.parametrize('several', [False, True])
@pytest.mark.parametrize('seed', slow_values(range(4), quick=[0]))
def test_each_response_is_in_one_block_and_signals_come_first(seed, several):
    lengths, signal = draw(seed)
    sizes = (BlockSize(rows=[1, 2, 3, 8][seed], blocks=[4, 3, 1, 2][seed]),)
    if several:
        sizes = blocks.several_sizes(
            [8, 7, 4, 1][seed], prompt_tokens=[0, 9, 20, 300][seed], row_tokens=WIDTH
        )
    packed = blocks.pack_rows(lengths, signal, width=WIDTH)
    planned = blocks.plan_passes(packed, signal, sizes)
    rollouts = make_rollouts()
    zeros = np.zeros((*lengths.shape, WIDTH), np.float32)
    batch = Batch(
        dataclasses.replace(
            rollouts,
            prompts=jax.tree.map(lambda x: x[: len(lengths)], rollouts.prompts),
            tokens=zeros.astype(np.int32),
            lengths=lengths,
            stopped=signal,
            **dict.fromkeys(
                ('sampler_log_probs', 'untruncated_log_probs', 'entropies'), zeros
            ),
        ),
        signal.astype(np.float32),
        packing=packed,
    )
    batch = jax.tree.map(jnp.asarray, batch)
    seen, learned, used = np.zeros_like(lengths), np.zeros_like(signal), 0
    for size, passes in zip(sizes, planned, strict=True):
        kinds = np.asarray(passes.kinds)
        assert (np.diff(kinds) <= 0).all()
        for prompts, first, kind in zip(
            passes.prompts, passes.first_rows, kinds, strict=True
        ):
            part = blocks.take(batch, prompts, first, rows=size.rows)
            part_lengths = np.asarray(part.rollouts.lengths)
            assert kind or not part_lengths.any()
            used += (kind > 0) * size.blocks * size.rows
            for p, row, places, now in zip(
                prompts, part_lengths, part.packing.rows, part.advantages, strict=True
            ):
                np.testing.assert_array_equal(row[row > 0], lengths[p][row > 0])
                np.testing.assert_array_equal(now, signal[p])
                seen[p] += row > 0
                learned[p] |= (row > 0) & (kind == 2)
                at = np.asarray(places)[row > 0]
                assert at.max(initial=0) < size.rows
    np.testing.assert_array_equal(seen, 1)
    assert learned[signal].all()
    if several:
        room = blocks.count_blocks(sizes, lengths.shape[1])
        room = (room * [size.rows for size in sizes]).sum(axis=1)
        learned_rows = np.where(signal, packed.rows + 1, 0).max(axis=1)
        other_rows = np.maximum(packed.num_rows - room[learned_rows], 0)
        assert used == (room[learned_rows] + room[other_rows]).sum()
    else:
        size = sizes[0]
        most = len(lengths) * math.ceil(lengths.shape[1] / size.rows)
        assert len(planned[0].kinds) == math.ceil(most / size.blocks)
        needed = sum(math.ceil(n / size.rows) for n in packed.num_rows)
        assert used == math.ceil(needed / size.blocks) * size.blocks * size.rows


@pytest.mark.parametrize(
    'changes', slow_values([{}, EVERYTHING, {'epochs': 2}], quick=[EVERYTHING])
)
def test_dealing_changes_neither_the_update_nor_its_metrics(changes):
    rollouts = make_rollouts(pad=PAD)
    plain = run_step(rollouts=rollouts, **(SETTINGS | changes))
    dealt = run_step(rollouts=rollouts, **(DEALT | changes))
    assert_same_step(plain, dealt)
    assert dealt[1]['padding'] < 0.8 * plain[1]['padding']


@pytest.mark.slow
@pytest.mark.parametrize('micro_batches', [1, 4])
def test_the_pass_changes_nothing(micro_batches):
    rollouts = make_rollouts(pad=PAD)
    changes = {'num_micro_batches': micro_batches, 'rollout_parts': 2}
    assert_same_step(
        run_step(rollouts=rollouts, **SETTINGS),
        run_step(rollouts=rollouts, **(DEALT | changes)),
    )


@pytest.mark.parametrize(
    'sizes',
    slow_values([(2, 2, 2, 1), (1, 2, 1, 2), (1, 1, 4, 1)], quick=[(1, 2, 1, 2)]),
)
def test_a_mesh_changes_nothing(sizes):
    axes = dict(zip(sharding.MESH_AXES, sizes, strict=True))
    devices = jax.devices()[: math.prod(sizes)]
    mesh = sharding.make_mesh(**axes, devices=devices)
    rollouts = make_rollouts(pad=PAD)
    dealt = run_step(rollouts=rollouts, mesh=mesh, **DEALT)
    assert_same_step(run_step(rollouts=rollouts, **SETTINGS), dealt, atol=5e-6)


@pytest.mark.slow
@with_interpreted_splash
def test_dealing_to_splash_changes_nothing():
    mesh, rollouts = make_mesh(), make_rollouts(pad=PAD)
    with jax.set_mesh(mesh):
        train_step = make_step(mesh, **DEALT)
        policy = train_step.loss.policy
        arch = dataclasses.replace(policy.arch, attention='splash')
        policy = dataclasses.replace(policy, arch=arch)
        loss = dataclasses.replace(train_step.loss, policy=policy)
        train_step = dataclasses.replace(train_step, loss=loss)
        state, metrics = train_step(place(mesh), rollouts, make_advantages())
        dealt = jax.device_get((state.params, metrics))
    assert_same_step(run_step(rollouts=rollouts, **SETTINGS), dealt)


def test_responses_without_a_gradient_are_measured_and_not_learned_from():
    advantages = make_advantages()
    advantages[::2], advantages[1, ::2] = 0, 0
    rollouts = make_rollouts(pad=PAD)
    settings = {'rollouts': rollouts, 'advantages': advantages}
    dealt = run_step(**settings, **DEALT)
    assert_same_step(run_step(**settings, **SETTINGS), dealt)
    _, metrics = run_step(
        rollouts=rollouts, advantages=np.zeros_like(advantages), **DEALT
    )
    assert metrics['grad_norm'] == 0
    assert metrics['entropy'] > 0


@pytest.mark.slow
def test_what_the_limit_cut_off_has_no_gradient_either():
    loss = dataclasses.replace(LOSS, mask_truncated=True, aggregation='sequence')
    stopped = np.random.default_rng(2).uniform(size=(P, N)) < 0.6
    rollouts = dataclasses.replace(make_rollouts(pad=PAD), stopped=stopped)
    changes = {'loss': loss, 'rollouts': rollouts}
    assert_same_step(run_step(**(SETTINGS | changes)), run_step(**(DEALT | changes)))


def test_full_responses_with_a_signal_leave_nothing_to_save():
    lengths = np.full((P, N), T + PAD, np.int32)
    rollouts = dataclasses.replace(make_rollouts(pad=PAD), lengths=lengths)
    plain = run_step(rollouts=rollouts, **SETTINGS)
    dealt = run_step(rollouts=rollouts, **DEALT)
    assert_same_step(plain, dealt)
    assert dealt[1]['padding'] == 0


def test_a_scaled_advantage_scales_the_gradient_bit_for_bit():
    settings = {'rollouts': make_rollouts(pad=PAD), **DEALT}
    _, one = run_step(**settings)
    _, four = run_step(**settings, advantages=4 * make_advantages())
    assert four['grad_norm'] == 4 * one['grad_norm']


@pytest.mark.parametrize(('rollout', 'rows'), [(1, 2), (4, 4)])
def test_blocks_fit_in_the_memory_of_a_pass(rollout, rows):
    mesh = sharding.make_mesh(data=2, fsdp=1, rollout=rollout, tensor=4 // rollout)
    tokens = {'prompt_tokens': 100, 'row_tokens': 256}
    sizes = {'num_prompts': 64, 'num_rollouts': 16}
    choose = functools.partial(blocks.choose_sizes, mesh, **sizes, **tokens)
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        (size,) = choose(pass_prompts=8, pass_rollouts=16)
        assert size.rows == rows
        assert size.blocks % 2 == 0
        needed = size.blocks * (100 + size.rows * 256)
        assert needed <= 8 * (100 + 16 * 256)
        # At least a block on every device, of no more rollouts than fit.
        assert choose(pass_prompts=1, pass_rollouts=2) == (BlockSize(2, 2),)


def test_a_pass_has_the_tokens_that_hide_the_gathering_of_weights():
    """Or all that fit; more of them are cut into parts, so that few are empty."""
    mesh = sharding.make_mesh(data=2, fsdp=1, rollout=1, tensor=4)
    tokens = {'prompt_tokens': 64, 'row_tokens': 64, 'pass_rollouts': 16}
    sizes = {'num_prompts': 4096, 'num_rollouts': 16}
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        choose = functools.partial(blocks.choose_sizes, mesh, **sizes, **tokens)
        for pass_prompts in (4, 8, 16, 64):
            (size,) = choose(pass_prompts=pass_prompts)
            fitting = pass_prompts * (64 + 16 * 64) / 2
            of_pass = size.blocks * (64 + size.rows * 64) / 2
            want = fitting / min(4, max(1, fitting // 2048))
            # The nearest number of blocks on each of the two, or all that fit.
            block = 64 + size.rows * 64
            assert abs(want - of_pass) <= block / 2 or of_pass + block > fitting
            assert of_pass <= fitting


def test_passes_have_equal_numbers_of_blocks():
    """At full lengths: 16 blocks with room for 14 are two passes of 8."""
    mesh = sharding.make_mesh(data=2, fsdp=1, rollout=1, tensor=4)
    tokens = {'prompt_tokens': 64, 'row_tokens': 64}
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        for num_prompts, pass_prompts in itertools.product(range(1, 40), range(1, 20)):
            sizes = {'num_prompts': num_prompts, 'num_rollouts': 16}
            passes = {'pass_prompts': pass_prompts, 'pass_rollouts': 16}
            (size,) = blocks.choose_sizes(mesh, **sizes, **passes, **tokens)
            needed = math.ceil(num_prompts * math.ceil(16 / size.rows) / 2)
            of_shard = size.blocks // 2
            empty = -needed % of_shard
            assert empty < math.ceil(needed / of_shard)


def test_a_processor_has_blocks_of_several_sizes():
    mesh = sharding.one_device_mesh(jax.devices()[0])
    tokens = {'prompt_tokens': 100, 'row_tokens': 256}
    sizes = {'num_prompts': 16, 'num_rollouts': 16}
    choose = functools.partial(blocks.choose_sizes, mesh, **sizes, **tokens)
    chosen = choose(pass_prompts=2, pass_rollouts=4)
    assert [size.rows for size in chosen] == [8, 6, 4, 2, 1]
    several = [
        (x.rows, x.cost)
        for x in blocks.several_sizes(3, prompt_tokens=10, row_tokens=5)
    ]
    assert several == [(3, 89), (2, 84), (1, 79)]
    assert all(size.blocks == 1 for size in chosen)
    assert choose(pass_prompts=9, pass_rollouts=16)[0].rows == 16


@pytest.mark.parametrize('prompt_tokens', [0, 10, 88, 1000])
@pytest.mark.parametrize('most_rows', [8, 16])
def test_no_other_blocks_hold_the_rows_at_less_cost(prompt_tokens, most_rows):
    sizes = blocks.several_sizes(most_rows, prompt_tokens=prompt_tokens, row_tokens=30)
    counts = blocks.count_blocks(sizes, 16)
    for rows, chosen in enumerate(counts):
        room = sum(n * size.rows for n, size in zip(chosen, sizes, strict=True))
        assert room >= rows
        cost = sum(n * size.cost for n, size in zip(chosen, sizes, strict=True))
        candidates = itertools.chain.from_iterable(
            itertools.combinations_with_replacement(sizes, n) for n in range(7)
        )
        assert cost == min(
            sum(size.cost for size in combination)
            for combination in candidates
            if sum(size.rows for size in combination) >= rows
        )


@pytest.mark.slow
def test_where_half_of_the_positions_are_pads_three_fifths_are_computed():
    """At SmolLM2's shape in benchmarks/packed_rows.py, prompts included."""
    prompts, width, P, N = 100, 256, 8, 16
    drawn = distributions.read('lognormal:128', limit=width).draw(P, N)
    signal = np.ones((P, N), bool)
    packed = blocks.pack_rows(jnp.asarray(drawn), signal, width=width)
    sizes = blocks.several_sizes(N, prompt_tokens=prompts, row_tokens=width)
    computed = sum(
        int((passes.kinds > 0).sum()) * (prompts + size.rows * width)
        for size, passes in zip(
            sizes, blocks.plan_passes(packed, signal, sizes), strict=True
        )
    )
    assert 0.5 < computed / (P * (prompts + N * width)) < 0.62

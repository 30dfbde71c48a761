"""A simulated step, beside counts by hand."""

import dataclasses
import math

import numpy as np
import pytest

from passk_jax.planning import lengths, simulation, summary, topologies
from passk_jax.planning.analysis import analyse
from passk_jax.planning.flops import decode_flops
from passk_jax.planning.programs import build
from passk_jax.planning.simulation import Assumed, Decoded
from passk_jax.sampling.scheduled.cost import Account, Pace
from passk_jax.sampling.scheduled.grid import Size, Work
from tests import tiny
from tests.models import oracle
from tests.planning.conftest import make_builder, make_decoding_apart

# Decisions cost nothing, so the grid shrinks and the ring grows when they can.
PACE = Pace(1, 1 / 2, 2, flops=1e9, bandwidth=1e9, decision=0.0)
WORK = Work(
    problems=4,
    rollouts=8,
    prompt_tokens=10,
    response_tokens=128,
    token_bytes=4,
    num_layers=2,
)


def replay(of_rollouts, first=WORK.everything, **options):
    account = Account(PACE, 1000, 4000)
    return simulation.replay(np.array(of_rollouts), WORK, first, account, **options)


def test_all_of_one_length_decode_together_to_the_end():
    parts = replay([[100] * 32])
    assert sum(x.steps for x in parts) == 100
    assert {x.size for x in parts} == {WORK.everything}
    assert parts[-1].ring == 128
    assert parts[0].ring < 128


def test_the_grid_shrinks_when_few_are_left_in_every_cell():
    short = [10] * 24 + [100] * 8
    parts = replay([short, short[::-1]])
    assert sum(x.steps for x in parts if x.size == WORK.everything) == 10
    assert parts[-1].size.total == 8
    assert sum(x.steps for x in parts) == 100
    # One cell that is full keeps the others waiting.
    parts = replay([short, [100] * 32])
    assert {x.size for x in parts} == {WORK.everything}


def test_rows_take_the_next_rollouts():
    parts = replay([[10] * 32], Size(2, 4))
    assert sum(x.steps for x in parts) == 40
    assert {x.size for x in parts} == {Size(2, 4)}
    # Two of them are long: the others pass them by.
    parts = replay([[30, 30, *[10] * 30]], Size(2, 4))
    assert sum(x.steps for x in parts) == math.ceil((60 + 300) / 8 / 10) * 10


def test_a_row_reads_its_ring_or_what_it_has_filled():
    for parts in (replay([[10, 30] * 16]), replay([[10, 30] * 16], Size(2, 4))):
        assert all(x.slots == x.size.total * x.ring for x in parts)
    parts = replay([[10] * 32, [10, 30] * 16], Size(2, 4), filled=lambda t: 2 * t)
    # The second cell has the most to read.
    assert parts[0].slots <= 2 * 8
    read = sum(x.steps * x.slots for x in parts)
    assert read == pytest.approx(2 * 16 * (10 + 30), rel=0.2)


@pytest.mark.parametrize('windows', [(0,), (20, 0), (64, 10)])
def test_the_slots_of_a_rollout_come_in_blocks(windows, monkeypatch):
    builder = make_builder(tiny.make_config(sampling__max_response_tokens=64))
    assert simulation.filled_slots(builder) is None
    arch = dataclasses.replace(builder.policy.arch, attention='splash', num_layers=2)
    arch = oracle.with_windows(arch, *windows)
    policy = dataclasses.replace(builder.policy, arch=arch)
    monkeypatch.setattr(simulation, 'block_size', lambda values: (1, 8))
    filled = simulation.filled_slots(dataclasses.replace(builder, policy=policy))
    windows = [layer.window or 64 for layer in arch.all_layers]
    for steps in (0, 1, 8, 9, 21, 64):
        seen = np.minimum.outer(np.arange(1, steps + 1), windows)
        want = (-(-seen // 8) * 8).sum() / len(windows)
        assert filled(np.array([steps])) == want


def test_lengths_are_cut_into_cells_by_problem_and_rollout():
    work = dataclasses.replace(WORK, problems=2, rollouts=2)
    cells = simulation.cut_into_cells(np.arange(16).reshape(4, 4), work)
    want = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert cells.tolist() == want


@pytest.fixture(scope='module')
def planned():
    """Programs by shapes, for a chip with figures."""
    config = tiny.make_config(
        train__packing='rows',
        sampling__max_response_tokens=64,
        sampling__num_rollouts=8,
        train__steps=40,
        eval__every=10,
        eval__batch_size=0,
    )
    builder = make_builder(config)
    topology = topologies.parse('gpu:h100x8')
    analyses = {
        name: analyse(build(builder, name), topology) for name in ('train', 'decode')
    }
    return config, builder, analyses


def assume(config, text='', **changes):
    distribution = lengths.read(text, limit=64)
    return Assumed(distribution, config.eval, config.checkpoint, **changes)


def test_a_step_of_full_responses_costs_what_the_programs_do(planned):
    config, builder, analyses = planned
    result = simulation.simulate(builder, analyses, assume(config))
    train = analyses['train']
    assert result.of_step['train'][0] == pytest.approx(train.bound)
    chip = train.topology.chip
    useful = train.program.useful_flops / (0.45 * 8 * chip.flops)
    assert result.of_step['train'][1] == pytest.approx(max(useful, train.bound))
    # Weights, prompts and a ring that grows, read once a step.
    work, first = builder.fit_grid()
    weights = sum(
        math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize
        for x in builder.decoding_weights().values()
    )
    prompts = first.slots * work.prompt_tokens * work.token_bytes
    rings = first.total * work.token_bytes
    least = 64 * (weights + prompts + 32 * rings) / chip.memory_bandwidth
    most = 64 * (weights + prompts + 64 * rings) / chip.memory_bandwidth
    low, high = result.of_step['decode']
    assert least <= low <= most
    assert high == pytest.approx(low / 0.45)
    assert result.step[0] == pytest.approx(sum(x for x, _ in result.of_step.values()))


def test_sampling_on_a_mesh_of_its_own_reads_fewer_weights():
    apart = make_decoding_apart()
    same = dataclasses.replace(apart, decode_tensor=0)
    topology = topologies.parse('gpu:h100x8')
    results = []
    for builder in (apart, same):
        by_name = {
            name: analyse(build(builder, name), topology)
            for name in ('train', 'decode')
        }
        config = tiny.make_config(eval__batch_size=0)
        assumed = Assumed(
            lengths.read('', limit=5), config.eval, config.checkpoint, num_problems=16
        )
        results.append(simulation.simulate(builder, by_name, assumed))
    low, high = results
    assert low.of_step['train'] == high.of_step['train']
    for have, want in (
        (low.of_step['decode'], high.of_step['decode']),
        (low.besides['evaluation'], high.besides['evaluation']),
    ):
        assert all(a < b for a, b in zip(have, want, strict=True))


def test_responses_that_the_mesh_of_sampling_does_not_divide_cannot_wait():
    """Then an evaluation has batches, as in a run (setup/evaluation.py)."""
    apart = make_decoding_apart()
    shares = apart.sampling_run.mesh.shape['rollout']
    assert shares > 1
    config = tiny.make_config(eval__batch_size=0, eval__num_responses=shares + 1)
    assumed = Assumed(
        lengths.read('', limit=5), config.eval, config.checkpoint, num_problems=1000
    )
    size, batches = simulation._evaluation_batch(apart, assumed)
    assert size < 1000
    assert batches == -(-1000 // size)
    work, _ = simulation._grid_of(apart.sampling_run, config.eval, size)
    assert work.rollouts


def test_a_run_adds_up(planned):
    config, builder, analyses = planned
    assumed = assume(config, num_problems=100)
    result = simulation.simulate(builder, analyses, assumed)
    evaluation, saved = (result.besides[x] for x in ('evaluation', 'checkpoint'))
    saves = 1 + 40 // config.checkpoint.every
    for i in range(2):
        want = 40 * result.step[i] + 7 * evaluation[i] + saves * saved[i]
        assert result.run[i] == pytest.approx(want)
    without = simulation.simulate(builder, analyses, assume(config))
    assert 'evaluation' not in without.besides


@pytest.mark.parametrize(
    ('changes', 'evaluations', 'saves'),
    [
        # Of 40 steps: at 0, 16, 32 and 40.
        ({'every': 16, 'final_split': ''}, 4, 4),
        ({'every': 16, 'split': 'validation', 'final_split': 'test'}, 6, 4),
        ({'every': 0, 'final_split': 'test'}, 2, 3),
    ],
)
def test_what_ends_a_run_is_counted(changes, evaluations, saves, planned):
    config, builder, analyses = planned
    every = {4: 16, 3: 20}[saves]
    config = dataclasses.replace(
        config,
        eval=dataclasses.replace(config.eval, **changes),
        checkpoint=dataclasses.replace(config.checkpoint, every=every),
    )
    result = simulation.simulate(builder, analyses, assume(config, num_problems=100))
    besides = {name: x[0] for name, x in result.besides.items()}
    want = 40 * result.step[0] + evaluations * besides['evaluation']
    assert result.run[0] == pytest.approx(want + saves * besides['checkpoint'])


def test_short_responses_cost_less_in_both(planned):
    config, builder, analyses = planned
    full = simulation.simulate(builder, analyses, assume(config))
    short = simulation.simulate(builder, analyses, assume(config, 'constant:16'))
    assert short.of_step['decode'][0] < 0.3 * full.of_step['decode'][0]
    assert 0.2 < short.of_step['train'][0] / full.of_step['train'][0] < 0.6
    prompts = dataclasses.replace(builder.train, packing='prompts')
    padded = dataclasses.replace(builder, train=prompts)
    again = simulation.simulate(padded, analyses, assume(config, 'constant:16'))
    assert again.of_step['train'] == full.of_step['train']


def test_a_kernel_that_reads_what_is_filled_costs_less(planned, monkeypatch):
    config, builder, analyses = planned
    monkeypatch.setattr(simulation, 'block_size', lambda values: (1, 4))
    arch = dataclasses.replace(builder.policy.arch, attention='splash')
    policy = dataclasses.replace(builder.policy, arch=arch)
    other = dataclasses.replace(builder, policy=policy)
    for text in ('', 'lognormal:16'):
        plain, kernel = (
            simulation.simulate(x, analyses, assume(config, text)).of_step['decode']
            for x in (builder, other)
        )
        assert kernel[0] < plain[0]
        assert kernel[1] < plain[1]


def test_an_evaluation_in_one_call_takes_less_than_one_in_small_batches(planned):
    config, builder, analyses = planned
    assumed = assume(config, 'lognormal:16', num_problems=400)
    small = dataclasses.replace(config.eval, batch_size=8)
    one_call, other = (
        simulation.simulate(builder, analyses, x).besides['evaluation'][0]
        for x in (assumed, dataclasses.replace(assumed, evaluation=small))
    )
    assert one_call < 0.6 * other


def test_only_the_steps_have_keys_and_values_as_int8(planned):
    config, builder, analyses = planned
    policy = dataclasses.replace(builder.policy, quantizes_cache=True)
    int8 = dataclasses.replace(builder, policy=policy)
    full, half = (
        simulation.simulate(x, analyses, assume(config, num_problems=400))
        for x in (builder, int8)
    )
    assert half.of_step['decode'][0] < full.of_step['decode'][0]
    # Of no more memory than a step's.
    assert half.besides['evaluation'][0] >= full.besides['evaluation'][0]
    work, _ = builder.fit_grid()
    evaluated, _ = simulation._grid_of(int8, config.eval, 400)
    assert evaluated.token_bytes == work.token_bytes > int8.fit_grid()[0].token_bytes
    # A response fits where a step has but one, as int8.
    train = dataclasses.replace(builder.train, num_prompts=1)
    sampling = dataclasses.replace(builder.sampling, num_rollouts=1)
    one = dataclasses.replace(int8, train=train, sampling=sampling)
    full = dataclasses.replace(config.eval, batch_size=0)
    assert simulation._grid_of(one, full, 400)[1] == Size(1, 1)


def test_where_compute_is_the_limit_it_is_counted(planned):
    _, builder, analyses = planned
    decode = analyses['decode']
    slow = dataclasses.replace(decode.topology.chip, flops=1e6)
    topology = dataclasses.replace(decode.topology, chip=slow)
    decode = dataclasses.replace(decode, topology=topology)
    cost = simulation._step_cost(builder, decode, simulation.Factors())
    work, first = builder.fit_grid()
    cells = 8 // 2
    flops = decode_flops(
        builder.policy.arch,
        sequences=first.total * cells,
        context_tokens=builder.data.max_prompt_tokens + 32,
    )
    # However few slots windows leave to read.
    decoded = Decoded(1, first, 32, 1.0, 32.0 * first.total)
    low, high = cost(decoded, cells, work.token_bytes)
    assert low == pytest.approx(flops / 8e6)
    assert high == pytest.approx(flops / 8e6 / 0.45)


def test_the_text_has_a_table_for_each_assumption(planned):
    config, builder, by_name = planned
    analyses = [*by_name.values()]
    assumed = [
        assume(config, text, num_problems=100, price=3.0)
        for text in ('lognormal:16', 'constant:8')
    ]
    text = '\n'.join(summary.simulated(builder, analyses, assumed))
    for name in ('decode', 'prompts', 'train', 'step', 'one evaluation', 'price'):
        assert text.count(f'| {name} ') == 2
    assert text.count('40 steps') == 2
    assert text.index('Lengths log-normal') < text.index('Lengths all of 8 tokens')
    run = simulation.simulate(builder, by_name, assumed[1]).run
    assert f'| step, all included   | {f"{run[0] / 40:,.1f} s":>14} |' in text
    assert not summary.simulated(builder, [by_name['decode']], assumed)
    assert not summary.simulated(builder, analyses, [])

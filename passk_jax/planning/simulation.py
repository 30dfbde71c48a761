"""Simulates a step and a run at stated lengths, from the costs of compiled programs.

1. :func:`replay` runs the sampler's schedule on drawn lengths: how many steps each grid
   and ring decode.
2. A decode step costs what its weights, prompts and ring read, times the traffic that
   the compiler adds to this at full size, or its FLOPs.
3. The learner's cost is that of full responses, times the share of its passes that
   packing needs (learning/blocks.py).
4. An evaluation samples its problems once; a checkpoint is written by all hosts.

Each time has two figures: at the chip's peaks, which no run can beat, and at the
:class:`Factors` that peers reach. Verification, the host's decisions and compilation
count nothing.
"""

import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from passk_jax import sharding
from passk_jax.config import CheckpointConfig, EvalConfig
from passk_jax.learning import blocks
from passk_jax.learning.update import Update
from passk_jax.planning import decoding
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.builder import Builder, shard_bytes, tree_bytes
from passk_jax.planning.flops import decode_flops
from passk_jax.planning.lengths import Lengths
from passk_jax.sampling import sampler
from passk_jax.sampling.scheduled import grid, host
from passk_jax.sampling.scheduled.cost import Account
from passk_jax.sampling.scheduled.grid import Size, Work


@dataclasses.dataclass(frozen=True)
class Factors:
    """Shares of the peaks that a program reaches.

    Attributes:
        mfu: of the FLOP/s, by useful FLOPs: MaxText states 45.5 % for 8B on 256 chips
            of v6e.
        bandwidth: of the memory bandwidth while decoding: sglang-jax reaches 37 to 46 %
            on v6e.
        disk: bytes/s that a host writes of a checkpoint; an assumption.
        chips_of_host: chips of a host.
    """

    mfu: float = 0.45
    bandwidth: float = 0.45
    disk: float = 1e9
    chips_of_host: int = 4


@dataclasses.dataclass(frozen=True)
class Decoded:
    """``steps`` decode steps of a cell's grid of this size and ring."""

    steps: int
    size: Size
    ring: int


@dataclasses.dataclass(frozen=True)
class Simulation:
    """Seconds of each part of a step and of a run, at the peaks and as expected.

    Attributes:
        parts: name -> seconds of one of them, twice.
        step: seconds of a step without evaluation, twice.
        run: seconds of the run, twice.
    """

    parts: Mapping[str, tuple[float, float]]
    step: tuple[float, float]
    run: tuple[float, float]


def replay(
    lengths: np.ndarray, work: Work, first: Size, account: Account
) -> list[Decoded]:
    """Runs the schedule on lengths ``[cells, rollouts]``, in the order of the queue.

    A row takes the next rollout of its cell. All cells decode until the last has ended.
    The grid shrinks to the smallest size with enough rows; how rows share prompts may
    let it shrink later.
    """
    starts, ends = map(np.stack, zip(*(_schedule(x, first.total) for x in lengths)))
    last_start, total = int(starts.max()), int(ends.max())
    changes = {0: [(first, 0)]}
    by_end = np.sort(ends, axis=1)
    for size in grid.smaller_sizes(work, first, part=account.pace.part):
        if size.total < by_end.shape[1]:
            ended = int(by_end[:, -size.total - 1].max())
            changes.setdefault(max(ended, last_start), []).append((size, 0))
    ring = host.first_ring(account, work, first)
    changes[0].append((None, ring))
    while ring < work.response_tokens:
        longer = lengths > ring
        if not longer.any():
            break
        grows = int(starts[longer].min()) + ring
        ring = min(account.pace.times * ring, work.response_tokens)
        changes.setdefault(grows, []).append((None, ring))
    decoded, size, ring = [], first, 0
    times = [*sorted(t for t in changes if t < total), total]
    for now, after in itertools.pairwise(times):
        for new_size, new_ring in changes[now]:
            size, ring = new_size or size, max(ring, new_ring)
        decoded.append(Decoded(after - now, size, ring))
    return decoded


def _schedule(lengths: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns when each rollout of a cell starts and ends."""
    free = [0] * rows
    starts = np.zeros(len(lengths), int)
    for i, length in enumerate(lengths.tolist()):
        starts[i] = free[0]
        heapq.heapreplace(free, free[0] + length)
    return starts, starts + lengths


def of_cells(lengths: np.ndarray, work: Work) -> np.ndarray:
    """Cuts lengths ``[P, N]`` into cells: ``[cells, rollouts]``."""
    P, N = lengths.shape
    split = lengths.reshape(
        P // work.problems, work.problems, N // work.rollouts, work.rollouts
    )
    return split.swapaxes(1, 2).reshape(-1, work.problems * work.rollouts)


def share_of_passes(builder: Builder, lengths: np.ndarray) -> float:
    """Returns the share of the learner's passes that responses of ``[P, N]`` need.

    Every response counts as one with a gradient.
    """
    if builder.train.packing != 'rows':
        return 1.0
    update = Update.configured(
        builder.policy,
        builder.make_optimizer(),
        builder.mesh,
        train=builder.train,
        loss=builder.loss,
        sampling=builder.sampling,
    )
    P, N = lengths.shape
    width = builder.sampling.max_response_tokens
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        size = update.size_of_blocks(
            P // update.num_updates,
            num_rollouts=N,
            prompt_tokens=builder.data.max_prompt_tokens,
            row_tokens=width,
        )
    signal = np.ones((P, N), bool)
    packed = blocks.pack_rows(lengths, signal, width=width, shared=update.shares_rows)
    needed = -(-np.asarray(packed.num_rows) // size.rows)
    most = P // update.num_updates * -(-N // size.rows)
    passes = [
        math.ceil(needed[u :: update.num_updates].sum() / size.blocks)
        for u in range(update.num_updates)
    ]
    return sum(passes) / (len(passes) * math.ceil(most / size.blocks))


def simulate(
    builder: Builder,
    analyses: Mapping[str, Analysis],
    lengths: Lengths,
    *,
    evaluation: EvalConfig,
    checkpoint: CheckpointConfig,
    num_problems: int,
    factors: Factors,
) -> Simulation | None:
    """Simulates a step and a run.

    Args:
        builder: of the programs.
        analyses: of the programs by name, ``'train'`` and ``'decode'`` among them.
        lengths: of the responses, in evaluations too.
        evaluation, checkpoint: sections of the configuration.
        num_problems: of an evaluation; 0: leave evaluations out.
        factors: the shares of the peaks that are reached.

    Returns:
        ``None`` if a program's bound is unknown.
    """
    train, decode = analyses.get('train'), analyses.get('decode')
    if not (train and decode and train.bound and decode.bound):
        return None
    chip = decode.topology.chip
    peak = chip.flops * decode.topology.num_devices
    P, N = builder.train.num_prompts, builder.sampling.num_rollouts
    drawn = lengths.draw(P, N)
    step_cost = _step_cost(builder, decode, factors)
    account = decoding.account_of(builder)
    work, first = builder.fit_grid()

    def decoded(lengths: np.ndarray, work: Work, first: Size) -> tuple[float, float]:
        parts = replay(of_cells(lengths, work), work, first, account)
        cells = lengths.size // (work.problems * work.rollouts)
        costs = [(x.steps, step_cost(x, cells)) for x in parts]
        low, high = (sum(n * cost[i] for n, cost in costs) for i in range(2))
        return low, high

    share = share_of_passes(builder, drawn)
    useful = share * train.program.useful_flops / peak
    trained = share * train.bound
    prompts = builder.forward_flops(responses=False) / peak
    parts = {
        'decode': decoded(drawn, work, first),
        'prompts': (prompts, prompts / factors.mfu),
        'train': (trained, max(trained, useful / factors.mfu)),
    }
    step = tuple(sum(x[i] for x in parts.values()) for i in range(2))
    hosts = max(1, decode.topology.num_chips // factors.chips_of_host)
    state = builder.state()
    saved = tree_bytes((state.params, state.opt_state)) / (hosts * factors.disk)
    parts['checkpoint'] = saved, saved
    steps = builder.train.steps
    counts = {'checkpoint': 1 + steps // checkpoint.every}
    if num_problems and evaluation.every:
        size, count = _evaluation_batch(builder, evaluation, num_problems)
        of_batch = _grid_of(builder, evaluation, size)
        again = decoded(lengths.draw(size, evaluation.num_responses), *of_batch)
        flops = prompts * num_problems / P
        parts['evaluation'] = (
            count * again[0] + flops,
            count * again[1] + flops / factors.mfu,
        )
        counts['evaluation'] = 1 + steps // evaluation.every
    run = [
        steps * step[i] + sum(n * parts[name][i] for name, n in counts.items())
        for i in range(2)
    ]
    return Simulation(parts, (step[0], step[1]), (run[0], run[1]))


def _step_cost(
    builder: Builder, decode: Analysis, factors: Factors
) -> Callable[[Decoded, int], tuple[float, float]]:
    """Makes a function of a grid and the number of cells: seconds of a step, twice."""
    chip, arch = decode.topology.chip, builder.policy.arch
    work, first = builder.fit_grid()
    weights = shard_bytes(builder.decoding_weights())
    context = builder.data.max_prompt_tokens

    def read(size: Size, ring: int) -> float:
        return weights + work.used_bytes(size, ring)

    added = 1.0
    if decode.costs is not None:
        added = decode.costs.memory / read(first, work.response_tokens)
    network = decode.seconds.get('network', 0.0)

    def cost(of: Decoded, cells: int) -> tuple[float, float]:
        traffic = added * read(of.size, of.ring) / chip.memory_bandwidth
        flops = decode_flops(
            arch, sequences=of.size.total * cells, context_tokens=context + of.ring
        )
        compute = flops / (chip.flops * decode.topology.num_devices)
        bound = max(traffic, compute, network)
        slower = max(traffic / factors.bandwidth, compute / factors.mfu, network)
        return bound, slower

    return cost


def _evaluation_batch(
    builder: Builder, evaluation: EvalConfig, num_problems: int
) -> tuple[int, int]:
    """Returns the problems of a batch, and how many batches there are."""
    axes = sharding.RULES['batch']
    shares = math.prod(builder.mesh.shape[axis] for axis in axes)
    size = evaluation.batch_size or -(-num_problems // shares) * shares
    return size, -(-num_problems // size)


def _grid_of(
    builder: Builder, evaluation: EvalConfig, size: int
) -> tuple[Work, Size]:
    """Returns the grid of an evaluation's batch, as setup.py limits it."""
    work, first = builder.fit_grid()
    limit = builder.sampling.max_cache_bytes
    if not evaluation.batch_size:
        limit = limit or work.cache_bytes(first)
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        return sampler.fit_grid(
            builder.policy.arch,
            num_prompts=size,
            num_rollouts=evaluation.num_responses,
            prompt_tokens=builder.data.max_prompt_tokens,
            max_response_tokens=builder.sampling.max_response_tokens,
            max_cache_bytes=limit,
        )


def lines(
    simulation: Simulation,
    lengths: Lengths,
    *,
    factors: Factors,
    num_chips: int,
    steps: int,
    num_problems: int,
    price: float,
) -> list[str]:
    """Writes a simulation as Markdown.

    ``price`` is that of an hour of a chip; 0: unknown.
    """

    def row(name: str, values: Sequence[float], unit: str = 's') -> str:
        cells = ' | '.join(f'{value:>12,.1f} {unit}' for value in values)
        return f'| {name:<28} | {cells} |'

    hours = [x / 3600 for x in simulation.run]
    rows = [row(name, x) for name, x in simulation.parts.items()]
    rows.insert(3, row('step', simulation.step))
    rows += [
        row(f'run of {steps:,} steps', hours, 'h'),
        row('chip-hours', [x * num_chips for x in hours], 'h'),
    ]
    if price:
        rows.append(row('price', [x * num_chips * price for x in hours], ' '))
    ending = 'no evaluation counts: name --eval_problems'
    if num_problems:
        ending = f'an evaluation has {num_problems:,} problems'
    return [
        '',
        f'Simulated, with lengths {lengths.name} (mean {lengths.mean:,.0f}); expected: '
        f'{factors.mfu:.0%} of the FLOP/s, {factors.bandwidth:.0%} of the memory '
        f'bandwidth in decoding, {factors.disk / 1e9:g} GB/s a host; {ending}.',
        '',
        f'| {"":<28} | {"at least":>14} | {"expected":>14} |',
        f'| {"-" * 28} | {"-" * 13}: | {"-" * 13}: |',
        *rows,
    ]

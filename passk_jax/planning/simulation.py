"""Simulates a step and a run at stated lengths, from the costs of compiled programs.

1. :func:`replay` runs the sampler's schedule on drawn lengths, and counts the steps of
   each grid and ring.
2. A decode step takes as long as its FLOPs, or as reading its weights, prompts and
   rings. The bytes are multiplied by the compiled program's ratio of traffic to these
   bytes at full size. On TPUs, attention reads only the filled blocks of a ring
   (decode_attention.py).
3. The learner costs as much as with full responses, times the share of its passes that
   packing needs (learning/blocks.py).
4. An evaluation samples its problems once; a checkpoint is written by all hosts.

Each time has two figures: at the chip's peaks, which no run can beat, and at the
:class:`Factors` that other programs reach. Verification, the host's decisions and
compilation count as 0.
"""

import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import CheckpointConfig, EvalConfig
from passk_jax.learning import blocks
from passk_jax.models.decode_attention import block_size
from passk_jax.models.quantized import empty_layer
from passk_jax.planning import decoding
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.builder import Builder, shard_bytes, tree_bytes
from passk_jax.planning.flops import decode_flops
from passk_jax.planning.lengths import Lengths
from passk_jax.sampling import sampler
from passk_jax.sampling.scheduled import grid, host
from passk_jax.sampling.scheduled.cost import Account
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.setup import evaluation as evaluations
from passk_jax.setup.model import as_evaluated


@dataclasses.dataclass(frozen=True)
class Factors:
    """Shares of the peaks that a program reaches.

    Attributes:
        mfu: share of the FLOP/s, by useful FLOPs: MaxText states 45.5 % for 8B on 256
            chips of v6e.
        bandwidth: share of the memory bandwidth while decoding: sglang-jax reaches 37
            to 46 % on v6e.
        disk: bytes/s at which a host writes a checkpoint; an assumption.
        chips_of_host: chips per host.
    """

    mfu: float = 0.45
    bandwidth: float = 0.45
    disk: float = 1e9
    chips_of_host: int = 4


@dataclasses.dataclass(frozen=True)
class Decoded:
    """``steps`` decode steps of a cell's grid of this size and ring.

    A step reads ``slots`` slots of a layer's rings, on average. ``tokens`` counts the
    tokens in the rings, ignoring windows.
    """

    steps: int
    size: Size
    ring: int
    slots: float
    tokens: float


@dataclasses.dataclass(frozen=True)
class Simulation:
    """Seconds of each part of a step and of a run, at the peaks and as expected.

    Attributes:
        of_step: the parts of a step, by name.
        besides: work between steps, such as an evaluation, by name.
        step: a step, without the work between steps.
        run: the run.
    """

    of_step: Mapping[str, tuple[float, float]]
    besides: Mapping[str, tuple[float, float]]
    step: tuple[float, float]
    run: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Assumed:
    """The assumptions of a simulated run.

    Attributes:
        lengths: lengths of the responses, also in evaluations.
        evaluation, checkpoint: sections of the configuration.
        num_problems: problems of an evaluation; 0: unknown, evaluations count as 0.
        price: price of a chip-hour; 0: unknown.
        factors: the reached shares of the peaks.
    """

    lengths: Lengths
    evaluation: EvalConfig
    checkpoint: CheckpointConfig
    num_problems: int = 0
    price: float = 0.0
    factors: Factors = Factors()


def replay(
    lengths: np.ndarray,
    work: Work,
    first: Size,
    account: Account,
    filled: Callable[[np.ndarray], np.ndarray] | None = None,
) -> list[Decoded]:
    """Runs the schedule on lengths ``[cells, rollouts]``, in the order of the queue.

    A free row takes the next rollout of its cell. All cells decode until the last one
    has ended. The grid shrinks to the smallest size with enough rows; the real grid may
    shrink later, because rows share prompts. ``filled`` maps numbers of steps to the
    slots that a rollout reads in them; ``None``: each row reads its whole ring.
    """
    schedules = [_schedule(x, first.total) for x in lengths]
    starts, ends = (np.stack([x[i] for x in schedules]) for i in range(2))
    last_start, total = int(starts.max()), int(ends.max())
    changes: dict[int, list[tuple[Size | None, int]]] = {0: [(first, 0)]}
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

    def mean(count: Callable[[np.ndarray], np.ndarray], now: int, after: int) -> float:
        counts = [count(np.clip(t - starts, 0, ends - starts)) for t in (now, after)]
        # The other cells wait for the one with the most work.
        return (counts[1] - counts[0]).sum(axis=1).max() / (after - now)

    decoded, size, ring = [], first, 0
    times = [*sorted(t for t in changes if t < total), total]
    for now, after in itertools.pairwise(times):
        for new_size, new_ring in changes[now]:
            size, ring = new_size or size, max(ring, new_ring)
        slots = tokens = float(size.total * ring)
        if filled is not None:
            slots = mean(filled, now, after)
            tokens = mean(lambda steps: steps * (steps + 1.0) / 2, now, after)
        decoded.append(Decoded(after - now, size, ring, slots, tokens))
    return decoded


def _schedule(lengths: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns when each rollout of a cell starts and ends."""
    free = [0] * rows
    starts = np.zeros(len(lengths), int)
    for i, length in enumerate(lengths.tolist()):
        starts[i] = free[0]
        heapq.heapreplace(free, free[0] + length)
    return starts, starts + lengths


def cut_into_cells(lengths: np.ndarray, work: Work) -> np.ndarray:
    """Cuts lengths ``[P, N]`` into cells: ``[cells, rollouts]``."""
    P, N = lengths.shape
    split = lengths.reshape(
        P // work.problems, work.problems, N // work.rollouts, work.rollouts
    )
    return split.swapaxes(1, 2).reshape(-1, work.problems * work.rollouts)


def share_of_passes(builder: Builder, lengths: np.ndarray) -> float:
    """Returns the share of the learner's passes that lengths ``[P, N]`` need.

    Assumes that every response has a gradient.
    """
    update = builder.update()
    if not update.deals:
        return 1.0
    P, N = lengths.shape
    width = builder.sampling.max_response_tokens
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        mini = P // update.num_updates, N, width
        prompt_tokens = builder.data.max_prompt_tokens
        size, *_ = update.block_sizes(*mini, prompt_tokens=prompt_tokens)
    signal = jnp.ones((P, N), bool)
    packed = blocks.pack_rows(jnp.asarray(lengths), signal, width=width)
    needed = -(-np.asarray(packed.num_rows) // size.rows)
    most = P // update.num_updates * -(-N // size.rows)
    passes = [
        math.ceil(needed[u :: update.num_updates].sum() / size.blocks)
        for u in range(update.num_updates)
    ]
    return sum(passes) / (len(passes) * math.ceil(most / size.blocks))


def simulate(
    builder: Builder, analyses: Mapping[str, Analysis], assumed: Assumed
) -> Simulation | None:
    """Simulates a step and a run.

    ``analyses`` are of the builder's programs by name. Returns ``None`` without the
    bounds of ``'train'`` and ``'decode'``.
    """
    train, decode = analyses.get('train'), analyses.get('decode')
    if not (train and decode and train.bound and decode.bound):
        return None
    factors, topology, of_sampling = (
        assumed.factors,
        decode.topology,
        builder.sampling_run,
    )
    P, N = builder.train.num_prompts, builder.sampling.num_rollouts
    drawn = assumed.lengths.draw(P, N)
    decoded = _decoder(of_sampling, decode, factors)
    peak = topology.chip.flops * topology.num_devices
    share = share_of_passes(builder, drawn)
    trained = share * train.bound
    useful = share * train.program.useful_flops / peak
    prompts = builder.forward_flops(responses=False) / peak
    of_step = {
        'decode': decoded(drawn, *of_sampling.fit_grid()),
        'prompts': (prompts, prompts / factors.mfu),
        'train': (trained, max(trained, useful / factors.mfu)),
    }
    hosts = max(1, topology.num_chips // factors.chips_of_host)
    state = builder.state()
    saved = tree_bytes((state.params, state.opt_state)) / (hosts * factors.disk)
    steps, besides = builder.train.steps, {'checkpoint': (saved, saved)}
    due = [assumed.evaluation.splits_due(x, last=steps) for x in range(steps + 1)]
    is_saved = functools.partial(assumed.checkpoint.is_due, last=steps)
    counts = {'checkpoint': sum(is_saved(x, evaluated=y) for x, y in enumerate(due))}
    if assumed.num_problems and any(due):
        size, batches = _evaluation_batch(builder, assumed)
        lengths = assumed.lengths.draw(size, assumed.evaluation.num_responses)
        sampled = decoded(lengths, *_grid_of(of_sampling, assumed.evaluation, size))
        read = [x * assumed.num_problems / P for x in of_step['prompts']]
        low, high = (batches * x + y for x, y in zip(sampled, read, strict=True))
        besides['evaluation'] = low, high
        counts['evaluation'] = sum(map(len, due))
    step = sum(x for x, _ in of_step.values()), sum(x for _, x in of_step.values())
    run = tuple(
        steps * step[i] + sum(n * besides[name][i] for name, n in counts.items())
        for i in range(2)
    )
    return Simulation(of_step, besides, step, (run[0], run[1]))


def _decoder(
    builder: Builder, decode: Analysis, factors: Factors
) -> Callable[[np.ndarray, Work, Size], tuple[float, float]]:
    """Makes a function from lengths ``[P, N]`` and their grid to both figures."""
    account, cost = decoding.account_of(builder), _step_cost(builder, decode, factors)
    filled = filled_slots(builder)

    def decoded(lengths: np.ndarray, work: Work, first: Size) -> tuple[float, float]:
        cells = lengths.size // (work.problems * work.rollouts)
        parts = replay(cut_into_cells(lengths, work), work, first, account, filled)
        costs = [(x.steps, cost(x, cells, work.token_bytes)) for x in parts]
        low, high = (sum(n * seconds[i] for n, seconds in costs) for i in range(2))
        return low, high

    return decoded


def _step_cost(
    builder: Builder, decode: Analysis, factors: Factors
) -> Callable[[Decoded, int, int], tuple[float, float]]:
    """Makes a function from grid, cells and a token's bytes to a step's two figures."""
    chip, arch = decode.topology.chip, builder.policy.arch
    work, first = builder.fit_grid()
    weights = shard_bytes(builder.decoding_weights())
    prompt, ring = builder.data.max_prompt_tokens, work.response_tokens
    full = first.total * ring
    if filled := filled_slots(builder):
        windows = [layer.window for layer in arch.all_layers]
        prompt = sum(min(prompt, x or prompt) for x in windows) / len(windows)
        full = first.total * np.diff(filled(np.array([ring - 1, ring]))).item()

    def read(size: Size, slots: float, token_bytes: int) -> float:
        return weights + (size.slots * prompt + slots) * token_bytes

    added = 1.0
    if decode.costs is not None:
        added = decode.costs.memory / read(first, full, work.token_bytes)
    network = decode.seconds.get('network', 0.0)

    def cost(of: Decoded, cells: int, token_bytes: int) -> tuple[float, float]:
        num_bytes = added * read(of.size, of.slots, token_bytes)
        traffic = num_bytes / chip.memory_bandwidth
        context = builder.data.max_prompt_tokens + of.tokens / of.size.total
        flops = decode_flops(
            arch, sequences=of.size.total * cells, context_tokens=context
        )
        compute = flops / (chip.flops * decode.topology.num_devices)
        bound = max(traffic, compute, network)
        slower = max(traffic / factors.bandwidth, compute / factors.mfu, network)
        return bound, slower

    return cost


def filled_slots(builder: Builder) -> Callable[[np.ndarray], np.ndarray] | None:
    """Makes a function from steps to the slots that a rollout reads in its first steps.

    It counts whole blocks, as a mean over layers. Returns ``None`` if attention reads
    whole rings.
    """
    arch, work = builder.policy.arch, builder.fit_grid()[0]
    if arch.attention != 'splash':
        return None
    quantized = builder.policy.quantizes_cache
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        lead = sharding.local_size('kv_heads', arch.num_kv_heads), 1
        size = lead, work.response_tokens
        layer = jax.eval_shape(lambda: empty_layer(arch, *size, quantized))
        _, width = block_size(layer.values)

    def count_slots(steps: np.ndarray, window: int) -> np.ndarray:
        growing = np.minimum(steps, window) if window else steps
        blocks, part = np.divmod(growing, width)
        slots = width * (width * blocks * (blocks + 1) // 2 + part * (blocks + 1))
        return slots + (steps - growing) * -(-window // width) * width

    windows = [layer.window for layer in arch.all_layers]
    return lambda steps: np.mean([count_slots(steps, x) for x in windows], axis=0)


def _evaluation_batch(builder: Builder, assumed: Assumed) -> tuple[int, int]:
    """Returns the problems of a batch, and how many batches there are."""
    size = evaluations.count_together(
        assumed.evaluation,
        assumed.num_problems,
        shares=sharding.count_shards(builder.mesh, 'batch'),
        rollout_shares=sharding.count_shards(builder.sampling_run.mesh, 'rollouts'),
        of_step=(builder.train.num_prompts, builder.sampling.num_rollouts),
        pictured=builder.policy.arch.vision is not None,
    )
    return size, -(-assumed.num_problems // size)


def _grid_of(builder: Builder, evaluation: EvalConfig, size: int) -> tuple[Work, Size]:
    """Returns the grid of an evaluation's batch, limited as in setup/evaluation.py."""
    work, first = builder.fit_grid()
    limit = builder.sampling.max_cache_bytes
    shares = sharding.count_shards(builder.mesh, 'rollouts')
    waits = not evaluation.batch_size and evaluations.can_wait(evaluation, shares)
    fit = functools.partial(
        sampler.fit_grid,
        as_evaluated(builder.policy),
        num_prompts=size,
        num_rollouts=evaluation.num_responses,
        prompt_tokens=builder.data.max_prompt_tokens,
        max_response_tokens=builder.sampling.max_response_tokens,
    )
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        if waits and not limit:
            least = fit(max_cache_bytes=0)[0].least_bytes
            limit = max(least, work.cache_bytes(first))
        return fit(max_cache_bytes=limit)

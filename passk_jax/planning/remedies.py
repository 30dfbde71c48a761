"""Proposes changes of the configuration that make a program fit.

:func:`ways_out` tries kinds of changes, the cheapest first, each in several degrees,
from shapes alone (fits.py). It drops changes that the configuration rejects and those
that save nothing. A change affects one value, or a pair of mesh axes.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from passk_jax.models import decode_mesh
from passk_jax.models.arch import REMAT
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.builder import Builder, shard_bytes
from passk_jax.planning.fits import Fit, estimate, samples, works_by_pass

Overrides = Mapping[str, Any]
"""Dotted key -> value."""

Check = Callable[[Overrides], object]
"""Raises ValueError for overrides that the configuration refuses."""

_DECODE_TENSOR = 'mesh.decode_tensor'
_MOST = 3
LEAST_SAVING = 0.01
"""The smallest share of the memory that a change must save."""
# The smallest share of the responses' length that is worth proposing.
_LEAST_RESPONSE = 0.25
_FACTORS = (2, 4, 8, 16)
# The fewest tokens per chunk of the head: with fewer, its products leave a chip idle.
_LEAST_CHUNK = 64
# Limits of keys and values to try, as shares of the present size.
_CACHE_SHARES = (0.75, 0.5, 0.375, 0.25, 0.125, 0.0625)
# The cost of more devices along an axis, the cheapest first.
_AXES = {
    'fsdp': 'gathering weights from more chips',
    'rollout': 'parameters that more chips hold alike',
    'tensor': 'more traffic in every layer',
}


@dataclasses.dataclass(frozen=True)
class Way:
    """A change that saves memory.

    Attributes:
        overrides: the values to change.
        cost: its cost, in words.
        num_devices: devices that it needs.
        saved: estimated bytes that it saves on a device.
        enough: whether the program then fits.
    """

    overrides: Overrides
    cost: str
    num_devices: int
    saved: float
    enough: bool


def ways_out(
    analysis: Analysis, builder: Builder, edge: Fit, *, check: Check
) -> list[Way]:
    """Returns at most three changes: sufficient ones first, then the cheapest.

    ``edge`` is from :func:`passk_jax.planning.fits.fit`.
    """
    ways = []
    for cost, degrees in _changes(builder, analysis.program.name, edge):
        if way := _mildest(analysis, builder, cost, degrees, check):
            ways.append(way)
        if sum(way.enough for way in ways) == _MOST:
            break
    return sorted(ways, key=lambda way: not way.enough)[:_MOST]


def _mildest(
    analysis: Analysis,
    builder: Builder,
    cost: str,
    degrees: Iterable[Overrides],
    check: Check,
) -> Way | None:
    """Returns the first degree that suffices, else the one that saves most."""
    memory, best = analysis.memory, None
    for overrides in degrees:
        try:
            other = builder.changed(overrides)
            check(overrides)
            needed = estimate(analysis, builder, other)
        except ValueError:
            # For example, the batch does not divide the next larger one.
            continue
        saved = memory.total - needed
        if saved > (best.saved if best else LEAST_SAVING * memory.total):
            devices = math.prod(other.mesh.shape.values())
            best = Way(overrides, cost, devices, saved, needed <= memory.limit)
            if best.enough:
                break
    return best


def _changes(
    builder: Builder, name: str, edge: Fit
) -> Iterator[tuple[str, list[Overrides]]]:
    """Yields cost and degrees of each change that could help, the cheapest first."""
    yield from on_the_same_mesh(builder, name)
    yield from _layouts(builder)
    mesh = builder.mesh.shape
    yield 'more chips', [{f'mesh.{x}': n * mesh[x]} for n in _FACTORS for x in _AXES]
    longest, now = edge.longest_response, builder.sampling.max_response_tokens
    if longest and now * _LEAST_RESPONSE <= longest < now:
        yield 'another experiment', _vary('sampling.max_response_tokens', [longest])
    if not works_by_pass(name):
        batches = range(builder.train.num_prompts - 1, 0, -1)
        yield 'another experiment', _vary('train.num_prompts', batches)


def on_the_same_mesh(
    builder: Builder, name: str
) -> Iterator[tuple[str, list[Overrides]]]:
    """Yields cost and degrees of changes that keep the mesh and the results.

    The cheapest come first.
    """
    train, policy, of_sampling = builder.train, builder.policy, builder.sampling_run
    if works_by_pass(name):
        batches = range(train.micro_batch_prompts - 1, 0, -1)
        yield 'smaller products', _vary('train.micro_batch_prompts', batches)
        counts = range(builder.pass_rollouts - 1, 0, -1)
        sizes = _vary('train.micro_batch_rollouts', counts)
        yield 'running each prompt again for every part of its rollouts', sizes
        chunks = [policy.head_chunk_tokens // factor for factor in _FACTORS]
        chunks = [size for size in chunks if size >= _LEAST_CHUNK]
        yield 'smaller products of the head', _vary('model.head_chunk_tokens', chunks)
        more = REMAT[REMAT.index(policy.arch.remat) + 1 :]
        yield 'more recomputation in the backward pass', _vary('model.remat', more)
    if samples(name):
        heads = policy.arch.num_kv_heads
        sizes = decode_mesh.sizes(builder.mesh, num_kv_heads=heads)
        more = [size for size in sizes if size > of_sampling.mesh.shape['tensor']]
        yield 'more traffic in every layer of sampling', _vary(_DECODE_TENSOR, more)
    if name == 'decode':
        slots, _ = of_sampling.rows()
        cache_bytes = shard_bytes((of_sampling.prefix(slots), of_sampling.cache()))
        limits = [_round_down(cache_bytes * share) for share in _CACHE_SHARES]
        cost = 'rollouts that wait for others to end'
        yield cost, _vary('sampling.max_cache_bytes', limits)


def _round_down(size: float) -> int:
    """Rounds down to two significant digits."""
    unit = 10 ** max(0, int(math.log10(size)) - 1)
    return int(size // unit * unit)


def _vary(key: str, values: Sequence[Any]) -> list[Overrides]:
    return [{key: value} for value in values]


def _layouts(builder: Builder) -> Iterator[tuple[str, list[Overrides]]]:
    """Yields changes to more devices along one axis and fewer along another."""
    shape = builder.mesh.shape
    for axis, cost in _AXES.items():
        for giver in ('data', 'rollout', 'tensor', 'fsdp'):
            degrees: list[Overrides] = [
                {f'mesh.{giver}': shape[giver] // n, f'mesh.{axis}': shape[axis] * n}
                for n in _FACTORS
                if shape[giver] % n == 0
            ]
            if giver != axis and degrees:
                yield cost, degrees

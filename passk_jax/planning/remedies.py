"""Ways out of a program that does not fit: other values of the configuration.

:func:`ways_out` has a list of changes, the cheapest first, each in several degrees. It
tries them in turn, by shapes alone (fits.py): what the configuration refuses, and what
saves nothing, is dropped. Only one value, or pair of values, is changed at a time.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from passk_jax import config as configs
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.fits import Fit, estimate, works_by_pass
from passk_jax.planning.programs import Builder, shard_bytes

Overrides = Mapping[str, Any]

_MOST = 3
# A way that saves a smaller share than this saves nothing.
_LEAST_SAVING = 0.01
# Of the responses' length: with less of it there is no experiment left.
_LEAST_RESPONSE = 0.25
_FACTORS = (2, 4, 8, 16)
# By how much of a layer is computed again.
_REMAT = ('none', 'attention', 'full')
# What it costs to have more devices along an axis, the cheapest first.
_AXES = {
    'fsdp': 'gathering weights from more chips',
    'rollout': 'parameters that more chips hold alike',
    'tensor': 'more traffic in every layer',
}


@dataclasses.dataclass(frozen=True)
class Way:
    """A change that helps.

    Attributes:
        overrides: dotted key -> value.
        cost: what it costs, in words.
        num_chips: that it takes.
        saved: bytes of a device, as an estimate.
        enough: whether the program fits then.
    """

    overrides: Overrides
    cost: str
    num_chips: int
    saved: float
    enough: bool


def ways_out(analysis: Analysis, builder: Builder, edge: Fit) -> list[Way]:
    """At most three changes, the cheapest first; then those that are not enough alone.

    Args:
        analysis: of a program that does not fit.
        builder: that made it.
        edge: from :func:`passk_jax.planning.fits.fit`.
    """
    ways = []
    for cost, degrees in _changes(builder, analysis.program.name, edge):
        if way := _mildest(analysis, builder, cost, degrees):
            ways.append(way)
        if sum(way.enough for way in ways) == _MOST:
            break
    return sorted(ways, key=lambda way: not way.enough)[:_MOST]


def _mildest(
    analysis: Analysis, builder: Builder, cost: str, degrees: Iterable[Overrides]
) -> Way | None:
    """The first degree that is enough, else the one that saves most."""
    memory, best = analysis.memory, None
    for overrides in degrees:
        other = builder.changed(overrides)
        try:
            configs.from_json_dict(configs.to_dict(other.config))
            needed = estimate(analysis, builder, other)
        except ValueError:
            # Such as a batch that does not divide the next larger one.
            continue
        saved = memory.total - needed
        if saved > (best.saved if best else _LEAST_SAVING * memory.total):
            chips = math.prod(other.mesh.shape.values())
            best = Way(overrides, cost, chips, saved, needed <= memory.limit)
            if best.enough:
                break
    return best


def _changes(
    builder: Builder, name: str, edge: Fit
) -> Iterator[tuple[str, list[Overrides]]]:
    """What could help a program, the cheapest first: its cost, and its degrees."""
    config = builder.config
    train, sampling, model = config.train, config.sampling, config.model
    if works_by_pass(name):
        batches = range(train.micro_batch_prompts - 1, 0, -1)
        yield (
            'smaller products',
            [{'train.micro_batch_prompts': batch} for batch in batches],
        )
        chunks = [model.head_chunk_tokens // factor for factor in _FACTORS]
        yield (
            'smaller products of the head',
            [{'model.head_chunk_tokens': chunk} for chunk in chunks],
        )
        more = _REMAT[_REMAT.index(model.remat) + 1 :]
        yield (
            'computing more anew in the backward pass',
            [{'model.remat': remat} for remat in more],
        )
    if name == 'decode':
        slots, _ = builder.rows()
        held = shard_bytes((builder.prefix(slots), builder.cache()))
        yield (
            'rollouts that wait for others to end',
            [{'sampling.max_cache_bytes': int(held) // factor} for factor in _FACTORS],
        )
    yield from _layouts(builder)
    yield (
        'more chips',
        [
            {f'mesh.{axis}': factor * builder.mesh.shape[axis]}
            for factor in _FACTORS
            for axis in _AXES
        ],
    )
    longest, now = edge.longest_response, sampling.max_response_tokens
    if longest and now * _LEAST_RESPONSE <= longest < now:
        yield 'another experiment', [{'sampling.max_response_tokens': longest}]
    if not works_by_pass(name):
        batches = range(train.num_prompts - 1, 0, -1)
        yield 'another experiment', [{'train.num_prompts': batch} for batch in batches]


def _layouts(builder: Builder) -> Iterator[tuple[str, list[Overrides]]]:
    """More devices along one axis, of the same chips."""
    shape = builder.mesh.shape
    for axis, cost in _AXES.items():
        for giver in ('data', 'rollout', 'tensor', 'fsdp'):
            factors = [n for n in _FACTORS if shape[giver] % n == 0]
            if giver != axis and factors:
                yield (
                    cost,
                    [
                        {
                            f'mesh.{giver}': shape[giver] // factor,
                            f'mesh.{axis}': shape[axis] * factor,
                        }
                        for factor in factors
                    ],
                )

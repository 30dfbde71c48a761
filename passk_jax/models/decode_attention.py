"""Attention of the newest token of every rollout, in plain JAX or by a TPU's kernel.

A rollout sees slots of its cache, which is a ring, and of its prompt, which all
rollouts of the problem share. A prompt is a ring that has not wrapped, so :class:`Seen`
describes both.

The plain form (attention.py) reads all slots. The kernel reads only blocks with visible
slots: its grid is a list of those blocks, whose length only the device knows. It
converts int8 to the working dtype on the chip. It is called once for the caches and
once for the prompts, and the results are merged by their log-sums.
"""

import dataclasses
import functools
from typing import Any

import jax
from jax import numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Bool, Float, Int

from passk_jax import sharding
from passk_jax.models.attention import CACHE_AXES, PREFIX_AXES, KeyValues, attend_masked
from passk_jax.models.products import contract

_ROW_AXES = ('batch', 'rollouts')
_LOWEST = float(jnp.finfo(jnp.float32).min)
_LANES, _SUBLANES = 128, 8
# The most keys and values of a kernel step. With fewer bytes, a step takes longer than
# its copies; with more slots, more of them lie past the last visible one.
_BLOCK_BYTES, _BLOCK_SLOTS = 1 << 19, 512
# The most logits, or results, of a step: 1 MiB of float32 in the chip's memory.
_STEP_NUMBERS = 1 << 18
_COMPILER_PARAMS = pltpu.CompilerParams(dimension_semantics=('parallel', 'arbitrary'))


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=('newest', 'counts'),
    meta_fields=('window',),
)
@dataclasses.dataclass(frozen=True)
class Seen:
    """The slots of a ring that a query sees: the newest ``counts``, up to ``newest``.

    Attributes:
        newest: int32 ``[#P, #N]``, the slot of the newest token.
        counts: int32 ``[P, #N]``, at most the slots of the ring.
        window: an upper bound of the counts; 0: unknown.
    """

    newest: jax.Array
    counts: jax.Array
    window: int

    def mask(self, num_slots: int) -> Bool[Array, 'P #N 1 S']:
        """Returns the mask of visible slots, in a ring of ``num_slots``."""
        ages = self.newest[..., None, None] - jnp.arange(num_slots)
        ages = jnp.where(ages < 0, ages + num_slots, ages)
        return ages < self.counts[..., None, None]


def newest_seen(
    prefix_lengths: Int[Array, 'P'],
    lengths: Int[Array, 'P N'],
    slot: Int[Array, ''],
    *,
    ring: int,
    window: int,
) -> tuple[Seen, Seen]:
    """Returns the slots of prompts and of caches that the newest tokens see.

    Args:
        prefix_lengths: tokens of each prompt, in its first slots.
        lengths: tokens of each rollout before the newest.
        slot: where the newest tokens lie in the caches.
        ring: slots of the caches.
        window: tokens that a query sees, including itself; 0: all before it.
    """
    of_prompts = prefix_lengths[:, None]
    newest, counts = of_prompts - 1, jnp.minimum(lengths + 1, ring)
    if window:
        of_prompts = jnp.clip(window - 1 - lengths, 0, of_prompts)
        counts = jnp.minimum(counts, window)
    return Seen(newest, of_prompts, window), Seen(slot[None, None], counts, window)


def attend_newest(
    implementation: str,
    query: Float[Array, 'P N 1 J H'],
    cache: KeyValues,
    seen: Seen,
    prefix: KeyValues,
    seen_prefix: Seen,
) -> Float[Array, 'P N 1 J H']:
    """Attends with the newest token of every rollout to its cache and its prompt.

    Args:
        implementation: one of ``attention_kernels.IMPLEMENTATIONS``; ``'splash'`` means
            this module's kernel, any other the plain form.
        query: rotated queries, scaled by ``H ** -0.5``.
        cache: keys ``[P, C, N, H, R]`` and values ``[P, C, N, R, H]``; as int8 also
            scales.
        seen: the slots of the cache that each query sees; at least one.
        prefix: keys ``[P, C, H, S]`` and values ``[P, C, S, H]``.
        seen_prefix: the slots of the prompt that each query sees; perhaps none.

    Returns:
        The weighted sums of values, in the dtype of the queries.
    """
    if implementation == 'splash':
        return attend_filled(query, cache, seen, prefix, seen_prefix)
    mask, shared = seen.mask(cache.values.shape[3]), prefix.values.shape[2]
    return attend_masked(query, cache, mask, prefix, seen_prefix.mask(shared))


def attend_filled(
    query: Float[Array, 'P N 1 J H'],
    cache: KeyValues,
    seen: Seen,
    prefix: KeyValues,
    seen_prefix: Seen,
    *,
    interpret: Any = False,
) -> Float[Array, 'P N 1 J H']:
    """Attends like :func:`attend_newest`, with the kernel."""
    P, N, _, J, H = query.shape
    C = cache.keys.shape[1]

    def attend_locally(query, *args) -> jax.Array:
        return _attend_parts(query, *args, interpret=interpret)

    def split(axes: tuple[str | None, ...], tree: Any) -> Any:
        return jax.tree.map(lambda x: sharding.spec_of(axes, x.shape), tree)

    # Group queries by the cache's heads: a mesh that does not divide C splits no heads.
    query = query.reshape(P, N, C, J // C, H).transpose(0, 2, 1, 3, 4)
    trees = query, cache, seen, prefix, seen_prefix
    axes = CACHE_AXES, CACHE_AXES, _ROW_AXES, PREFIX_AXES, _ROW_AXES
    in_specs = tuple(map(split, axes, trees))
    mixed = sharding.on_devices(attend_locally, in_specs, in_specs[0])(*trees)
    return mixed.transpose(0, 2, 1, 3, 4).reshape(P, N, 1, J, H)


def _attend_parts(
    query: Float[Array, 'P C N G H'],
    cache: KeyValues,
    seen: Seen,
    prefix: KeyValues,
    seen_prefix: Seen,
    *,
    interpret: Any,
) -> Float[Array, 'P C N G H']:
    """Attends on one device: to the caches, to the prompts, and merges the two."""
    P, C, N, G, H = query.shape
    attend = functools.partial(_attend_ring, window=seen.window, interpret=interpret)

    def repeat_by_query(counts: jax.Array) -> jax.Array:
        return jnp.broadcast_to(counts[..., None], (P, N, G))

    newest = jnp.broadcast_to(seen.newest, (P, N))
    cached, of_cached = attend(query, cache, newest, repeat_by_query(seen.counts))
    # The rollouts of a prompt form K sets that share products, each as large as fits.
    prefix = jax.tree.map(lambda x: x[:, :, None], prefix)
    heads, width = block_size(prefix.values)
    most = max(1, _STEP_NUMBERS // (heads * max(width, H) * G))
    K = next(sets for sets in range(-(-N // most), N + 1) if N % sets == 0)
    newest = jnp.broadcast_to(seen_prefix.newest, (P, K))
    counts = repeat_by_query(seen_prefix.counts).reshape(P, K, -1)
    shared, of_shared = attend(query.reshape(P, C, K, -1, H), prefix, newest, counts)
    shared, of_shared = shared.reshape(cached.shape), of_shared.reshape(of_cached.shape)
    share = jax.nn.sigmoid(of_cached - of_shared)
    return (share * cached + (1 - share) * shared).astype(query.dtype)


def _attend_ring(
    query: Float[Array, 'P C K M H'],
    ring: KeyValues,
    newest: Int[Array, 'P K'],
    counts: Int[Array, 'P K M'],
    *,
    window: int,
    interpret: Any,
) -> tuple[Float[Array, 'P C K M H'], Float[Array, 'P C K M 1']]:
    """Attends with the M queries of each of P x K sets to the set's ring.

    Args:
        query: the queries.
        ring: keys ``[P, C, #K, H, R]``, values ``[P, C, #K, R, H]``; perhaps scales
            ``[P, C, #K, 2, R]``.
        newest, counts, window: the slots that the queries see, as in :class:`Seen`.
        interpret: as ``pl.pallas_call`` takes it.

    Returns:
        The weighted means of values, and the log-sums of weights, float32; 0 and the
        lowest number for a query that sees nothing.
    """
    P, C, K, M, H = query.shape
    num_rings, R = ring.values.shape[2:4]
    heads, width = block_size(ring.values)
    stored = [_order_as_stored(ring.keys, 'hb'), _order_as_stored(ring.values, 'bh')]
    if ring.scales is not None:
        stored.append((ring.scales, 'sb'))
    arrays, axes = zip(*stored, strict=True)
    rings = 'pck' if num_rings == K else 'pc1'
    sizes = {'c': heads, 'm': M, 'h': H, 'b': width, 'k': K, 's': 2}
    make_spec = functools.partial(_make_spec, sizes, pl.cdiv(R, width))
    kernel = functools.partial(
        _kernel, num_slots=R, width=width, key_axes=axes[0], value_axes=axes[1]
    )
    steps, num_steps = _list_blocks(newest, counts.max(axis=2), R, width)
    mixed, sums = pl.pallas_call(
        kernel,
        out_shape=tuple(
            jax.ShapeDtypeStruct((P, C, K, M, size), jnp.float32) for size in (H, 1)
        ),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(C // heads, jnp.maximum(num_steps, 1)),
            in_specs=tuple(
                map(make_spec, ('pkm1', 'pckmh', *(rings + x for x in axes)))
            ),
            out_specs=(make_spec('pckmh'), make_spec('pckm1')),
            scratch_shapes=[
                pltpu.VMEM((heads, M, size), jnp.float32) for size in (H, 1, 1)
            ],
        ),
        compiler_params=_COMPILER_PARAMS,
        cost_estimate=_estimate_cost(query, ring, min(R, window) or R),
        name='decode_attention',
        interpret=interpret,
    )(steps, newest.reshape(-1), counts[..., None], query, *arrays)
    # A set that sees nothing has no step.
    seen = (counts > 0)[:, None, ..., None]
    return jnp.where(seen, mixed, 0), jnp.where(seen, sums, _LOWEST)


def _make_spec(sizes: dict[str, int], num_blocks: int, axes: str) -> pl.BlockSpec:
    """Makes the part of an array that a step of the grid reads or writes.

    ``axes`` has a letter for each axis: problem, heads (c), set (k), queries (m), head
    size (h), slots (b), scales (s), or 1.
    """

    def locate(heads: jax.Array, step: jax.Array, steps: Any, _: Any) -> Any:
        number, block = steps[step] // num_blocks, steps[step] % num_blocks
        p, k = number // sizes['k'], number % sizes['k']
        places = {'p': p, 'c': heads, 'k': k, 'b': block}
        return tuple(places.get(axis, 0) for axis in axes)

    last = len(axes) - 2
    shape = (
        sizes.get(axis, 1) if i >= last or axis == 'c' else None
        for i, axis in enumerate(axes)
    )
    return pl.BlockSpec(tuple(shape), locate)


def _kernel(
    steps,
    newest,
    counts,
    query,
    keys,
    values,
    *refs,
    num_slots: int,
    width: int,
    key_axes: str,
    value_axes: str,
) -> None:
    """Adds a block of keys and values to the softmax of its set.

    ``refs`` are the scales (if keys and values are int8), results and accumulators.
    """
    *scales, mixed_out, sums_out, mixed, total, top = refs
    i, last = pl.program_id(1), pl.num_programs(1) - 1
    num_blocks = pl.cdiv(num_slots, width)
    number, block = steps[i] // num_blocks, steps[i] % num_blocks

    def number_slots(axes: str) -> jax.Array:
        shape = tuple(width if axis == 'b' else 1 for axis in axes)
        places = jax.lax.broadcasted_iota(jnp.int32, shape, axes.index('b'))
        return block * width + places

    @pl.when((i == 0) | (steps[jnp.maximum(i - 1, 0)] // num_blocks != number))
    def _():
        mixed[...] = jnp.zeros_like(mixed)
        total[...] = jnp.zeros_like(total)
        top[...] = jnp.full_like(top, _LOWEST)

    slot = number_slots('mb')
    ages = newest[number] - slot
    ages = jnp.where(ages < 0, ages + num_slots, ages)
    seen = (ages < counts[...]) & (slot < num_slots)
    dtype = query.dtype
    logits = contract(f'cmh,c{key_axes}->cmb', query[...], keys[...].astype(dtype))
    if scales:
        logits = logits * scales[0][:, :1]
    logits = jnp.where(seen[None], logits, _LOWEST)
    new_top = jnp.maximum(top[...], logits.max(axis=2, keepdims=True))
    scale, weights = jnp.exp(top[...] - new_top), jnp.exp(logits - new_top)
    block_values, weighted = values[...].astype(dtype), weights
    if scales:
        weighted = jnp.where(seen[None], weights * scales[0][:, 1:], 0)
    if num_slots % width:
        # Memory past the end of the ring is undefined.
        block_values = jnp.where(number_slots(value_axes) < num_slots, block_values, 0)
    summed = contract(f'cmb,c{value_axes}->cmh', weighted.astype(dtype), block_values)
    mixed[...] = mixed[...] * scale + summed
    total[...] = total[...] * scale + weights.sum(axis=2, keepdims=True)
    top[...] = new_top

    @pl.when((i == last) | (steps[jnp.minimum(i + 1, last)] // num_blocks != number))
    def _():
        mixed_out[...] = mixed[...] / total[...]
        sums_out[...] = top[...] + jnp.log(total[...])


def _order_as_stored(x: jax.Array, axes: str) -> tuple[jax.Array, str]:
    """Swaps the last two axes if a TPU pads the array less this way.

    A TPU stores a program's arguments in that order. With the other order, XLA would
    copy the cache for the kernel. Also returns the last two axes.
    """

    def pad(rows: int, columns: int) -> int:
        return -(-rows // _SUBLANES) * _SUBLANES * (-(-columns // _LANES) * _LANES)

    rows, columns = x.shape[-2:]
    if pad(columns, rows) < pad(rows, columns):
        return x.swapaxes(-1, -2), axes[::-1]
    return x, axes


def block_size(values: Any) -> tuple[int, int]:
    """Returns the heads and the slots of a block, for a device's values.

    ``values`` has the shape ``[..., C, #K, R, H]`` and a dtype.
    """
    C, _, R, H = values.shape[-4:]
    cores = sharding.num_cores()
    heads = C // cores if C % cores == 0 else C
    slot_bytes = 2 * heads * H * values.dtype.itemsize
    width = _LANES
    while width < _BLOCK_SLOTS and 2 * width * slot_bytes <= _BLOCK_BYTES:
        width *= 2
    return heads, min(width, R)


def _list_blocks(
    newest: Int[Array, 'P K'], counts: Int[Array, 'P K'], num_slots: int, width: int
) -> tuple[Int[Array, 'I'], Int[Array, '']]:
    """Lists the blocks with visible slots, set by set; also returns how many.

    Block ``b`` of the set ``s = p * K + k`` is ``s * num_blocks + b``.
    """
    newest, counts = newest.reshape(-1), counts.reshape(-1)
    num_blocks = -(-num_slots // width)
    oldest = newest - jnp.maximum(counts, 1) + 1
    wraps = oldest < 0
    first = jnp.where(wraps, oldest + num_slots, oldest) // width
    after = newest // width - first
    # If the oldest and newest slots of a wrapped ring share a block, all are filled.
    many = jnp.where(wraps & (after >= 0), num_blocks, after % num_blocks + 1)
    many = jnp.where(counts > 0, many, 0)
    ends = jnp.cumsum(many)
    steps = jnp.arange(many.size * num_blocks)
    # Compare with all sets, because gathers are slow on TPUs.
    inside = (ends - many <= steps[:, None]) & (steps[:, None] < ends)

    def pick(of_set: jax.Array) -> jax.Array:
        return jnp.where(inside, of_set, 0).sum(axis=1)

    number, shift = pick(jnp.arange(many.size)), pick(first - ends + many)
    return number * num_blocks + (shift + steps) % num_blocks, ends[-1]


def _estimate_cost(
    query: Float[Array, 'P C K M H'], ring: KeyValues, slots: int
) -> pl.CostEstimate:
    """Estimates the cost if each query sees ``slots`` slots, an upper bound."""
    pairs = query.size // query.shape[-1] * slots
    results = query.size * (query.dtype.itemsize + 4)
    num_bytes = sum(x.nbytes for x in jax.tree.leaves(ring))
    size = num_bytes * slots // ring.values.shape[3]
    return pl.CostEstimate(
        flops=4 * pairs * query.shape[-1],
        transcendentals=pairs,
        bytes_accessed=size + results,
    )

"""The products of a mixture of experts, grouped by expert, with their own gradient.

:func:`mix` runs each token through k of E experts and adds up their outputs. Each
device sorts the pairs of a token and its expert by expert, with its own experts first,
so that the rows of an expert lie together. Nothing is dropped or padded to a capacity:
a token's result depends on no other token.

Devices along the axis ``'experts'`` split the kernels, and all have the same tokens.
Each adds up the outputs of its experts. Only the sum over devices crosses the network;
it also splits the tokens, if possible. grouped_products.py has the products of the
rows.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
from jax import numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from passk_jax import sharding
from passk_jax.models.chunks import map_chunks, scan_chunks
from passk_jax.models.grouped_products import IMPLEMENTATIONS, Kernels
from passk_jax.models.master_weights import Axes, Streams, working_copy

KERNEL_AXES: tuple[Axes, ...] = (
    ('experts', 'embed', None),
    ('experts', 'embed', None),
    ('experts', None, 'embed'),
)
"""Logical axes of the kernels gate, up ``[E, D, F]`` and down ``[E, F, D]``."""

# The most pairs of a token and an expert that a device holds as rows: with an embedding
# of 2048 in bfloat16, 256 MiB for each of about six arrays.
MAX_PAIRS = 1 << 16


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def mix(
    xs: Streams,
    chosen: Streams,
    weights: Streams,
    kernels: Kernels,
    axes: tuple[Axes, ...],
    implementation: str,
) -> Streams:
    """Computes the weighted sum of each token's experts.

    ``sum_j weights[j] down_e(silu(gate_e(x)) * up_e(x))`` with ``e = chosen[j]``. The
    result's tokens are split over the devices that share the experts, if the number of
    devices divides them.

    Args:
        xs: streams ``[P, N, T, D]`` of one dtype.
        chosen: for each stream, ``[P, N, T, k]`` different experts.
        weights: for each stream, ``[P, N, T, k]`` float32.
        kernels: the master weights, with :data:`KERNEL_AXES`.
        axes: logical axes ``[P, N, T]`` of each stream; its embedding is not split.
        implementation: a key of ``grouped_products.IMPLEMENTATIONS``.
    """
    copies = _copies(kernels, xs)
    forward, _ = IMPLEMENTATIONS[implementation]
    run = functools.partial(_mix_local, forward, kernels[0].shape[0])
    results: dict[int, jax.Array] = {}
    for group, specs in _alike(xs, axes):
        streams = tuple((xs[i], chosen[i], weights[i]) for i in group)
        ins = tuple((spec, spec, spec) for spec in specs), _kernel_specs(copies)
        outs = tuple(
            _split_specs(xs[i], spec, copies)
            for i, spec in zip(group, specs, strict=True)
        )
        ys = sharding.on_devices(run, ins, outs)(streams, copies)
        results |= dict(zip(group, ys, strict=True))
    return tuple(results[i] for i in range(len(xs)))


def _mix_backward(
    axes: tuple[Axes, ...],
    implementation: str,
    residuals: tuple[Any, ...],
    gs: Streams,
) -> tuple[Streams, None, Streams, Kernels]:
    xs, chosen, weights, kernels = residuals
    copies = _copies(kernels, xs)
    _, backward = IMPLEMENTATIONS[implementation]
    run = functools.partial(_pull_local, backward, kernels[0].shape[0])
    of_streams: dict[int, tuple[jax.Array, jax.Array]] = {}
    grads: list[jax.Array] = []
    for group, specs in _alike(xs, axes):
        streams = tuple((xs[i], chosen[i], weights[i], gs[i]) for i in group)
        ins = tuple((spec,) * 4 for spec in specs), _kernel_specs(copies)
        outs = tuple(
            (_split_specs(xs[i], spec, copies), spec)
            for i, spec in zip(group, specs, strict=True)
        )
        # Each shard of the rows has its own sum.
        shards = specs[0][0], specs[0][1] or specs[0][2]
        parts = tuple(PartitionSpec(*shards, *spec) for spec in ins[1])
        pulled, sums = sharding.on_devices(run, ins, (outs, parts))(streams, copies)
        of_streams |= dict(zip(group, pulled, strict=True))
        sums = tuple(map(sharding.sum_over_shards, sums, KERNEL_AXES))
        grads = [a + b for a, b in zip(grads, sums, strict=True)] if grads else [*sums]
    grad_xs, grad_weights = zip(*(of_streams[i] for i in range(len(xs))), strict=True)
    grad_kernels = tuple(g.astype(x.dtype) for g, x in zip(grads, kernels, strict=True))
    return grad_xs, None, grad_weights, grad_kernels


mix.defvjp(lambda *args: (mix(*args), args[:4]), _mix_backward)


def _copies(kernels: Kernels, xs: Streams) -> Kernels:
    pairs = zip(kernels, KERNEL_AXES, strict=True)
    return tuple(working_copy(x, axes, xs[0].dtype) for x, axes in pairs)


def _kernel_specs(copies: Kernels) -> tuple[PartitionSpec, ...]:
    pairs = zip(copies, map(sharding.gathered, KERNEL_AXES), strict=True)
    return tuple(sharding.spec_of(axes, x.shape) for x, axes in pairs)


def _alike(
    xs: Streams, axes: tuple[Axes, ...]
) -> list[tuple[list[int], list[PartitionSpec]]]:
    """Groups streams that devices split alike; a group shares one sort and gradient."""
    groups: dict[Any, tuple[list[int], list[PartitionSpec]]] = {}
    for i, (x, names) in enumerate(zip(xs, axes, strict=True)):
        spec = sharding.spec_of((*names, None), x.shape)
        indices, specs = groups.setdefault((spec[0], spec[1] or spec[2]), ([], []))
        indices.append(i)
        specs.append(spec)
    return list(groups.values())


def _split_specs(x: jax.Array, spec: PartitionSpec, copies: Kernels) -> PartitionSpec:
    """Returns the layout of a result whose tokens the experts' devices split."""
    tokens = sharding.axes_of(spec[2])
    experts = sharding.mesh_axes('experts', len(copies[0]))
    if x.shape[2] % sharding.num_devices((*tokens, *experts)):
        return spec
    return PartitionSpec(*spec[:2], (*tokens, *experts) or None, *spec[3:])


def _mix_local(
    forward: Callable[..., jax.Array],
    num_experts: int,
    streams: tuple[Streams, ...],
    kernels: Kernels,
) -> Streams:
    """Runs :func:`mix` on a device's rows and experts, and sums over the experts."""
    (xs, chosen, weights), apart = _rows(streams)
    here = _here(chosen, num_experts, kernels)

    def mix_rows(args: Streams) -> jax.Array:
        x, here, weights = args
        order, sizes = _sort(here, kernels)
        ys = forward(x[order // here.shape[1]], kernels, sizes)
        ys = _unsort(ys, order, here) * weights[..., None]
        return ys.sum(axis=1).astype(x.dtype)

    ys = map_chunks(mix_rows, (xs, here, weights), max_width=_width(here), axis=0)
    return tuple(_add_up(y, num_experts) for y in apart(ys))


def _pull_local(
    backward: Callable[..., tuple[jax.Array, jax.Array, Kernels]],
    num_experts: int,
    streams: tuple[Streams, ...],
    kernels: Kernels,
) -> tuple[tuple[Streams, ...], Kernels]:
    """Pulls gradients back through :func:`_mix_local`.

    The kernels' gradients get two leading axes, for the shards of the rows.
    """
    (xs, chosen, weights, gs), apart = _rows(streams)
    here = _here(chosen, num_experts, kernels)

    def pull_rows(total: Kernels, args: Streams) -> tuple[Kernels, Streams]:
        x, here, weights, g = args
        order, sizes = _sort(here, kernels)
        token = order // here.shape[1]
        rows = x[token], g[token], weights.reshape(-1)[order]
        grad_x, grad_weights, grads = backward(*rows, kernels, sizes)
        grad_x = _unsort(grad_x, order, here).sum(axis=1).astype(x.dtype)
        grad_weights = _unsort(grad_weights[:, None], order, here)[..., 0]
        return jax.tree.map(jnp.add, total, grads), (grad_x, grad_weights)

    zeros = tuple(jnp.zeros(x.shape, jnp.float32) for x in kernels)
    grads, pulled = scan_chunks(
        pull_rows, zeros, (xs, here, weights, gs), max_width=_width(here), axis=0
    )
    grad_xs, grad_weights = map(apart, pulled)
    if experts := sharding.mesh_axes('experts', num_experts):
        grad_weights = jax.lax.psum(grad_weights, experts)
    grad_xs = [_add_up(x, num_experts) for x in grad_xs]
    pairs = tuple(zip(grad_xs, grad_weights, strict=True))
    return pairs, tuple(x[None, None] for x in grads)


def _rows(
    streams: tuple[Streams, ...],
) -> tuple[list[jax.Array], Callable[[jax.Array], Streams]]:
    """Joins all streams to arrays ``[n, ...]``; also returns a function to undo it."""
    shapes = [x.shape[:3] for x, *_ in streams]
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]

    def apart(x: jax.Array) -> Streams:
        parts = (x[a:b] for a, b in itertools.pairwise(ends))
        return tuple(
            part.reshape(*shape, *x.shape[1:])
            for part, shape in zip(parts, shapes, strict=True)
        )

    flat = (
        [x.reshape(-1, x.shape[-1]) for x in xs] for xs in zip(*streams, strict=True)
    )
    return [jnp.concatenate(xs) for xs in flat], apart


def _here(
    chosen: Int[Array, 'n k'], num_experts: int, kernels: Kernels
) -> Int[Array, 'n k']:
    """Numbers the chosen experts of this device from 1; 0: another device has it."""
    count = len(kernels[0])
    here = chosen.astype(jnp.int32) + 1
    if experts := sharding.mesh_axes('experts', num_experts):
        here = here - jax.lax.axis_index(experts) * count
    return jnp.where((here > 0) & (here <= count), here, 0)


def _width(here: Int[Array, 'n k']) -> int:
    return max(1, MAX_PAIRS // here.shape[1])


def _sort(
    here: Int[Array, 'n k'], kernels: Kernels
) -> tuple[Int[Array, 'R'], Int[Array, 'E']]:
    """Sorts the pairs by expert; also returns how many each expert has.

    The pairs of other devices come last.
    """
    count = len(kernels[0])
    expert = jnp.where(here > 0, here - 1, count).reshape(-1)
    order = jnp.argsort(expert, stable=True)
    ends = jnp.searchsorted(expert[order], jnp.arange(count), side='right')
    return order, jnp.diff(ends, prepend=0).astype(jnp.int32)


def _unsort(
    rows: Float[Array, 'R F'], order: Int[Array, 'R'], here: Int[Array, 'n k']
) -> Float[Array, 'n k F']:
    """Returns sorted rows to their tokens, float32; 0 if another device has the expert.

    Rows after those of this device's experts are undefined.
    """
    rows = rows[jnp.argsort(order)].reshape(*here.shape, -1)
    return jnp.where(here[..., None] > 0, rows.astype(jnp.float32), 0.0)


def _add_up(x: Float[Array, 'P N T D'], num_experts: int) -> jax.Array:
    """Sums over the experts' devices, and splits the tokens over them."""
    experts = sharding.mesh_axes('experts', num_experts)
    if not experts:
        return x
    if x.shape[2] % sharding.num_devices(experts):
        return jax.lax.psum(x, experts)
    return jax.lax.psum_scatter(x, experts, scatter_dimension=2, tiled=True)

"""Operations of a network on master weights, with explicit gradients.

Values are computed in the working dtype, as in transformers. Autodiff would sum some
gradients in that dtype too. Here they are summed in float32 and then get the weight's
dtype. (bfloat16 has 8 bits, so a sum stops growing once it is a few hundred times its
terms.) A matrix product sums in float32 anyway; only its result must not be rounded.

A product reads a *working copy* of a master weight, which is cast before it is gathered
(half the bytes), once for all streams. Each shard of the batch sums the gradients of
all its streams. Only this sum crosses the network, and it is split like the master
weight.
"""

import functools
import math
from typing import Any

import jax
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.models.products import multiply
from passk_jax.sharding import gathered, num_shards, shard, sum_over_shards

Axes = tuple[str | None, ...]
Streams = tuple[jax.Array, ...]
"""Activations of the prompts, or of prompts and responses, or of one next token."""

# For at most _FEW_ROWS float32 rows and a table of at least _LARGE_TABLE values, a CPU
# is faster with the table as first factor. It would convert a bfloat16 table to float32
# first, which is seven times slower.
_FEW_ROWS, _LARGE_TABLE = 32, 1 << 22


def working_copy(weight: jax.Array, axes: Axes, dtype: Any) -> jax.Array:
    """Casts and gathers a master weight for a matrix product."""
    return shard(weight.astype(dtype), *gathered(axes))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def project(xs: Streams, kernel: jax.Array, rank_in: int, axes: Axes) -> Streams:
    """Contracts the last ``rank_in`` axes of every stream with the first of ``kernel``.

    The products have the dtype of the streams, and the kernel's gradient has the dtype
    of the kernel: that of a float32 master weight is never rounded to bfloat16.

    The gradient is explicit for speed too. JAX computes the kernel's cotangent as
    ``(g.T @ x).T``, and XLA:CPU then repeats the elementwise work behind ``g`` in
    transposed order: a third of a small policy's update.

    Args:
        xs: streams ``[P, N, T, ...]`` of one dtype.
        kernel: the master weight.
        rank_in: number of contracted axes.
        axes: logical axes of the kernel.
    """
    copy = working_copy(kernel, axes, xs[0].dtype)
    inputs = tuple(range(rank_in))

    def product(x: jax.Array) -> jax.Array:
        last = tuple(range(x.ndim - rank_in, x.ndim))
        return multiply(x, copy, ((last, inputs), ((), ())), dtype=x.dtype)

    return tuple(map(product, xs))


def _project_backward(
    rank_in: int, axes: Axes, residuals: tuple[Streams, jax.Array], gs: Streams
) -> tuple[Streams, jax.Array]:
    xs, kernel = residuals
    copy = working_copy(kernel, axes, xs[0].dtype)
    inner = tuple(range(rank_in, kernel.ndim))
    grad_xs, sums = [], {}
    for x, g in zip(xs, gs, strict=True):
        outputs = tuple(range(3, g.ndim))
        over_outputs = (outputs, inner), ((), ())
        grad_xs.append(multiply(g, copy, over_outputs, dtype=g.dtype))
        (x, rows, shards), (g, _, _) = _split_shards(x), _split_shards(g)
        part = _outer(x, g, rows, shards, dtype=kernel.dtype)
        part = shard(part, 'batch', 'rollouts', *gathered(axes))
        # Add up the streams before they cross the network.
        sums[part.shape] = sums[part.shape] + part if part.shape in sums else part
    parts = [sum_over_shards(part, axes) for part in sums.values()]
    return tuple(grad_xs), functools.reduce(jnp.add, parts)


project.defvjp(lambda *args: (project(*args), args[:2]), _project_backward)


def _outer(
    x: jax.Array,
    g: jax.Array,
    rows: tuple[int, ...],
    shards: tuple[int, ...],
    *,
    dtype: Any,
) -> jax.Array:
    """Computes ``x.T @ g`` over the rows, by shard: ``[*shards, *x rest, *g rest]``.

    XLA:CPU transposes the first factor, which is slow. If ``g`` comes first, the
    product is transposed back. The order with fewer transposed values is chosen, on
    other platforms too, where it was not measured.
    """
    apart = len(rows) + len(shards)
    inputs, outputs = x.shape[apart:], g.shape[apart:]
    num_rows = math.prod(x.shape[axis] for axis in rows)
    if_swapped = (num_rows + math.prod(inputs)) * math.prod(outputs)
    swap = num_rows * math.prod(inputs) > if_swapped
    pair = (g, x) if swap else (x, g)
    product = multiply(*pair, ((rows, rows), (shards, shards)), dtype=dtype)
    if not swap:
        return product
    first = len(shards)
    last = first + len(outputs)
    order = (*range(first), *range(last, product.ndim), *range(first, last))
    return product.transpose(order)


def _split_shards(x: jax.Array) -> tuple[jax.Array, tuple[int, ...], tuple[int, int]]:
    """Splits each sharded axis in two: the shards, and the items of a shard.

    Otherwise XLA may gather the activations instead of summing products by shard.

    Returns:
        The stream with five leading axes; the axes within a device; and the two axes of
        shards: the batch's, and the rollouts' (or a prompt's tokens').
    """
    P, N, T, *feature_shape = x.shape
    G = num_shards('batch', P)
    if N == 1:
        K = num_shards('prompt_tokens', T)
        return x.reshape(G, P // G, 1, K, T // K, *feature_shape), (1, 2, 4), (0, 3)
    K = num_shards('rollouts', N)
    return x.reshape(G, P // G, K, N // K, T, *feature_shape), (1, 3, 4), (0, 2)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def repeat_for_shards(
    weight: jax.Array, axes: Axes, shards: tuple[int, int]
) -> jax.Array:
    """Repeats a weight for each shard of the batch and of the rollouts.

    A device holds only one copy. Each shard sums its copy's gradient over all chunks,
    so the gradient crosses the network only once.
    """
    copies = jnp.broadcast_to(weight, (*shards, *weight.shape))
    return shard(copies, 'batch', 'rollouts', *gathered(axes))


repeat_for_shards.defvjp(
    lambda *args: (repeat_for_shards(*args), None),
    lambda axes, shards, _, g: (sum_over_shards(g, axes),),
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def score_tokens(
    x: Float[Array, 'G K *B D'], weight: jax.Array, copy: jax.Array, axes: Axes
) -> Float[Array, 'G K *B V']:
    """Computes float32 logits of hidden states; the head may be the token table.

    The caller gathers the head once and runs this on one chunk after another.

    Args:
        x: hidden states by shards: G of the batch, K of the rollouts.
        weight: the master weight of :func:`repeat_for_shards`, which gets the gradient.
        copy: its :func:`working_copy`, also by shard.
        axes: logical axes of the master weight.
    """
    contracted = (x.ndim - 1,), (2 + axes.index('embed'),)
    dot = functools.partial(_dot_by_shard, contracted=contracted, dtype=jnp.float32)
    is_few = x.shape[:2] == (1, 1) and math.prod(x.shape[2:-1]) <= _FEW_ROWS
    is_large_table = axes[0] == 'vocab' and copy.size >= _LARGE_TABLE
    if not (is_few and is_large_table and x.dtype == copy.dtype == jnp.float32):
        return dot(x, copy)
    return jax.lax.platform_dependent(x, copy, cpu=_score_few, default=dot)


def _score_few(
    x: Float[Array, '1 1 *B D'], table: Float[Array, '1 1 V D']
) -> Float[Array, '1 1 *B V']:
    """Computes logits twice as fast on a CPU, where XLA packs the second factor."""
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) == 1:
        # For a single row, XLA packs neither factor.
        scores = jnp.matmul(rows, table[0, 0].T, preferred_element_type=jnp.float32)
        return scores.reshape(*x.shape[:-1], -1)
    scores = jnp.matmul(table[0, 0], rows.T, preferred_element_type=jnp.float32)
    # Without the barrier, XLA swaps the factors back.
    scores = jax.lax.optimization_barrier(scores).T
    return scores.reshape(*x.shape[:-1], -1)


def _score_backward(
    axes: Axes, residuals: tuple[jax.Array, jax.Array, jax.Array], g: jax.Array
) -> tuple[jax.Array, jax.Array, None]:
    x, weight, copy = residuals
    # Keep both factors in the working dtype: a float32 one slows both products.
    g = g.astype(x.dtype)
    over_vocab = (x.ndim - 1,), (2 + axes.index('vocab'),)
    grad_x = _dot_by_shard(g, copy, over_vocab, dtype=x.dtype)
    embed_first = axes.index('embed') == 0
    # XLA:CPU transposes the first factor, which is slow: make it the smaller one.
    swap = embed_first and g.shape[-1] < x.shape[-1]
    pair = (x, g) if embed_first and not swap else (g, x)
    rows = tuple(range(2, x.ndim - 1))
    grad = _dot_by_shard(*pair, (rows, rows), dtype=weight.dtype)
    grad = grad.swapaxes(-1, -2) if swap else grad
    return grad_x, shard(grad, 'batch', 'rollouts', *gathered(axes)), None


score_tokens.defvjp(lambda *args: (score_tokens(*args), args[:3]), _score_backward)


def _dot_by_shard(
    x: Float[Array, 'G K ...'],
    y: Float[Array, 'G K ...'],
    contracted: tuple[tuple[int, ...], tuple[int, ...]],
    *,
    dtype: Any,
) -> Float[Array, 'G K ...']:
    """Contracts axes of ``x`` with axes of ``y``, shard by shard.

    XLA:CPU reads a transposed factor in place, but copies it if the product has batch
    axes, even of size 1. So a single shard gets no batch axis, or XLA would copy the
    token table for every token.
    """
    if x.shape[:2] != (1, 1):
        return multiply(x, y, (contracted, ((0, 1), (0, 1))), dtype=dtype)
    of_x, of_y = (tuple(axis - 2 for axis in axes) for axes in contracted)
    product = multiply(x[0, 0], y[0, 0], ((of_x, of_y), ((), ())), dtype=dtype)
    return product[None, None]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def spread(weight: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Casts a bias or a scale to ``dtype`` and repeats it over leading axes."""
    return jnp.broadcast_to(weight.astype(dtype), shape)


def _spread_backward(
    shape: tuple[int, ...], dtype: Any, weight: jax.Array, g: jax.Array
) -> tuple[jax.Array]:
    rows = tuple(range(len(shape) - weight.ndim))
    return (g.sum(rows, dtype=jnp.float32).astype(weight.dtype),)


spread.defvjp(lambda *args: (spread(*args), args[0]), _spread_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def look_up(
    table: Float[Array, 'V D'],
    tokens: tuple[Int[Array, '*B'], ...],
    axes: Axes,
    dtype: Any,
) -> Streams:
    """Looks up the tokens' rows of the table, in ``dtype``, for every stream.

    The table is gathered first. Otherwise XLA would give all rows to every device,
    although the devices split the batch.
    """
    copy = working_copy(table, axes, dtype)

    def read(table: jax.Array, *tokens: jax.Array) -> Streams:
        return tuple(table[x] for x in tokens)

    def on_cpu(table: jax.Array, *tokens: jax.Array) -> Streams:
        # XLA:CPU would convert the entire bfloat16 table to float32 first.
        rows = read(jax.lax.bitcast_convert_type(table, jnp.uint16), *tokens)
        return tuple(jax.lax.bitcast_convert_type(x, table.dtype) for x in rows)

    if copy.dtype != jnp.bfloat16:
        return read(copy, *tokens)
    return jax.lax.platform_dependent(copy, *tokens, cpu=on_cpu, default=read)


def _look_up_backward(
    axes: Axes,
    dtype: Any,
    residuals: tuple[jax.Array, tuple[jax.Array, ...]],
    gs: Streams,
) -> tuple[jax.Array, None]:
    table, tokens = residuals
    zeros = jnp.zeros(table.shape, jnp.float32)
    # Add up the streams, so that they cross the network together.
    grads = [
        zeros.at[x].add(g.astype(jnp.float32)) for x, g in zip(tokens, gs, strict=True)
    ]
    grad = functools.reduce(jnp.add, grads)
    # Sum whole rows, which is how they were read, and split them afterwards.
    return shard(shard(grad, *gathered(axes)).astype(table.dtype), *axes), None


look_up.defvjp(lambda *args: (look_up(*args), args[:2]), _look_up_backward)

"""What a network does with master weights, each with the gradient written out.

Values are computed in the working dtype, as the reference computes them. A gradient
that autodiff would sum in that dtype too is summed in float32 here and returned in the
dtype of the weight: bfloat16 has 8 bits, so a sum of it stands still once it is a few
hundred times as large as what is added. A tensor product sums in float32 anyway; what
it must not do is round the result.
"""

import functools
from typing import Any

import jax
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.sharding import shard


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def project(x: jax.Array, kernel: jax.Array, rank_in: int) -> jax.Array:
    """Contracts the last ``rank_in`` axes of ``x`` with the first of ``kernel``.

    The product is in the dtype of ``x``, the kernel's gradient in the dtype of the
    kernel: a float32 master gets a gradient that was never rounded to bfloat16.

    The gradient is written out for speed too. JAX's own multiplies the kernel's
    cotangent as ``(g.T @ x).T``, and XLA:CPU then repeats the elementwise work
    behind ``g`` in transposed order: a third of a small policy's update.
    """
    return jnp.tensordot(x, kernel.astype(x.dtype), axes=rank_in)


def _project_forward(
    x: jax.Array, kernel: jax.Array, rank_in: int
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return project(x, kernel, rank_in), (x, kernel)


def _project_backward(
    rank_in: int, kept: tuple[jax.Array, jax.Array], g: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, kernel = kept
    rows = tuple(range(x.ndim - rank_in))
    outputs = tuple(range(len(rows), g.ndim))
    grad_x = jnp.tensordot(
        g, kernel.astype(x.dtype), axes=(outputs, tuple(range(rank_in, kernel.ndim)))
    )
    grad_kernel = jnp.tensordot(
        x, g, axes=(rows, rows), preferred_element_type=kernel.dtype
    )
    return grad_x, grad_kernel


project.defvjp(_project_forward, _project_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def spread(weight: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """A bias or a scale, cast to ``dtype`` and repeated over leading axes."""
    return jnp.broadcast_to(weight.astype(dtype), shape)


def _spread_forward(
    weight: jax.Array, shape: tuple[int, ...], dtype: Any
) -> tuple[jax.Array, jax.Array]:
    return spread(weight, shape, dtype), weight


def _spread_backward(
    shape: tuple[int, ...], dtype: Any, weight: jax.Array, g: jax.Array
) -> tuple[jax.Array]:
    rows = tuple(range(len(shape) - weight.ndim))
    return (g.sum(rows, dtype=jnp.float32).astype(weight.dtype),)


spread.defvjp(_spread_forward, _spread_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def look_up(
    table: Float[Array, 'V D'], tokens: Int[Array, '*B'], dtype: Any
) -> Float[Array, '*B D']:
    """The tokens' rows of the table, in ``dtype``.

    The table is gathered over 'fsdp' first, in ``dtype``: a row split over the devices
    that share the batch would be replicated on its way from one split to the other.
    """
    return shard(table.astype(dtype), 'vocab', None)[tokens]


def _look_up_forward(
    table: jax.Array, tokens: jax.Array, dtype: Any
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return look_up(table, tokens, dtype), (table, tokens)


def _look_up_backward(
    dtype: Any, kept: tuple[jax.Array, jax.Array], g: jax.Array
) -> tuple[jax.Array, None]:
    table, tokens = kept
    # Rows are summed whole, as they were read, and split over 'fsdp' afterwards.
    grad = jnp.zeros(table.shape, jnp.float32).at[tokens].add(g.astype(jnp.float32))
    return shard(grad, 'vocab', None).astype(table.dtype), None


look_up.defvjp(_look_up_forward, _look_up_backward)

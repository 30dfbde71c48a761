"""Products of arrays; float32 factors are not rounded on any platform.

By default, a TPU rounds float32 factors to bfloat16, and a GPU to TF32. The precision
is an argument of every product, because ``jax.default_matmul_precision`` around a
function does not reach its custom gradients: JAX traces their rules later. A default
of the whole process reaches them, and decides: set the environment variable
``JAX_DEFAULT_MATMUL_PRECISION=tensorfloat32`` for faster products on a GPU.
"""

import functools
from typing import Any

import jax
from jax import numpy as jnp

Dimensions = tuple[
    tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]
]
"""Contracted and batch axes of both factors, as for ``jax.lax.dot_general``."""


def choose_precision(*factors: jax.Array) -> str | None:
    """Returns the argument ``precision`` of a product; ``None``: JAX's default."""
    if jax.config.values['jax_default_matmul_precision'] is not None:
        return None
    return 'highest' if all(x.dtype == jnp.float32 for x in factors) else None


def multiply_matrices(x: jax.Array, y: jax.Array, *, dtype: Any = None) -> jax.Array:
    """Computes ``jnp.matmul(x, y)``; ``dtype=None``: in that of the factors."""
    return jnp.matmul(
        x, y, precision=choose_precision(x, y), preferred_element_type=dtype
    )


def contract(subscripts: str, x: jax.Array, y: jax.Array) -> jax.Array:
    """Computes ``jnp.einsum(subscripts, x, y)`` in float32."""
    return jnp.einsum(
        subscripts,
        x,
        y,
        precision=choose_precision(x, y),
        preferred_element_type=jnp.float32,
    )


def multiply(
    x: jax.Array, y: jax.Array, dimensions: Dimensions, *, dtype: Any
) -> jax.Array:
    """Computes ``jax.lax.dot_general(x, y, dimensions)`` in ``dtype``.

    XLA:CPU multiplies bfloat16 factors twice as fast as float32 ones, but only if the
    result is float32 and the first factor is contracted along its last axis. Otherwise
    it converts both factors first. So a CPU computes such a product and then rounds it.
    """
    product = functools.partial(
        jax.lax.dot_general,
        dimension_numbers=dimensions,
        precision=choose_precision(x, y),
        preferred_element_type=dtype,
    )
    if x.dtype != jnp.bfloat16 or y.dtype != jnp.bfloat16:
        return product(x, y)

    def on_cpu(x: jax.Array, y: jax.Array) -> jax.Array:
        (of_x, of_y), (batch_x, batch_y) = dimensions
        if not batch_x and of_x != tuple(range(x.ndim - len(of_x), x.ndim)):
            free = [axis for axis in range(x.ndim) if axis not in of_x]
            # Without the barrier, XLA would undo the transposition.
            x = jax.lax.optimization_barrier(x.transpose(*free, *of_x))
            of_x = tuple(range(len(free), x.ndim))
        wide = jax.lax.dot_general(
            x, y, ((of_x, of_y), (batch_x, batch_y)), preferred_element_type=jnp.float32
        )
        return wide.astype(dtype)

    return jax.lax.platform_dependent(x, y, cpu=on_cpu, default=product)

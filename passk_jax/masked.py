"""Masked sum, mean and maximum.

What lies under ``mask == False`` can change neither a value nor a gradient here: it
is replaced before it is reduced, so a NaN or an infinity in padding is harmless. (A
NaN whose own *derivative* is infinite must be masked where it is made.) ``mask`` is
boolean and broadcasts to ``values``; half-precision values are reduced in float32.
"""

import jax
import jax.numpy as jnp

from passk_jax.errors import InputError

Axis = int | tuple[int, ...] | None


def masked_sum(values: jax.Array, mask: jax.Array, *, axis: Axis = None) -> jax.Array:
    """Sums ``values`` where ``mask``; 0 where there is nothing to sum.

    Args:
        values: any shape.
        mask: bool, broadcasts to ``values``.
        axis: reduced axes; all when ``None``.

    Raises:
        ValueError: ``mask`` is not boolean.

    >>> float(masked_sum(jnp.array([1.0, jnp.nan]), jnp.array([True, False])))
    1.0
    """
    values, mask = _prepare(values, mask)
    return jnp.sum(jnp.where(mask, values, 0), axis=axis)


def masked_mean(values: jax.Array, mask: jax.Array, *, axis: Axis = None) -> jax.Array:
    """Averages ``values`` where ``mask``; 0 where there is nothing to average.

    Args:
        values: any shape.
        mask: bool, broadcasts to ``values``.
        axis: reduced axes; all when ``None``.

    Raises:
        ValueError: ``mask`` is not boolean.

    >>> float(masked_mean(jnp.array([1.0, 3.0, 9.0]), jnp.array([True, True, False])))
    2.0
    """
    values, mask = _prepare(values, mask)
    count = jnp.sum(mask, axis=axis)
    return masked_sum(values, mask, axis=axis) / jnp.maximum(count, 1)


def masked_max(values: jax.Array, mask: jax.Array, *, axis: Axis = None) -> jax.Array:
    """The largest of ``values`` where ``mask``; the dtype's least where there is none.

    Args:
        values: any shape; the least is ``-inf`` for floats.
        mask: bool, broadcasts to ``values``.
        axis: reduced axes; all when ``None``.

    Raises:
        ValueError: ``mask`` is not boolean.

    >>> int(masked_max(jnp.array([1, 3, 9]), jnp.array([True, True, False])))
    3
    """
    values, mask = _prepare(values, mask)
    floating = jnp.issubdtype(values.dtype, jnp.floating)
    least = -jnp.inf if floating else jnp.iinfo(values.dtype).min
    return jnp.max(jnp.where(mask, values, least), axis=axis)


def _prepare(values: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    values, mask = jnp.asarray(values), jnp.asarray(mask)
    if mask.dtype != jnp.bool:
        raise InputError(f'{mask.dtype=} must be bool')
    if jnp.issubdtype(values.dtype, jnp.floating):
        values = values.astype(jnp.promote_types(values.dtype, jnp.float32))
    elif values.dtype == jnp.bool:
        values = values.astype(jnp.int32)
    return values, jnp.broadcast_to(mask, values.shape)

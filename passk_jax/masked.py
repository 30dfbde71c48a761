"""Masked sum, mean and maximum.

Values under ``mask == False`` cannot change a result or a gradient: they are replaced
before the reduction, so a NaN or an infinity in padding is harmless. (If the
*derivative* of a masked value is infinite, mask the value where it is computed.)
Half-precision values are reduced in float32. The functions share these arguments:

* values: any shape.
* mask: bool, broadcasts to ``values``; any other dtype raises ``ValueError``.
* axis: the axes to reduce; ``None`` reduces all.
"""

import jax
import jax.numpy as jnp

from passk_jax.errors import InputError

Axis = int | tuple[int, ...] | None


def masked_sum(values: jax.Array, mask: jax.Array, *, axis: Axis = None) -> jax.Array:
    """Sums ``values`` where ``mask``; 0 if there are none.

    >>> float(masked_sum(jnp.array([1.0, jnp.nan]), jnp.array([True, False])))
    1.0
    """
    values, mask = _prepare(values, mask)
    return jnp.sum(jnp.where(mask, values, 0), axis=axis)


def masked_mean(values: jax.Array, mask: jax.Array, *, axis: Axis = None) -> jax.Array:
    """Averages ``values`` where ``mask``; 0 if there are none.

    >>> float(masked_mean(jnp.array([1.0, 3.0, 9.0]), jnp.array([True, True, False])))
    2.0
    """
    values, mask = _prepare(values, mask)
    count = jnp.sum(mask, axis=axis)
    return masked_sum(values, mask, axis=axis) / jnp.maximum(count, 1)


def masked_max(values: jax.Array, mask: jax.Array, *, axis: Axis = None) -> jax.Array:
    """Returns the largest of ``values`` where ``mask``.

    If there are none: ``-inf`` for floats, the dtype's minimum for integers.

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

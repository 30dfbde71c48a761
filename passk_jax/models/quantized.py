"""Keys and values as int8, for decoding: half the bytes of bfloat16, with an error.

A token's key or value of a head, ``H`` numbers, is held as whole numbers ``q`` in
[-127, 127] and a float32 scale ``s = max |x| / 127``, so that ``x ~ s q``. The error of
a number is at most ``s / 2``. Attention never makes the array ``s q``: it multiplies by
``q``, which any working dtype holds exactly, and the scales multiply logits and
weights, ``s_k (x . q_k)`` and ``(w s_v) q_v`` (attention.py, decode_attention.py).

Only what decoding reads is quantized. Prompts run in the working dtype first, and the
learner never sees these numbers.
"""

import jax
from jax import numpy as jnp

from passk_jax.models.arch import Arch
from passk_jax.models.attention import KeyValues

_LARGEST = 127


def quantize(layer: KeyValues) -> KeyValues:
    """Rounds keys ``[..., H, S]`` and values ``[..., S, H]`` to int8, with scales.

    Returns:
        Keys and values as int8, and their scales ``[..., 2, S]`` float32: of the keys,
        then of the values.
    """
    keys, of_keys = _round(layer.keys, axis=-2)
    values, of_values = _round(layer.values, axis=-1)
    scales = jnp.concatenate([of_keys, of_values.swapaxes(-1, -2)], axis=-2)
    return KeyValues(keys, values, scales)


def _round(x: jax.Array, *, axis: int) -> tuple[jax.Array, jax.Array]:
    """Returns whole numbers, and the scale of each row."""
    wide = x.astype(jnp.float32)
    scale = jnp.abs(wide).max(axis=axis, keepdims=True) / _LARGEST
    # A row of zeros has the scale 0.
    rounded = jnp.round(wide / jnp.where(scale > 0, scale, 1.0))
    return rounded.astype(jnp.int8), scale


def empty_layer(
    arch: Arch, lead: tuple[int, ...], num_slots: int, quantized: bool
) -> KeyValues:
    """Makes keys ``[*lead, H, S]`` and values ``[*lead, S, H]`` of zeros.

    They have the working dtype, or the form that :func:`quantize` returns.
    """
    sizes, dtype = (num_slots, arch.head_dim), jnp.dtype(arch.dtype)
    keys, values = (
        jax.ShapeDtypeStruct((*lead, *size), dtype) for size in (sizes[::-1], sizes)
    )
    layer = KeyValues(keys, values)
    if quantized:
        layer = jax.eval_shape(quantize, layer)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), layer)

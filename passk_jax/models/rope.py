"""Rotary positions: the frequencies by which a model rotates its queries and keys.

1. :class:`Rope` has the settings, of one of four kinds as in transformers
   (``modeling_rope_utils.py``). A model needs the kind that it was trained with.
2. :func:`frequencies` computes the angle per position of each pair of dimensions.
3. :func:`rotary` and :func:`rotate` apply them.
"""

import dataclasses
import math

import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.errors import InputError

KINDS = ('default', 'linear', 'llama3', 'yarn')


@dataclasses.dataclass(frozen=True)
class Rope:
    """The settings of rotary positions; a kind's unused settings keep their default.

    Attributes:
        kind: one of :data:`KINDS`.
        theta: base of the frequencies.
        factor: how many times the context was extended.
        original_max_positions: context before it was extended (llama3, yarn).
        low_freq_factor: llama3 stretches waves longer than ``original / low``.
        high_freq_factor: llama3 keeps waves shorter than ``original / high``.
        beta_fast: yarn keeps pairs that turn more often in the original context.
        beta_slow: yarn stretches pairs that turn less often.
        truncate: yarn rounds the range between the two to whole pairs.
        attention_factor: yarn multiplies cosines and sines by it.
        sections: how many pairs rotate by time, row and column, if positions have these
            three parts (M-RoPE, arXiv:2409.12191); ``()``: positions have one part.
        interleaved: the pairs of the sections alternate, instead of one section after
            another.
    """

    kind: str
    theta: float
    factor: float = 1.0
    original_max_positions: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0
    sections: tuple[int, ...] = ()
    interleaved: bool = True

    def __post_init__(self):
        if self.kind not in KINDS:
            raise InputError(f'rope kind {self.kind!r} is none of {KINDS}')
        if not (self.theta > 0 and self.factor > 0 and self.attention_factor > 0):
            raise InputError(f'{self} must have positive theta and factors')
        if self.kind in ('llama3', 'yarn') and self.original_max_positions < 1:
            raise InputError(f'{self} must say original_max_positions')
        if self.kind == 'llama3' and not (
            0 < self.low_freq_factor < self.high_freq_factor
        ):
            raise InputError(f'{self} must have 0 < low_freq_factor < high_freq_factor')
        if self.sections and not (len(self.sections) == 3 and min(self.sections) >= 0):
            raise InputError(f'{self} must have three sections of 0 or more pairs')


def frequencies(rope: Rope, *, head_dim: int) -> Float[np.ndarray, 'H/2']:
    """Computes the radians per position of each pair of dimensions; float32."""
    powers = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    # Use float64: an error in the last float32 bit is 6e-3 radians at position 100,000.
    waves = (rope.theta ** powers.astype(np.float64)).astype(np.float32)
    plain = np.float32(1) / waves
    match rope.kind:
        case 'default':
            return plain
        case 'linear':
            return (plain / np.float32(rope.factor)).astype(np.float32)
        case 'llama3':
            stretch = _llama3_share(rope, plain)
        case _:
            stretch = _yarn_share(rope, head_dim)
    stretched = plain / np.float32(rope.factor)
    return (stretched * stretch + plain * (1 - stretch)).astype(np.float32)


def _llama3_share(rope: Rope, plain: np.ndarray) -> np.ndarray:
    """Computes how far each frequency is stretched, 0 to 1, by its wavelength."""
    turns = rope.original_max_positions * plain / np.float32(2 * math.pi)
    low, high = rope.low_freq_factor, rope.high_freq_factor
    return 1 - np.clip((turns - low) / (high - low), 0, 1)


def _yarn_share(rope: Rope, head_dim: int) -> np.ndarray:
    """Computes how far each frequency is stretched, 0 to 1, by its pair's index."""

    def place(turns: float) -> float:
        """Returns the dimension that makes this many turns in the original context."""
        wave = rope.original_max_positions / (turns * 2 * math.pi)
        return head_dim * math.log(wave) / (2 * math.log(rope.theta))

    low, high = place(rope.beta_fast), place(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001
    pairs = np.arange(head_dim // 2, dtype=np.float32)
    return np.clip((pairs - low) / (high - low), 0, 1)


Turn = tuple[Float[Array, 'P N T 1 H/2'], Float[Array, 'P N T 1 H/2']]
"""Cosines and sines of positions."""


def components(rope: Rope, *, head_dim: int) -> Int[np.ndarray, 'H/2']:
    """Returns the part of a position that rotates each pair: 0 time, 1 row, 2 column.

    >>> components(Rope('default', 1e4, sections=(3, 1, 2)), head_dim=12).tolist()
    [0, 1, 2, 0, 0, 2]
    """
    if not rope.interleaved:
        return np.repeat(np.arange(3), rope.sections)
    parts = np.zeros(head_dim // 2, int)
    for part in (1, 2):
        parts[part : 3 * rope.sections[part] : 3] = part
    return parts


def rotary(positions: Int[Array, 'P N T *parts'], rope: Rope, *, head_dim: int) -> Turn:
    """Computes cosines and sines of ``position * frequency``, float32.

    Args:
        positions: of the tokens. If they have three parts, ``rope`` has sections.
        rope: the settings.
        head_dim: H.
    """
    if positions.ndim == 4:
        positions = positions[..., None, components(rope, head_dim=head_dim)]
    else:
        positions = positions[..., None, None]
    angles = positions.astype(jnp.float32)
    angles = angles * frequencies(rope, head_dim=head_dim)
    factor = rope.attention_factor
    return jnp.cos(angles) * factor, jnp.sin(angles) * factor


def rotate(
    x: Float[Array, 'P N T X H'], turn: Turn | None, *, scale: float = 1.0
) -> Float[Array, 'P N T X H']:
    """Rotates each pair ``(x[i], x[i + H/2])`` by its angle and scales, in float32.

    If ``turn`` is ``None``, it only scales.
    """
    if turn is None:
        return (x.astype(jnp.float32) * scale).astype(x.dtype)
    cos, sin = turn
    first, second = jnp.split(x.astype(jnp.float32) * scale, 2, axis=-1)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)

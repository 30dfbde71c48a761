"""Rows over the vocabulary, cut into blocks, which devices may share.

A row is cut into C equal blocks of L tokens, which depend on the vocabulary alone. Sums
that decide about tokens run over each block first, then over the blocks. So devices
that share a row, each with whole blocks, exchange one number per block, and every mesh
gives the same sums bit for bit.
"""

import dataclasses
import functools
import math

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from passk_jax import sharding

# The fewest tokens of a block if there are several, and the most blocks. More blocks
# are less probable each, and a 23-bit uniform may never draw a block whose probability
# is below 1e-7.
_FEWEST_TOKENS = 128
_MOST_BLOCKS = 256


@dataclasses.dataclass(frozen=True)
class Rows:
    """How rows over the vocabulary lie on devices.

    A device has ``v`` tokens and ``c`` blocks of each row.

    Attributes:
        vocab_size: V, the number of tokens in a row.
        axes: the mesh axes whose devices share every row; ``()``: each device has whole
            rows and exchanges nothing.
    """

    vocab_size: int
    axes: tuple[str, ...] = ()

    @functools.cached_property
    def block_tokens(self) -> int:
        """L, the number of tokens in a block.

        If possible, the number of blocks is a power of two that divides V. Otherwise
        the last block is padded. Up to 128 tokens are one block.
        """
        count = math.gcd(self.vocab_size, _MOST_BLOCKS)
        while count > 1 and self.vocab_size < count * _FEWEST_TOKENS:
            count //= 2
        if self.vocab_size <= count * count * _FEWEST_TOKENS:
            return self.vocab_size // count
        return max(_FEWEST_TOKENS, -(-self.vocab_size // _MOST_BLOCKS))

    @property
    def first(self) -> jax.Array | int:
        """This device's first token."""
        size = self.vocab_size // sharding.num_devices(self.axes)
        return jax.lax.axis_index(self.axes) * size if self.axes else 0

    def ids(self, x: Shaped[Array, '*B v']) -> Int[Array, 'v']:
        """Returns the ids of this device's tokens."""
        return self.first + jnp.arange(x.shape[-1])

    def split(self, x: Shaped[Array, '*B v'], *, pad: float) -> Shaped[Array, '*B c L']:
        """Cuts rows into blocks, and fills the last one with ``pad``."""
        if missing := -x.shape[-1] % self.block_tokens:
            widths = [(0, 0)] * (x.ndim - 1) + [(0, missing)]
            x = jnp.pad(x, widths, constant_values=pad)
        return x.reshape(*x.shape[:-1], -1, self.block_tokens)

    def block_sums(self, x: Float[Array, '*B c L']) -> Float[Array, '*B C']:
        """Sums each block; returns the sums of all blocks of the row."""
        # Without the barrier, XLA would merge this sum with one over the blocks.
        sums = jax.lax.optimization_barrier(x.sum(axis=-1))
        if not self.axes:
            return sums
        return jax.lax.all_gather(sums, self.axes, axis=sums.ndim - 1, tiled=True)

    def row_sum(self, block_sums: Float[Array, '*B C']) -> Float[Array, '*B']:
        """Sums the blocks of each row: repeatedly adds the second half to the first.

        XLA's order of summation would depend on the number of rows.
        """
        sums = block_sums
        while (count := sums.shape[-1]) > 1:
            half = -(-count // 2)
            pad = [(0, 0)] * (sums.ndim - 1) + [(0, 2 * half - count)]
            sums = sums[..., :half] + jnp.pad(sums[..., half:], pad)
        return sums[..., 0]

    def sum(self, x: Float[Array, '*B v']) -> Float[Array, '*B']:
        """Sums each row, in an order that depends on the devices."""
        return jax.lax.psum(x.sum(axis=-1), self.axes) if self.axes else x.sum(axis=-1)

    def max(self, x: Float[Array, '*B v']) -> Float[Array, '*B']:
        """Returns the largest value of each row."""
        return jax.lax.pmax(x.max(axis=-1), self.axes) if self.axes else x.max(axis=-1)

    def first_marked(self, marked: Bool[Array, '*B v']) -> Int[Array, '*B']:
        """Returns the lowest id that each row marks."""
        ids = jnp.where(marked, self.ids(marked), np.iinfo(np.int32).max)
        first = jax.lax.pmin(ids.min(-1), self.axes) if self.axes else ids.min(-1)
        # A row of NaN marks none.
        return jnp.minimum(first, self.vocab_size - 1)

    def at(
        self, x: Shaped[Array, '*B v'], ids: Int[Array, '*B']
    ) -> Shaped[Array, '*B']:
        """Returns the value of one token of each row."""
        at = jnp.clip(ids - self.first, 0, x.shape[-1] - 1)
        return self.agree(jnp.take_along_axis(x, at[..., None], -1)[..., 0], ids)

    def block(
        self, x: Shaped[Array, '*B c L'], number: Int[Array, '*B']
    ) -> Shaped[Array, '*B L']:
        """Takes one block of each row; a device without it takes another block."""
        at = number - self.first // self.block_tokens
        at = jnp.clip(at, 0, x.shape[-2] - 1)[..., None, None]
        return jnp.take_along_axis(x, at, axis=-2)[..., 0, :]

    def agree(
        self, value: Shaped[Array, '*B'], ids: Int[Array, '*B']
    ) -> Shaped[Array, '*B']:
        """Returns the value on the device that has the token of this id."""
        if not self.axes:
            return value
        at, size = ids - self.first, self.vocab_size // sharding.num_devices(self.axes)
        return jax.lax.psum(jnp.where((at >= 0) & (at < size), value, 0), self.axes)


def rows_on_mesh(vocab_size: int) -> Rows:
    """Returns rows that devices share if each device gets whole blocks."""
    axes = sharding.mesh_axes('vocab', vocab_size)
    cut = vocab_size % (sharding.num_devices(axes) * Rows(vocab_size).block_tokens)
    return Rows(vocab_size, () if cut else axes)

"""The grid of grid.py as arrays, and how rows move in it.

G here is of all shards of the batch, K of all shards of the rollouts, and R is the
number of the latter. Rows and slots never leave their devices, whatever the mesh: a
prompt is copied to its slot (:func:`take_slots`), a free row takes the next rollout of
its slot (:func:`refilled`), rows move together (:func:`move_rows`,
:func:`move_cache`), and a full ring is made longer (:func:`lengthen`). What is computed
in between is the business of device.py.
"""

import dataclasses
import functools

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Int

from passk_jax import sharding
from passk_jax.models.attention import KeyValues
from passk_jax.models.policy import Prefix
from passk_jax.sharding import shard
from passk_jax.types import Rollouts

_CACHE_AXES = ('batch', 'kv_heads', 'rollouts', None, None)
PREFIX_AXES = ('batch', 'kv_heads', None, None)
ROW_AXES = ('batch', 'rollouts')


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Slots:
    """The problems that are in the slots, or all problems of the batch.

    Attributes:
        problem: ``[G]`` int32, which problem of its shard of the batch.
        keys: ``[G]`` the problems' random keys.
        hidden: ``[G, D]`` of the prompts' last tokens.
        prefix: keys and values of the prompts.
    """

    problem: jax.Array
    keys: jax.Array
    hidden: jax.Array
    prefix: Prefix


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """What decoding carries.

    Attributes:
        rollout: ``[G, K]`` int32, the rollout of each row; -1: none.
        position: ``[G, K]`` int32, its tokens chosen so far.
        last: ``[G, K]`` int32, the newest of them, not yet run through the policy.
        waiting: ``[G, R, 2]`` int32, the range of rollouts that are next.
        layers: keys and values of the tokens before the newest, and
        index: where they are, as :class:`passk_jax.models.transformer.Cache` says.
        rollouts: what is recorded.
        steps: int32 scalar, tokens of every row so far, live or not.
    """

    rollout: jax.Array
    position: jax.Array
    last: jax.Array
    waiting: jax.Array
    layers: tuple[KeyValues, ...]
    index: jax.Array
    rollouts: Rollouts
    steps: jax.Array


@jax.jit
def take_slots(problems: Slots, problem: Int[Array, 'G']) -> Slots:
    """The slots with these problems in them, of all problems."""

    def take(x: jax.Array) -> jax.Array:
        axes = PREFIX_AXES[: x.ndim] if x.ndim > 2 else ('batch', None)[: x.ndim]
        return sharding.on_each_device(
            lambda x, i: x[i], (x, problem), (axes, ('batch',)), axes
        )

    return jax.tree.map(take, problems)


@functools.partial(jax.jit, donate_argnums=0)
def refill(state: State, waiting: Int[Array, 'G R 2']) -> State:
    """The state with these ranges waiting, and the rows that are free taken."""
    return placed(refilled(dataclasses.replace(state, waiting=waiting)))


@functools.partial(jax.jit, donate_argnums=0)
def settle(state: State) -> State:
    """The state, partly the host's, on the devices."""
    return placed(state)


@jax.jit
def move_rows(x: Int[Array, 'G K'], source: Int[Array, 'G K']) -> Int[Array, 'G K']:
    """What is of rows, as their rows move.

    Args:
        x: as they are.
        source: where the new rows were, as ``pack`` of grid.py says.
    """
    return _pick_on_devices(x, ROW_AXES, source)


@jax.jit
def move_cache(layer: KeyValues, source: Int[Array, 'G K']) -> KeyValues:
    """A layer's cache, as its rows move."""
    return jax.tree.map(lambda x: _pick_on_devices(x, _CACHE_AXES, source), layer)


@functools.partial(jax.jit, static_argnames='ring')
def lengthen(layer: KeyValues, oldest: np.int32 | None, *, ring: int) -> KeyValues:
    """A layer's cache in a longer ring.

    The oldest token comes first there, so that the newest is the last of the old ring.

    Args:
        layer: the layer's.
        oldest: where in the old ring that is; ``None``: first, which is copied faster.
        ring: tokens of the longer one.
    """

    def longer(x: jax.Array, axis: int) -> jax.Array:
        old = x.shape[axis]
        if oldest is not None:
            x = jnp.roll(x, -oldest, axis)
        pads = [(0, 0)] * x.ndim
        pads[axis] = (0, ring - old)
        return shard(jnp.pad(x, pads), *_CACHE_AXES)

    return KeyValues(keys=longer(layer.keys, 4), values=longer(layer.values, 3))


def refilled(state: State) -> State:
    """Free rows take what waits for their slot."""
    G, K = state.rollout.shape
    R = state.waiting.shape[1]
    free = (state.rollout < 0).reshape(G, R, K // R)
    first, end = state.waiting[..., 0], state.waiting[..., 1]
    number = first[..., None] + jnp.cumsum(free, axis=-1) - 1
    taken = free & (number < end[..., None])
    first = first + taken.sum(axis=-1)
    number, taken = number.reshape(G, K), taken.reshape(G, K)
    return dataclasses.replace(
        state,
        rollout=jnp.where(taken, number, state.rollout),
        position=jnp.where(taken, 0, state.position),
        # What ended there is nobody's any more.
        last=jnp.where((state.rollout >= 0) & ~taken, state.last, 0),
        waiting=jnp.stack([first, end], axis=-1),
    )


def placed(state: State) -> State:
    """The state as it lies on the mesh between two programs."""

    def rows(x: jax.Array) -> jax.Array:
        return shard(x, *ROW_AXES, *(None,) * (x.ndim - 2))

    return State(
        rollout=rows(state.rollout),
        position=rows(state.position),
        last=rows(state.last),
        waiting=rows(state.waiting),
        layers=jax.tree.map(lambda x: shard(x, *_CACHE_AXES), state.layers),
        index=shard(state.index),
        rollouts=jax.tree.map(rows, state.rollouts),
        steps=shard(state.steps),
    )


def _pick_on_devices(
    x: jax.Array, axes: tuple[str | None, ...], source: Int[Array, 'G K']
) -> jax.Array:
    """Rows of a cell, by their numbers in it."""
    slots, rows = axes.index('batch'), axes.index('rollouts')

    def pick(x: jax.Array, source: jax.Array) -> jax.Array:
        at = jnp.divmod(jnp.maximum(source, 0), x.shape[rows])
        picked = jnp.moveaxis(x, (slots, rows), (0, 1))[at]
        return jnp.moveaxis(picked, (0, 1), (slots, rows))

    return sharding.on_each_device(pick, (x, source), (axes, ROW_AXES), axes)

"""The grid of grid.py as arrays, and how its rows move.

Here G counts the slots of all shards of the batch, K the rows of all shards of the
rollouts, and R the shards of the rollouts. Rows and slots never leave their devices,
whatever the mesh: :func:`put` copies prompts to slots, :func:`take` moves slots,
:func:`refilled` gives a free row the next rollout of its slot, :func:`move_rows` and
:func:`move_cache` move rows together, and :func:`lengthen` extends a full ring.
:class:`Arrays` calls these programs.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any, Generic

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Int

from passk_jax import sharding
from passk_jax.models.attention import CACHE_AXES, PREFIX_AXES, KeyValues, map_slots
from passk_jax.models.master_weights import Axes
from passk_jax.models.policy import Prefix
from passk_jax.sampling.plain_loop import Record
from passk_jax.sharding import shard
from passk_jax.types import Leaf

ROW_AXES = ('batch', 'rollouts')


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Slots(Generic[Leaf]):
    """The problems in the slots, or in a window of those that come next.

    Attributes:
        problem: ``[G]`` int32, the problem's index in its shard of the batch.
        keys: ``[G]`` the problems' random keys.
        hidden: ``[G, D]`` hidden states of the prompts' last tokens.
        prefix: keys and values of the prompts.
    """

    problem: Leaf
    keys: Leaf
    hidden: Leaf
    prefix: Prefix[Leaf]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State(Generic[Leaf]):
    """The state of decoding.

    Attributes:
        rollout: ``[G, K]`` int32, the rollout in each row; -1: none.
        position: ``[G, K]`` int32, its number of tokens so far.
        last: ``[G, K]`` int32, its newest token, not yet run through the policy.
        waiting: ``[G, R, 2]`` int32, the range of rollouts that come next.
        layers: each layer's keys and values of the tokens before the newest.
        index: where those lie; see :class:`passk_jax.models.transformer.Cache`.
        record: all rollouts so far.
        steps: int32 scalar, decoding steps so far.
    """

    rollout: Leaf
    position: Leaf
    last: Leaf
    waiting: Leaf
    layers: tuple[KeyValues, ...]
    index: Leaf
    record: Record[Leaf]
    steps: Leaf

    @property
    def ring(self) -> int:
        """The length of the ring, in tokens."""
        return self.layers[0].values.shape[3]


@dataclasses.dataclass
class Arrays:
    """The slots and the state of a grid, and the programs that change them.

    Keys and values change layer by layer, so that only one layer is held twice.

    Attributes:
        slots, state: what decoding reads and changes; in ahead.py, only shapes.
        run: calls a program with its arguments; in ahead.py, only compiles it.
    """

    slots: Slots
    state: State
    run: Callable[..., Any] = operator.call

    def take_slots(self, source: np.ndarray) -> None:
        """Moves the slots; ``source`` has the old slot of each new one."""
        layers = list(self.slots.prefix.layers)
        self.slots = _with_layers(self.slots, ())
        self.slots = self.run(take, self.slots, source)
        self.slots = _with_layers(self.slots, self._changed(layers, take, source))

    def move(
        self, source: np.ndarray, rollout: np.ndarray, waiting: np.ndarray
    ) -> None:
        """Moves the rows; ``source`` as in :func:`move_rows`."""
        self._change_cache(move_cache, source)
        position, last = (
            self.run(move_rows, x, source)
            for x in (self.state.position, self.state.last)
        )
        self.settle(rollout=rollout, position=position, last=last, waiting=waiting)

    def lengthen(self, oldest: np.int32 | None, ring: int) -> None:
        """Lengthens the ring, as :func:`lengthen` does."""
        # Continue writing where the old ring ends.
        index = np.int32(self.state.ring)
        self._change_cache(lengthen, oldest=oldest, ring=ring)
        self.settle(index=index)

    def settle(self, **changes: Any) -> None:
        """Replaces arrays of the state and refills free rows."""
        self.state = self.run(settle, dataclasses.replace(self.state, **changes))

    def _change_cache(self, function: Any, *arguments: Any, **keywords: Any) -> None:
        layers = list(self.state.layers)
        self.state = dataclasses.replace(self.state, layers=())
        changed = self._changed(layers, function, *arguments, **keywords)
        self.state = dataclasses.replace(self.state, layers=changed)

    def _changed(
        self, layers: list[KeyValues], function: Any, *arguments: Any, **keywords: Any
    ) -> tuple[KeyValues, ...]:
        """Changes layers and empties the list, so that only one layer is held twice."""
        changed = []
        while layers:
            changed.append(self.run(function, layers.pop(0), *arguments, **keywords))
        return tuple(changed)


def _with_layers(slots: Slots, layers: tuple[KeyValues, ...]) -> Slots:
    prefix = dataclasses.replace(slots.prefix, layers=layers)
    return dataclasses.replace(slots, prefix=prefix)


@jax.jit
def take(tree: Any, source: Int[Array, 'G']) -> Any:
    """Selects the slots with these numbers in every leaf of :class:`Slots`."""

    def take_leaf(axes: Axes, x: jax.Array) -> jax.Array:
        return sharding.on_each_device(
            lambda x, i: x[i], (x, source), (axes, ('batch',)), axes
        )

    return map_with_axes(take_leaf, tree)


@functools.partial(jax.jit, donate_argnums=0)
def put(tree: Any, values: Any, places: Int[Array, 'W']) -> Any:
    """Writes the slots ``values`` to these places; drops those past the end."""

    def put_leaf(axes: Axes, x: jax.Array, values: jax.Array) -> jax.Array:
        return sharding.on_each_device(
            lambda x, values, at: x.at[at].set(values, mode='drop'),
            (x, values, places),
            (axes, axes, ('batch',)),
            axes,
        )

    return map_with_axes(put_leaf, tree, values)


@functools.partial(jax.jit, static_argnames='size')
def zeros_like(tree: Any, *, size: int) -> Any:
    """Makes zeros like leaves of :class:`Slots`, for ``size`` slots."""

    def zeros(axes: Axes, x: jax.Array) -> jax.Array:
        return shard(jnp.zeros((size, *x.shape[1:]), x.dtype), *axes)

    return map_with_axes(zeros, tree)


def map_with_axes(fn: Callable[..., jax.Array], tree: Any, *trees: Any) -> Any:
    """Maps ``fn(axes, *leaves)`` over :class:`Slots`; ``axes`` are logical axes.

    Keys and values have :data:`PREFIX_AXES`. Other leaves are split only by slots.
    """

    def map_part(part: Any, *parts: Any) -> Any:
        axes = PREFIX_AXES if isinstance(part, KeyValues) else ('batch', *[None] * 3)
        return jax.tree.map(lambda x, *ys: fn(axes[: x.ndim], x, *ys), part, *parts)

    return jax.tree.map(
        map_part, tree, *trees, is_leaf=lambda part: isinstance(part, KeyValues)
    )


@functools.partial(jax.jit, donate_argnums=0)
def settle(state: State) -> State:
    """Refills free rows and restores the layout after the host has replaced arrays."""
    return placed(refilled(state))


@jax.jit
def move_rows(x: Int[Array, 'G K'], source: Int[Array, 'G K']) -> Int[Array, 'G K']:
    """Moves one value per row; ``pack`` in grid.py explains ``source``."""
    return _pick_on_devices(x, ROW_AXES, source)


@jax.jit
def move_cache(layer: KeyValues, source: Int[Array, 'G K']) -> KeyValues:
    """Moves the rows of a layer's cache; ``source`` as in :func:`move_rows`."""
    return jax.tree.map(lambda x: _pick_on_devices(x, CACHE_AXES, source), layer)


@functools.partial(jax.jit, static_argnames='ring')
def lengthen(layer: KeyValues, oldest: np.int32 | None, *, ring: int) -> KeyValues:
    """Copies a layer's cache into a ring of ``ring`` tokens, its oldest token first.

    ``oldest`` is that token's place in the old ring; ``None``: the first place, which
    copies faster.
    """

    def longer(x: jax.Array, axis: int) -> jax.Array:
        if oldest is not None:
            x = jnp.roll(x, -oldest, axis)
        pads = [(0, 0)] * x.ndim
        pads[axis] = (0, ring - x.shape[axis])
        return shard(jnp.pad(x, pads), *CACHE_AXES)

    return map_slots(longer, layer)


def refilled(state: State) -> State:
    """Gives free rows the next rollouts of their slots."""
    G, K = state.rollout.shape
    R = state.waiting.shape[1]
    free = (state.rollout < 0).reshape(G, R, K // R)
    first, end = state.waiting[..., 0], state.waiting[..., 1]
    number = first[..., None] + jnp.cumsum(free, axis=-1) - 1
    assigned = free & (number < end[..., None])
    first = first + assigned.sum(axis=-1)
    assigned = assigned.reshape(G, K)
    return dataclasses.replace(
        state,
        rollout=jnp.where(assigned, number.reshape(G, K), state.rollout),
        position=jnp.where(assigned, 0, state.position),
        # A free row runs token 0.
        last=jnp.where(state.rollout >= 0, state.last, 0),
        waiting=jnp.stack([first, end], axis=-1),
    )


def placed(state: State) -> State:
    """Constrains a state to its layout on the mesh between two programs."""

    def place(x: jax.Array) -> jax.Array:
        return shard(x, *(*ROW_AXES, *(None,) * x.ndim)[: x.ndim])

    layers = jax.tree.map(lambda x: shard(x, *CACHE_AXES), state.layers)
    other_fields = jax.tree.map(place, dataclasses.replace(state, layers=()))
    return dataclasses.replace(other_fields, layers=layers)


def _pick_on_devices(
    x: jax.Array, axes: tuple[str | None, ...], source: Int[Array, 'G K']
) -> jax.Array:
    """Picks rows of each cell by their numbers in the cell."""
    slots, rows = axes.index('batch'), axes.index('rollouts')

    def pick(x: jax.Array, source: jax.Array) -> jax.Array:
        at = jnp.divmod(jnp.maximum(source, 0), x.shape[rows])
        picked = jnp.moveaxis(x, (slots, rows), (0, 1))[at]
        return jnp.moveaxis(picked, (0, 1), (slots, rows))

    return sharding.on_each_device(pick, (x, source), (axes, ROW_AXES), axes)

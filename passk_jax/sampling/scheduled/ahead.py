"""Compiles programs for the next ring or grid, while rollouts decode with this one.

:meth:`Ahead.plan` lists the changes that may come next, the likeliest first: a window
of prompts, a longer ring, a smaller grid. A thread (runtime/background.py) compiles the
calls that host.py makes for each change. It holds only shapes, so it keeps no array
alive. cost.py chooses the platforms.

The thread compiles in the caller's JAX context, which only private functions of JAX
(0.10.2) can copy. Without these functions, nothing compiles ahead.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from absl import logging

from passk_jax.runtime.background import BACKGROUND, Job
from passk_jax.sampling.scheduled import device, state
from passk_jax.sampling.scheduled.device import Decoder, StopWhen
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.sampling.scheduled.state import Slots, State

Shape = jax.ShapeDtypeStruct


@dataclasses.dataclass(frozen=True)
class Changes:
    """What may come next.

    Attributes:
        window: prompts of each shard of the batch that run next; 0: none.
        refills: whether rollouts wait for rows.
        ring: tokens of the next ring; 0: the present one is the longest.
        size: size of the next grid; ``None``: the present one is the smallest.
    """

    window: int
    refills: bool
    ring: int
    size: Size | None


@functools.cache
def is_possible() -> bool:
    """Returns whether this version of JAX lets a thread compile; warns once if not."""
    try:
        context()
    except (ImportError, AttributeError) as error:
        logging.warning(
            'decoding waits for its programs, as JAX %s cannot copy the context that '
            'they compile in: %s',
            *(jax.__version__, error),
        )
        return False
    return True


class Ahead:
    """The programs that a thread compiles for one call of :func:`host.decode`.

    Args:
        decoder, work: those of the call.
        prefill: the arguments of :func:`device.prefill`.
        size: the size of the first grid.
        shards: the number of shards of the batch.
        rollout_shards: R.
    """

    def __init__(
        self,
        decoder: Decoder,
        work: Work,
        prefill: tuple[Any, ...],
        size: Size,
        shards: int,
        rollout_shards: int,
    ):
        self.decoder: Decoder[Shape] = shapes_of(decoder)
        self.prefill = shapes_of(prefill)
        self.shards, self.rollout_shards = shards, rollout_shards
        # Rows that begin at different times end in the middle of the ring.
        self.rolled = (False, True) if size != work.everything else (False,)
        leaves, treedef = jax.tree.flatten((self.decoder, self.prefill))
        inside = context().key
        self.call = _name((tuple(leaves), treedef, inside, work, self.rolled))

    def claim(self, *change: Hashable) -> None:
        """Waits for the programs of a change if the thread compiles them now."""
        BACKGROUND.claim((self.call, *change))

    def stop(self) -> None:
        """Drops the jobs that the thread has not begun."""
        BACKGROUND.plan({})

    def plan(
        self, size: Size, ring: int, slots: Slots, state: State, changes: Changes
    ) -> None:
        """Replaces the thread's jobs: compiles only for these changes of the grid."""
        now = Now(self.decoder, shapes_of(slots), shapes_of(state), self.shards)
        jobs: dict[tuple[Hashable, ...], Job] = {}
        if changes.window:
            run = functools.partial(now.run_window, self.prefill, changes.window)
            jobs['window', size, ring] = run
        if changes.refills:
            jobs['refill', size, ring] = now.refill
        if changes.ring:
            run = functools.partial(now.lengthen, changes.ring, self.rolled)
            jobs[size, changes.ring] = run
        if changes.size:
            G = self.shards * changes.size.slots
            K = self.rollout_shards * changes.size.rows
            jobs[changes.size, ring] = functools.partial(now.shrink, G, K)
        here = context().run
        BACKGROUND.plan(
            {
                (self.call, *change): functools.partial(here, job)
                for change, job in jobs.items()
            }
        )


@dataclasses.dataclass(frozen=True)
class Now:
    """The shapes of the arguments of :func:`device.advance` before a change.

    Its methods compile what the methods of :class:`host.Decoding` call.
    """

    decoder: Decoder[Shape]
    slots: Slots[Shape]
    state: State[Shape]
    shards: int

    def run_window(self, prefill: tuple[Any, ...], count: int) -> None:
        """Compiles the programs for a window of ``count`` prompts per shard."""
        window = compiled(device.prefill, *prefill, _ints(self.shards), count=count)
        compiled(state.put, self.slots, window, _ints(self.shards * count))

    def refill(self) -> None:
        """Compiles the programs that give work to an empty slot."""
        self.take_slots(self.slots.problem.shape[0])
        waiting = _ints(*self.state.waiting.shape)
        compiled(state.settle, dataclasses.replace(self.state, waiting=waiting))

    def lengthen(self, ring: int, rolled: tuple[bool, ...]) -> None:
        """Compiles the programs for a longer ring.

        ``rolled`` lists the ways to copy: whether the oldest token lies behind newer
        ones.
        """
        layers: Any = ()
        for inside in rolled:
            oldest = _ints() if inside else None
            longer = functools.partial(
                compiled, state.lengthen, oldest=oldest, ring=ring
            )
            layers = _map_layers(self.state.layers, longer)
        changed = dataclasses.replace(self.state, layers=layers, index=_ints())
        self.advance(self.slots, changed)

    def shrink(self, slots: int, rows: int) -> None:
        """Compiles the programs for a smaller grid; the counts are over all cells."""
        source, old = _ints(slots, rows), self.state
        move = functools.partial(compiled, state.move_cache, source=source)
        self.advance(
            self.take_slots(slots),
            dataclasses.replace(
                old,
                layers=_map_layers(old.layers, move),
                rollout=source,
                position=compiled(state.move_rows, old.position, source),
                last=compiled(state.move_rows, old.last, source),
                waiting=_ints(slots, *old.waiting.shape[1:]),
            ),
        )

    def take_slots(self, count: int) -> Slots[Shape]:
        """Compiles the move of slots to a grid of ``count`` slots; returns these."""
        source, prefix = _ints(count), self.slots.prefix
        rest = dataclasses.replace(
            self.slots, prefix=dataclasses.replace(prefix, layers=())
        )
        slots = compiled(state.take, rest, source)
        take = functools.partial(compiled, state.take, source=source)
        layers = _map_layers(prefix.layers, take)
        prefix = dataclasses.replace(slots.prefix, layers=layers)
        return dataclasses.replace(slots, prefix=prefix)

    def advance(self, slots: Slots[Shape], changed: State[Shape]) -> None:
        """Compiles decoding from a state that the host has changed."""
        stop = StopWhen(np.int32(0), np.zeros(self.shards, bool), np.int32(0))
        settled = compiled(state.settle, changed)
        compiled(device.advance, self.decoder, slots, settled, shapes_of(stop))


@dataclasses.dataclass(frozen=True)
class Context:
    """A copy of a thread's JAX context.

    Attributes:
        mesh: the mesh.
        options: the thread's options, as context managers, and their values.
        key: equal for contexts that compile the same programs.
    """

    mesh: jax.sharding.Mesh
    options: list[tuple[Any, Any]]
    key: Hashable

    def run(self, job: Job) -> None:
        """Runs a job in the context, in any thread."""
        with contextlib.ExitStack() as stack:
            for option, value in self.options:
                stack.enter_context(option(value))
            if not self.mesh.empty:
                stack.enter_context(jax.set_mesh(self.mesh))
            job()


def shapes_of(tree: Any) -> Any:
    """Returns the shapes for which ``jax.jit`` compiles these arguments."""
    return jax.tree.map(_shape_of, tree)


def _shape_of(x: Any) -> Any:
    if isinstance(x, jax.Array):
        # JAX may move an array that is not committed.
        where = x.sharding if x.committed else None
        return Shape(x.shape, x.dtype, sharding=where)
    if isinstance(x, np.ndarray | np.generic):
        return Shape(x.shape, x.dtype)
    return x


def compiled(function: Any, *arguments: Any, **named: Any) -> Any:
    """Compiles a jitted function for these shapes; returns the shapes of its results.

    A later call finds the program if it passes the same arguments by keyword.
    """
    program = function.lower(*arguments, **named).compile()
    leaves = jax.tree.leaves((arguments, named))
    shardings = (getattr(x, 'sharding', None) for x in leaves)
    committed = not jax.sharding.get_mesh().empty or any(shardings)

    def shape_of(x: Any, where: jax.sharding.Sharding) -> Shape:
        place = where if committed else None
        return Shape(x.shape, x.dtype, sharding=place)

    return jax.tree.map(shape_of, program.out_info, program.output_shardings)


def context() -> Context:
    """Returns the current JAX context."""
    from jax._src import config

    mesh = jax.sharding.get_mesh()
    local = [(x, x.get_local()) for x in config.config_states.values()]
    unset = config.config_ext.unset
    options = [(option, value) for option, value in local if value is not unset]
    return Context(mesh, options, (mesh, config.trace_context()))


@functools.cache
def _name(key: Hashable) -> object:
    """Returns an object that stands for a long key and is quick to compare."""
    return object()


def _ints(*shape: int) -> Shape:
    """Makes the shape of an int32 array from the host."""
    return Shape(shape, np.int32)


def _map_layers(layers: tuple[Any, ...], fn: Callable[[Any], Any]) -> Any:
    """Maps ``fn`` over the layers; calls it once for equal shapes."""
    known: dict[Hashable, Any] = {}
    for layer in layers:
        key = tuple(jax.tree.leaves(layer))
        if key not in known:
            known[key] = fn(layer)
    return tuple(known[tuple(jax.tree.leaves(layer))] for layer in layers)

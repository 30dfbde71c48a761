"""Compiles programs for the next ring or grid, while rollouts decode with this one.

host.py lists the changes that may come next, the likeliest first: a window of prompts,
a longer ring, a smaller grid. A thread (runtime/background.py) compiles their programs:
it makes the changes with the same :class:`state.Arrays`, but of shapes, so it keeps no
array alive. cost.py chooses the platforms.

The thread compiles in the caller's JAX context, which only private functions of JAX
(0.10.2) can copy. Without these functions, nothing compiles ahead.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import numpy as np
from absl import logging

from passk_jax.runtime.background import BACKGROUND, Job
from passk_jax.sampling.scheduled import device, state
from passk_jax.sampling.scheduled.device import Decoder, StopWhen
from passk_jax.sampling.scheduled.grid import Size
from passk_jax.sampling.scheduled.state import Arrays

Shape = jax.ShapeDtypeStruct


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
        decoder: that of the call.
        prefill: the arguments of :func:`device.prefill`.
        shards: the number of shards of the batch.
        refills: whether rollouts wait for rows at first; if not, all begin together.
    """

    def __init__(
        self, decoder: Decoder, prefill: tuple[Any, ...], shards: int, refills: bool
    ):
        self.decoder: Decoder[Shape] = shapes_of(decoder)
        self.prefill = shapes_of(prefill)
        self.shards, self.refills = shards, refills
        leaves, treedef = jax.tree.flatten((self.decoder, self.prefill))
        inside, _ = context()
        self.call = _name((tuple(leaves), treedef, inside, refills))

    def claim(self, *change: Hashable) -> None:
        """Waits for the programs of a change if the thread compiles them now."""
        BACKGROUND.claim((self.call, change))

    def stop(self) -> None:
        """Drops the jobs that the thread has not begun."""
        BACKGROUND.plan({})

    def plan(
        self, jobs: Mapping[Hashable, Callable[[Arrays], None]], arrays: Arrays
    ) -> None:
        """Replaces the thread's jobs: the methods that compile for each change."""
        shapes = shapes_of((arrays.slots, arrays.state))
        _, run = context()
        BACKGROUND.plan(
            {
                (self.call, change): functools.partial(
                    run, functools.partial(job, Arrays(*shapes, run=compiled))
                )
                for change, job in jobs.items()
            }
        )

    def run_window(self, count: int, arrays: Arrays) -> None:
        """Compiles the programs for a window of ``count`` prompts per shard."""
        first = _zeros(self.shards)
        window = compiled(device.prefill, *self.prefill, first, count=count)
        compiled(state.put, arrays.slots, window, _zeros(self.shards * count))

    def refill(self, arrays: Arrays) -> None:
        """Compiles the programs that give work to an empty slot."""
        arrays.take_slots(_zeros(*arrays.slots.problem.shape))
        arrays.settle(waiting=_zeros(*arrays.state.waiting.shape))

    def lengthen(self, ring: int, arrays: Arrays) -> None:
        """Compiles the programs for a longer ring."""
        if self.refills:
            # Rows that begin at different times end in the middle of the ring.
            dataclasses.replace(arrays).lengthen(np.int32(1), ring)
        arrays.lengthen(None, ring)
        self.advance(arrays)

    def shrink(self, size: Size, arrays: Arrays) -> None:
        """Compiles the programs for a smaller grid."""
        G, (_, R, _) = self.shards * size.slots, arrays.state.waiting.shape
        rows = _zeros(G, R * size.rows)
        arrays.take_slots(_zeros(G))
        arrays.move(rows, rows, _zeros(G, R, 2))
        self.advance(arrays)

    def advance(self, arrays: Arrays) -> None:
        """Compiles decoding from a state that the host has changed."""
        stop = StopWhen(np.int32(0), np.zeros(self.shards, bool), np.int32(0))
        compiled(device.advance, self.decoder, arrays.slots, arrays.state, stop)


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


def compiled(function: Any, *arguments: Any, **keywords: Any) -> Any:
    """Compiles a jitted function for these shapes; returns the shapes of its results.

    A later call finds the program if it passes the same arguments by keyword.
    """
    program = function.lower(*arguments, **keywords).compile()
    leaves = jax.tree.leaves((arguments, keywords))
    shardings = (getattr(x, 'sharding', None) for x in leaves)
    committed = not jax.sharding.get_mesh().empty or any(shardings)

    def shape_of(x: Any, where: jax.sharding.Sharding) -> Shape:
        place = where if committed else None
        return Shape(x.shape, x.dtype, sharding=place)

    return jax.tree.map(shape_of, program.out_info, program.output_shardings)


def context() -> tuple[Hashable, Callable[[Job], None]]:
    """Copies the thread's JAX context: its mesh and its options.

    Returns:
        A key, equal for contexts that compile the same programs, and a function that
        runs a job in the context, in any thread.
    """
    from jax._src import config

    mesh = jax.sharding.get_mesh()
    local = [(x, x.get_local()) for x in config.config_states.values()]
    unset = config.config_ext.unset

    def run(job: Job) -> None:
        with contextlib.ExitStack() as stack:
            for option, value in local:
                if value is not unset:
                    stack.enter_context(option(value))
            if not mesh.empty:
                stack.enter_context(jax.set_mesh(mesh))
            job()

    return (mesh, config.trace_context()), run


@functools.cache
def _name(key: Hashable) -> object:
    """Returns an object that stands for a long key and is quick to compare."""
    return object()


def _zeros(*shape: int) -> np.ndarray:
    """Makes an array like those that the host passes."""
    return np.zeros(shape, np.int32)

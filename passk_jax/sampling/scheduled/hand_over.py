"""Hands over the responses that have ended while others still decode."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np

from passk_jax.sampling.plain_loop import Record
from passk_jax.sharding import shard
from passk_jax.types import Rollouts

# The fewest rows of a gather. Counts are rounded up to a power of two, so that a run
# compiles only a few gathers.
_MIN_ROWS = 64


@dataclasses.dataclass(frozen=True)
class Ended:
    """B responses that have ended.

    Attributes:
        problems, rollouts: ``[B]`` on the host, the responses' indices in ``[P, N]``.
        tokens: ``[B', T]`` int32 with ``B' >= B``, replicated; rows from B on are
            padding.
        lengths: ``[B']`` int32, replicated.
    """

    problems: np.ndarray
    rollouts: np.ndarray
    tokens: jax.Array
    lengths: jax.Array


OnEnded = Callable[[Ended], None]
"""Called between two device programs, so it should return at once.

An error that it raises ends the sampling.
"""


def gather(rollouts: Rollouts | Record, which: np.ndarray) -> Ended:
    """Selects responses, ``which [P, N]``, and starts copying them to the host.

    The rollouts may be donated after this call.
    """
    problems, numbers = np.nonzero(which)
    rows = max(_MIN_ROWS, 1 << (max(len(problems), 1) - 1).bit_length())
    places = np.zeros((2, rows), np.int32)
    places[:, : len(problems)] = problems, numbers
    tokens, lengths = _gather(rollouts.tokens, rollouts.lengths, places)
    for x in (tokens, lengths):
        x.copy_to_host_async()
    return Ended(problems, numbers, tokens, lengths)


@jax.jit
def _gather(
    tokens: jax.Array, lengths: jax.Array, places: jax.Array
) -> tuple[jax.Array, jax.Array]:
    at = tuple(places)
    return shard(tokens[at], None, None), shard(lengths[at], None)

"""Responses that have ended, handed over while others are still being decoded."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np

from passk_jax.sharding import shard
from passk_jax.types import Rollouts

# Numbers of responses are rounded up, so that a run compiles a handful.
_MIN_ROWS = 64


@dataclasses.dataclass(frozen=True)
class Ended:
    """Some responses that have all their tokens.

    Attributes:
        problems, rollouts: ``[B]`` on the host, where in the batch they are.
        tokens: ``[B', T]`` int32, whole on every device; rows past B mean nothing.
        lengths: ``[B']`` int32.
    """

    problems: np.ndarray
    rollouts: np.ndarray
    tokens: jax.Array
    lengths: jax.Array


OnEnded = Callable[[Ended], None]
"""Called between two programs, so it should only note what it is given."""


def gather(rollouts: Rollouts, which: np.ndarray) -> Ended:
    """Some responses of a batch, on their way to the host.

    Args:
        rollouts: of P problems with N each; may be given away after this.
        which: ``[P, N]`` bool.
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

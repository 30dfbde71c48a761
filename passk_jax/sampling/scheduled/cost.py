"""What decoding and decisions cost, roughly, so that no decision costs too much.

Handing responses over and moving rows interrupt the device, which gains nothing where a
step is quick. So an :class:`Account` lets decisions take one :data:`PART`-th of the
time of decoding and no more. Seconds here are estimates by a platform's :class:`Pace`,
never measured: every host must come to the same decision.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax

from passk_jax import sharding

PART = 8
"""Decisions may take one PART-th of the time that decoding has taken."""


@dataclasses.dataclass(frozen=True)
class Pace:
    """How fast a device is, how often it asks to go on, and how much decisions change.

    Attributes:
        stride: steps between two checks whether to go on.
        part: the fraction of its rows that the grid shrinks to.
        times: how many times longer the next ring is.
        flops: FLOPs a second, about.
        bandwidth: bytes a second, about.
        decision: seconds that a decision takes, besides the bytes that it moves.
    """

    stride: int
    part: float
    times: int
    flops: float
    bandwidth: float
    decision: float


# An accelerator pays for each check with a message to its host, and for each program
# with up to minutes of compilation. An idle row costs it little, because a step reads
# all weights anyway.
_PACE = {'cpu': Pace(1, 2 / 3, 2, flops=4e10, bandwidth=1e10, decision=4e-3)}
_PACE_OF_ACCELERATORS = Pace(8, 1 / 4, 4, flops=3e14, bandwidth=2e12, decision=2e-3)


@dataclasses.dataclass
class Account:
    """What a call has decoded and decided so far.

    Attributes:
        pace: of the platform.
        weights: numbers that a device multiplies a token by.
        weight_bytes: their bytes.
        decoded: seconds of decoding.
        spent: seconds of decisions.
    """

    pace: Pace
    weights: int
    weight_bytes: int
    decoded: float = 0.0
    spent: float = 0.0

    def step(self, rows: int) -> float:
        """Seconds of a step of so many rows."""
        computed = 2 * rows * self.weights / self.pace.flops
        return max(computed, self.weight_bytes / self.pace.bandwidth)

    def decision(self, moved_bytes: float = 0.0) -> float:
        """Seconds of a decision that moves so many bytes."""
        return self.pace.decision + moved_bytes / self.pace.bandwidth

    def steps_until_paid(self, cost: float, rows: int) -> int:
        """Steps of so many rows until a decision of this cost may be made."""
        missing = PART * (self.spent + cost) - self.decoded
        return max(0, math.ceil(missing / self.step(rows)))


def open_account(weights: Mapping[str, Any], platform: str | None = None) -> Account:
    """The account of a call that decodes with these weights, arrays or shapes of them.

    Args:
        weights: the weights for decoding.
        platform: where it decodes; ``None``: the default backend.
    """
    shards = sharding.num_shards('mlp', 0)
    size = sum(x.size for x in weights.values())
    num_bytes = sum(x.size * x.dtype.itemsize for x in weights.values())
    pace = _PACE.get(platform or jax.default_backend(), _PACE_OF_ACCELERATORS)
    return Account(pace, size // shards, num_bytes // shards)

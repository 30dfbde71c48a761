"""Estimates what decoding and decisions cost, so that decisions stay cheap.

Handing responses over and moving rows interrupt the device, which costs too much where
steps are quick. So an :class:`Account` lets decisions take at most one :data:`PART`-th
of the decoding time. Times are estimated from a platform's :class:`Pace` and never
measured, because all hosts must decide alike.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax

from passk_jax import sharding
from passk_jax.models.arch import Arch
from passk_jax.models.token_costs import read_by_step, token_flops

PART = 8
"""Decisions may take one PART-th of the time that decoding has taken."""


@dataclasses.dataclass(frozen=True)
class Pace:
    """The speed of a platform, and how coarse its decisions are.

    Attributes:
        stride: steps between two checks whether to go on.
        part: the next grid's rows as a fraction of this grid's.
        times: the next ring's length as a multiple of this ring's.
        flops: FLOP/s, roughly.
        bandwidth: bytes/s, roughly.
        decision: seconds of a decision that moves no bytes.
        ahead: whether a thread compiles programs ahead (ahead.py).
    """

    stride: int
    part: float
    times: int
    flops: float
    bandwidth: float
    decision: float
    ahead: bool = False


# On an accelerator, a check costs a message to the host, and a program may take minutes
# to compile. An idle row costs little, because a step reads all weights anyway.
_PACE_OF_ACCELERATORS = Pace(
    8, 1 / 4, 4, flops=3e14, bandwidth=2e12, decision=2e-3, ahead=True
)
_PACE = {
    # Compiling ahead would take the core that decodes.
    'cpu': Pace(1, 2 / 3, 2, flops=4e10, bandwidth=1e10, decision=4e-3),
    # XLA tunes products by timing them, which decoding would disturb. Processes also
    # exchange the results in the order of compilation (``ExchangeResults`` of XLA's
    # gemm_fusion_autotuner.cc): if their orders differed, they would wait forever.
    'gpu': dataclasses.replace(_PACE_OF_ACCELERATORS, ahead=False),
}


@dataclasses.dataclass
class Account:
    """Seconds of a call so far: ``decoded`` on steps, ``spent`` on decisions.

    A device multiplies each token by ``weights`` parameters, and reads ``weight_bytes``
    bytes of parameters in each step.
    """

    pace: Pace
    weights: int
    weight_bytes: int
    decoded: float = 0.0
    spent: float = 0.0

    def step(self, rows: int) -> float:
        """Returns the seconds of a step of ``rows`` rows."""
        computed = 2 * rows * self.weights / self.pace.flops
        return max(computed, self.weight_bytes / self.pace.bandwidth)

    def decision(self, moved_bytes: float = 0.0) -> float:
        """Returns the seconds of a decision that moves ``moved_bytes`` bytes."""
        return self.pace.decision + moved_bytes / self.pace.bandwidth

    def steps_until_paid(self, cost: float, rows: int) -> int:
        """Returns how many steps of ``rows`` rows pay for a decision of this cost."""
        missing = PART * (self.spent + cost) - self.decoded
        return max(0, math.ceil(missing / self.step(rows)))


def open_account(
    arch: Arch, weights: Mapping[str, Any], platform: str | None = None
) -> Account:
    """Makes the account of a call that decodes with these weights (arrays or shapes).

    A step reads all experts, but multiplies each token only by the experts that it is
    routed to. ``platform=None`` means the default backend.
    """
    shards = sharding.mesh_shards('mlp')
    active = token_flops(arch) // 2 + arch.vocab_size * arch.embed_dim
    read = read_by_step(arch, weights).values()
    num_bytes = sum(x.size * x.dtype.itemsize for x in read)
    pace = _PACE.get(platform or jax.default_backend(), _PACE_OF_ACCELERATORS)
    return Account(pace, active // shards, num_bytes // shards)

"""The weights of a policy in two parts: what training leaves alone and what it trains.

``Policy.frozen`` names the first part. Gradients, optimizer, checkpoints and digests
follow the second. Whatever runs the network merges both; that copies nothing. No
configuration freezes anything yet: full fine-tuning is the case of nothing frozen.
"""

import dataclasses
from typing import Generic

import jax

from passk_jax.models.policy import Policy
from passk_jax.types import Leaf


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weights(Generic[Leaf]):
    """The parameters of a policy.

    Attributes:
        frozen: never donated, never differentiated; empty in full fine-tuning.
        trained: the others.
    """

    frozen: dict[str, Leaf]
    trained: dict[str, Leaf]

    @property
    def merged(self) -> dict[str, Leaf]:
        """All parameters, for the functions of policy.py."""
        return self.frozen | self.trained


def split_weights(policy: Policy, params: dict[str, Leaf]) -> Weights[Leaf]:
    """Splits parameters, or their shapes, as the policy says."""
    frozen = {name: x for name, x in params.items() if name in policy.frozen}
    trained = {name: x for name, x in params.items() if name not in frozen}
    return Weights(frozen, trained)

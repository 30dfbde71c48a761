"""The weights of a policy in two parts: what training leaves alone and what it trains.

``Policy.frozen`` names the first part. Gradients, optimizer, checkpoints and digests
follow the second. Whatever runs the network merges both; that copies nothing.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from passk_jax.models.policy import Params, Policy


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weights:
    """The parameters of a policy.

    Attributes:
        frozen: never donated, never differentiated; empty in full fine-tuning.
        trained: the others.
    """

    frozen: Params
    trained: Params

    @classmethod
    def split(cls, policy: Policy, params: Mapping[str, Any]) -> 'Weights':
        """Splits parameters, or their shapes, as the policy says."""
        frozen = {name: x for name, x in params.items() if name in policy.frozen}
        trained = {name: x for name, x in params.items() if name not in frozen}
        return cls(frozen, trained)

    @property
    def merged(self) -> Params:
        """All parameters, for the functions of policy.py."""
        return self.frozen | self.trained

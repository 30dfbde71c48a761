"""Splits the weights of a policy into frozen and trained ones.

``Policy.frozen`` names the frozen weights. Gradients, optimizer, checkpoints and
digests have only the trained weights. Code that runs the network merges both, without a
copy. In full fine-tuning nothing is frozen; with adapters (lora.py), the whole base is.
"""

import dataclasses
from typing import Generic

import jax

from passk_jax.models.policy import Params, Policy
from passk_jax.models.transformer import Transformer
from passk_jax.models.vision import is_of_tower
from passk_jax.types import Images, Leaf, Prompts


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
        """Merges all parameters, for the functions of policy.py."""
        return self.frozen | self.trained


def split_weights(policy: Policy, params: dict[str, Leaf]) -> Weights[Leaf]:
    """Splits parameters, or their shapes, by ``policy.frozen``."""
    frozen = {name: x for name, x in params.items() if name in policy.frozen}
    trained = {name: x for name, x in params.items() if name not in frozen}
    return Weights(frozen, trained)


def reference_params(policy: Policy, trained: dict[str, Leaf]) -> dict[str, Leaf]:
    """Returns the parameters of a KL penalty's reference that are not frozen.

    Without adapters, these are all trained parameters, as before step 0. With adapters
    there are none: the reference is the base, which needs no further memory.
    """
    return {} if policy.arch.lora else trained


def read_pictures(policy: Policy, params: Params, prompts: Prompts) -> Prompts:
    """Replaces the pictures of a batch by their features, if the tower is frozen.

    Sampler and learner then share the features. A tower that is trained, even in part,
    reads the pictures each time the policy runs.
    """
    if prompts.images is None or not reads_once(policy):
        return prompts
    features = _read(policy, params, prompts.images)
    return dataclasses.replace(prompts, images=None, features=features)


def reads_once(policy: Policy) -> bool:
    """Returns whether the policy has a tower, and all of it is frozen."""
    names = Transformer.parameters(policy.arch)
    tower = {name for name in names if is_of_tower(name)}
    return bool(tower) and tower <= policy.frozen


def picture_features(policy: Policy, params: Params, images: Images) -> jax.Array:
    """Computes the features ``[P, K, M, D]`` of pictures (vision.py)."""
    tower = policy.bind(params).vision
    assert tower is not None  # Only a model with a tower gets pictures.
    return tower(images)


_read = jax.jit(picture_features, static_argnums=0)

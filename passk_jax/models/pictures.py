"""Places the pictures of prompts: positions, and the features of their tokens.

The positions after a picture continue after its longer side, so a prompt with pictures
may end at a position below its length. In a response all three parts of a position are
equal, so one number is enough.
"""

import dataclasses

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.models.vision import VisionTower
from passk_jax.types import Prompts


@dataclasses.dataclass(frozen=True)
class Placed:
    """The features of a batch's pictures, and their places in the prompts.

    Attributes:
        features: from :class:`VisionTower`.
        is_picture: whether a token belongs to a picture.
        number: the token's index among the prompt's picture tokens.
    """

    features: Float[Array, 'P K M D']
    is_picture: Bool[Array, 'P S']
    number: Int[Array, 'P S']

    def at(self, index: int | jax.Array) -> Float[Array, 'P 1 S D']:
        """Returns feature ``index`` of each picture token; 0 for other tokens."""
        of_index = jax.lax.dynamic_index_in_dim(self.features, index, 1, keepdims=False)
        values = jnp.take_along_axis(of_index, self.number[..., None], axis=1)
        return jnp.where(self.is_picture[..., None], values, 0)[:, None]

    def replace(self, x: Float[Array, 'P 1 S D']) -> Float[Array, 'P 1 S D']:
        """Replaces the embeddings of picture tokens by their first features."""
        return jnp.where(self.is_picture[:, None, :, None], self.at(0), x)

    def add_after(
        self, layer: jax.Array, x: Float[Array, 'P 1 S D']
    ) -> Float[Array, 'P 1 S D']:
        """Adds the feature of a tap after this decoder layer, if there is one."""
        num_taps = self.features.shape[1] - 1
        if not num_taps:
            return x
        return jax.lax.cond(
            layer < num_taps, lambda x: x + self.at(layer + 1), lambda x: x, x
        )


def place(
    features: Float[Array, 'P K M D'], tokens: Int[Array, 'P S'], image_token: int
) -> Placed:
    """Assigns features to the picture tokens of prompts, in order."""
    is_picture = tokens == image_token
    number = jnp.cumsum(is_picture, axis=1) - 1
    return Placed(features, is_picture, jnp.clip(number, 0, features.shape[2] - 1))


def prompt_positions(prompts: Prompts) -> Int[Array, 'P 1 S *parts']:
    """Returns the position of each token, for ``rope.rotary``."""
    if prompts.positions is not None:
        return prompts.positions[:, None]
    P, S = prompts.tokens.shape
    return jnp.broadcast_to(jnp.arange(S), (P, 1, S))


def next_positions(prompts: Prompts) -> Int[Array, 'P'] | None:
    """Returns the position after each prompt; ``None``: it is the prompt's length."""
    if prompts.positions is None:
        return None
    last = (prompts.lengths - 1)[:, None]
    # The last token is text, so all parts of its position are equal.
    return jnp.take_along_axis(prompts.positions[..., 0], last, axis=1)[:, 0] + 1


def place_features(tower: VisionTower | None, prompts: Prompts) -> Placed | None:
    """Places the pictures' features; runs the tower if they are not yet computed."""
    features, images = prompts.features, prompts.images
    if features is None and images is None:
        return None
    assert tower is not None  # Only a model with a tower gets pictures.
    if images is not None:
        features = tower(images)
    assert features is not None
    return place(features, prompts.tokens, tower.vision.image_token)

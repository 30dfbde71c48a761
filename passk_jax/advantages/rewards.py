"""Reward transforms on ``[P, N]``: they change what is paid, not what is correct.

Metrics always use the verifier's ``correct``. A transform returns a second boolean
array, ``rewarded``, from which advantages are estimated.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key


def flip_wrong(
    rewards: Float[Array, 'P N'],
    correct: Bool[Array, 'P N'],
    *,
    fraction: float,
    keys: Key[Array, 'P'],
) -> tuple[Float[Array, 'P N'], Bool[Array, 'P N']]:
    """Pays some wrong responses like correct ones: Noise Rewards (sec:noise_entropy).

    The paper flips 10 %, 30 % or 50 % of the rewards of wrong responses. Here each
    wrong response is flipped independently with probability ``fraction``. The paper
    does not say whether its share is exact. An exact share could not be 10 % of three
    responses, and would tie a response's reward to the verdicts on others.

    Args:
        rewards: rewards of the verifier.
        correct: whether each response is correct.
        fraction: probability of a flip, in ``[0, 1]``.
        keys: one per problem, made from its id and consumed here, so that the flips do
            not depend on the problem's place in the batch.

    Returns:
        The rewards after the flips, and ``rewarded``: correct or flipped.
    """
    num_rollouts = rewards.shape[1]
    draws = jax.vmap(lambda key: jax.random.uniform(key, (num_rollouts,)))(keys)
    flipped = ~correct & (draws < fraction)
    return jnp.where(flipped, 1.0, rewards), correct | flipped

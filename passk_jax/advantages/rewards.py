"""Reward transforms on ``[P, N]``: what the policy is paid, not what is right.

Metrics are always computed from the verifier's ``correct``. A transform that changes
who is paid returns a second boolean channel, ``rewarded``, and the advantage is
estimated from that one: the binary Pass@k estimators read the channel they are given
as ``correct`` and never look at ``rewards``.
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
    """Noise Rewards: pays some of the wrong responses as if they were correct.

    (sec:noise_entropy; the paper flips 10 %, 30 % and 50 % of the rewards of negative
    responses.) Each wrong response is flipped on its own with probability
    ``fraction``. The paper does not say whether its proportion is exact; an exact one
    could not be 10 % of three wrong responses, and would make a response's reward
    depend on how the rest of its batch went.

    Args:
        rewards: rewards of the verifier.
        correct: whether each response is correct.
        fraction: probability of a flip, in ``[0, 1]``; 0 changes nothing.
        keys: one key for each problem, made from its id and consumed here: the flips
            do not depend on where in the batch a problem stands.

    Returns:
        The rewards after the flips, and ``rewarded``: ``correct`` or flipped, the
        channel to estimate advantages from. ``correct`` itself stays the one for
        metrics.
    """
    num_rollouts = rewards.shape[1]
    draws = jax.vmap(lambda key: jax.random.uniform(key, (num_rollouts,)))(keys)
    flipped = ~correct & (draws < fraction)
    return jnp.where(flipped, 1.0, rewards), correct | flipped

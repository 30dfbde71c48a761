"""Rewards less a baseline, without the sigma of their problem.

RLOO, Dr. GRPO and OPO subtract a mean of the problem's own rewards. Both forms of
REINFORCE++ then divide by one sigma of the whole step, so a problem's advantages depend
on other problems. All read ``rewards``, which may have any finite values; a NaN gives
NaN. Where the rewards that they center are all equal, advantages are 0.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.advantages.declarations import Inputs
from passk_jax.advantages.estimators import all_equal, pass_at_1


def rloo(inputs: Inputs) -> Float[Array, 'P N']:
    """Subtracts the mean of the other rewards: RLOO (arXiv:2402.14740); follows p.

        A_i = N / (N - 1) (R_i - mean R)

    It is unbiased at any N: a response is not in its own baseline. A single response
    gets 0.

    >>> rloo(Inputs(rewards=jnp.array([[3.0, 1.0], [0.1, 0.1]]))).tolist()
    [[2.0, -2.0], [0.0, 0.0]]
    """
    num_rollouts = inputs.rewards.shape[-1]
    return _centred(inputs.rewards) * (num_rollouts / max(num_rollouts - 1, 1))


def dr_grpo(inputs: Inputs) -> Float[Array, 'P N']:
    """Subtracts the mean reward: Dr. GRPO (arXiv:2503.20783); follows p (N - 1) / N.

    This is GRPO without its sigma. The paper's loss also divides by a constant length,
    which ``loss.aggregation`` does not.
    """
    return _centred(inputs.rewards)


def opo(inputs: Inputs) -> Float[Array, 'P N']:
    """Subtracts the length-weighted mean reward: OPO (arXiv:2505.23585).

        A_i = R_i - sum_j l_j R_j / sum_j l_j

    It follows p as N grows. A response is in its own baseline, which gives the gradient
    a relative bias of the order of 1 / N. The baseline has the least variance if
    the squared norm of a response's gradient is proportional to its length, and
    gradients are independent. With equal lengths this is Dr. GRPO.

    >>> rewards, lengths = jnp.array([[1.0, 0.0]]), jnp.array([[3, 1]])
    >>> opo(Inputs(rewards=rewards, lengths=lengths)).tolist()
    [[0.25, -0.75]]
    """
    return _centred(inputs.rewards, weights=inputs.lengths)


def reinforce_plus_plus(inputs: Inputs) -> Float[Array, 'P N']:
    """Treats the whole step as one group of GRPO: REINFORCE++ (arXiv:2501.03262).

        A_i = (R_i - mean R) / sigma,    mean and sigma over all P N responses

    A problem that is always solved gets positive advantages, one that is never solved
    negative ones. It follows p, scaled by each step's sigma, and works with one
    response per problem. Each response counts once; verl and OpenRLHF count its tokens.

    >>> rewards = jnp.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    >>> reinforce_plus_plus(Inputs(rewards=rewards)).tolist()
    [[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]
    """
    step = Inputs(rewards=inputs.rewards.reshape(1, -1))
    return pass_at_1(step).reshape(inputs.rewards.shape)


def reinforce_plus_plus_baseline(inputs: Inputs) -> Float[Array, 'P N']:
    """Divides Dr. GRPO by the step's sigma: REINFORCE++-baseline (arXiv:2501.03262).

        A_i = B_i / sigma,    B_i = R_i - mean R,    sigma^2 = mean of B^2

    The mean of R is the problem's; that of B^2 covers all P N responses. Problems of a
    step are weighted as by Dr. GRPO, so it follows p, scaled by each step's sigma.
    Each response counts once; verl and OpenRLHF count its tokens.

    >>> rewards = jnp.array([[9.0, 1.0], [5.0, 5.0], [1.0, 1.0], [0.0, 0.0]])
    >>> reinforce_plus_plus_baseline(Inputs(rewards=rewards))[:2].tolist()
    [[2.0, -2.0], [0.0, 0.0]]
    """
    centered = _centred(inputs.rewards)
    # Scaled first, so that no square overflows or vanishes.
    largest = jnp.max(jnp.abs(centered))
    unit = centered / jnp.where(largest == 0, 1.0, largest)
    sigma = jnp.sqrt(jnp.mean(unit**2))
    return unit / jnp.where(largest == 0, 1.0, sigma)


def _centred(
    rewards: Float[Array, 'P N'], weights: Int[Array, 'P N'] | None = None
) -> Float[Array, 'P N']:
    """Subtracts the weighted mean; returns exactly 0 where all rewards are equal."""
    # Offsets are removed first: a large one would cost digits.
    above = rewards - jnp.min(rewards, axis=-1, keepdims=True)
    if weights is None:
        mean = jnp.mean(above, axis=-1, keepdims=True)
    else:
        shares = weights / jnp.sum(weights, axis=-1, keepdims=True)
        mean = jnp.sum(shares * above, axis=-1, keepdims=True)
    return jnp.where(all_equal(rewards), 0.0, above - mean)

"""Rewards less a baseline, without the sigma of their problem.

RLOO, Dr. GRPO and OPO subtract a mean of the problem's own rewards; they differ in
whose and how it is weighted. The two forms of REINFORCE++ then divide by one sigma of
all responses of the step, so that a problem's advantages depend on the other problems.
All of them read ``rewards``, which may have any finite values.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.advantages.declarations import Inputs
from passk_jax.advantages.estimators import all_equal, pass_at_1


def rloo(inputs: Inputs) -> Float[Array, 'P N']:
    """RLOO (arXiv:2402.14740): rewards less the mean of the others; follows p.

        A_i = N / (N - 1) (R_i - mean R)

    Unbiased at any N: the baseline of a response does not depend on it. A problem
    whose rewards are all equal gets 0, and so does a single response. A NaN among the
    rewards gives NaN.

    >>> rloo(Inputs(rewards=jnp.array([[3.0, 1.0], [0.1, 0.1]]))).tolist()
    [[2.0, -2.0], [0.0, 0.0]]
    """
    num_rollouts = inputs.rewards.shape[-1]
    return _centred(inputs.rewards) * (num_rollouts / max(num_rollouts - 1, 1))


def dr_grpo(inputs: Inputs) -> Float[Array, 'P N']:
    """Dr. GRPO (arXiv:2503.20783): rewards less their mean; follows p (N - 1) / N.

    GRPO without its sigma. A problem whose rewards are all equal gets 0, and a NaN
    among the rewards gives NaN. The paper's loss also divides by a constant length,
    which ``loss.aggregation`` does not.
    """
    return _centred(inputs.rewards)


def opo(inputs: Inputs) -> Float[Array, 'P N']:
    """OPO (arXiv:2505.23585): rewards less their mean weighted by length.

        A_i = R_i - sum_j l_j R_j / sum_j l_j

    It follows p as N grows: a response is in its own baseline, which biases the
    gradient by a share of the order of 1 / N. The baseline has the least variance if
    the gradient of a response has a squared norm that is proportional to its length,
    and does not depend on the gradients of others. Where all responses are as long,
    this is Dr. GRPO. A problem whose rewards are all equal gets 0, and a NaN among the
    rewards gives NaN.

    >>> rewards, lengths = jnp.array([[1.0, 0.0]]), jnp.array([[3, 1]])
    >>> opo(Inputs(rewards=rewards, lengths=lengths)).tolist()
    [[0.25, -0.75]]
    """
    return _centred(inputs.rewards, weights=inputs.lengths)


def reinforce_plus_plus(inputs: Inputs) -> Float[Array, 'P N']:
    """REINFORCE++ (arXiv:2501.03262): GRPO with the whole step as one group.

        A_i = (R_i - mean R) / sigma,    mean and sigma over all P N responses

    The mean is that of the step, so a response to a problem that is always solved has a
    positive advantage, and one to a problem that is never solved a negative one. It
    follows p, scaled by the sigma of each step, and needs no second response to a
    problem. A step whose rewards are all equal gets 0.
    A response counts once here; verl and OpenRLHF count its tokens.

    >>> rewards = jnp.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    >>> reinforce_plus_plus(Inputs(rewards=rewards)).tolist()
    [[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]
    """
    step = Inputs(rewards=inputs.rewards.reshape(1, -1))
    return pass_at_1(step).reshape(inputs.rewards.shape)


def reinforce_plus_plus_baseline(inputs: Inputs) -> Float[Array, 'P N']:
    """REINFORCE++-baseline (arXiv:2501.03262): Dr. GRPO over one sigma of the step.

        A_i = B_i / sigma,    B_i = R_i - mean R,    sigma^2 = mean of B^2

    The mean R is that of the problem, and that of B^2 is over all P N responses. Among
    the problems of a step the weights are those of Dr. GRPO, so it follows p, scaled by
    the sigma of each step; the scale of the rewards is lost. A problem whose rewards
    are all equal gets 0. A response counts once here; verl and OpenRLHF count its
    tokens.

    >>> rewards = jnp.array([[9.0, 1.0], [5.0, 5.0], [1.0, 1.0], [0.0, 0.0]])
    >>> reinforce_plus_plus_baseline(Inputs(rewards=rewards))[:2].tolist()
    [[2.0, -2.0], [0.0, 0.0]]
    """
    centered = _centred(inputs.rewards)
    # Neither a large nor a tiny square overflows or vanishes.
    largest = jnp.max(jnp.abs(centered))
    unit = centered / jnp.where(largest == 0, 1.0, largest)
    sigma = jnp.sqrt(jnp.mean(unit**2))
    return unit / jnp.where(largest == 0, 1.0, sigma)


def _centred(
    rewards: Float[Array, 'P N'], weights: Int[Array, 'P N'] | None = None
) -> Float[Array, 'P N']:
    """Rewards less their weighted mean; exactly 0 where all are equal."""
    # Above the lowest, so that a large offset costs no digits.
    above = rewards - jnp.min(rewards, axis=-1, keepdims=True)
    if weights is None:
        mean = jnp.mean(above, axis=-1, keepdims=True)
    else:
        shares = weights / jnp.sum(weights, axis=-1, keepdims=True)
        mean = jnp.sum(shares * above, axis=-1, keepdims=True)
    return jnp.where(all_equal(rewards), 0.0, above - mean)

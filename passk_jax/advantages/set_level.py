"""Advantages of sets: the gradient of the expected value of k responses together.

    F = E[ f(S) ],    S = k responses to one problem
    A_i = k (mean of f over the k-subsets with i - mean over those without i)

On policy, ``E[(1/N) sum_i A_i grad log pi(y_i)]`` is the gradient of F for any f and
any k < N: the mean over the sets without i is a baseline independent of i. With f
the highest reward, 0 or 1, this is ``canonical_k``. No set is formed: the mean over the
subsets with i has a closed form, and that over the others follows from it.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from passk_jax.advantages import estimators
from passk_jax.advantages.objective_curves import check_canonical, partners


def check_set_level(*, num_rollouts: int, k: int, set_value: str) -> None:
    """Raises ValueError unless ``1 <= k < num_rollouts``, whatever the value."""
    del set_value
    check_canonical(num_rollouts=num_rollouts, k=k)


def set_level(
    rewards: Float[Array, 'P N'],
    *,
    answers: Int[Array, 'P N'],
    k: int,
    set_value: str,
) -> Float[Array, 'P N']:
    """Follows the expected value of k responses together, such as their diversity.

        max              the highest reward (arXiv:2606.06080); of rewards of 0 and 1,
                         pass@k: ``canonical_k``
        mean_distinct    the mean reward times the share of distinct answers: the
                         polychromic objective (arXiv:2509.25424), over all
                         k-subsets where its authors draw some

    The advantages are exactly 0 if every k-subset has the highest reward, and, for
    ``mean_distinct``, if rewards are equal and every answer is equally frequent. A
    wrong answer is an answer too, and so is a missing one.

    Args:
        rewards: as for every estimator.
        answers: equal numbers for equal answers to a problem.
        k: size of a set, below N.
        set_value: ``'max'`` or ``'mean_distinct'``.
    """
    num_rollouts = rewards.shape[-1]
    # From the mean over all subsets to that over those without the response.
    scale = k * num_rollouts / (num_rollouts - k)
    if set_value == 'max':
        ordered = jnp.sort(rewards, axis=-1)
        gain, loss = estimators.maximum_gains(jnp.diff(ordered, axis=-1), k=k)
        flat = estimators.all_reach_maximum(ordered, k=k)
        by_rank = jnp.where(flat, 0.0, scale * (gain - loss))
        return estimators.at_own_rank(by_rank, ordered, rewards)
    camps = jnp.sum(answers[:, :, None] == answers[:, None, :], axis=-1)
    value = _mean_distinct(rewards, answers, camps, k=k)
    centered = value - jnp.mean(value, axis=-1, keepdims=True)
    flat = estimators.all_equal(rewards) & estimators.all_equal(camps)
    return jnp.where(flat, 0.0, scale * centered)


def _mean_distinct(
    rewards: Float[Array, 'P N'],
    answers: Int[Array, 'P N'],
    camps: Int[Array, 'P N'],
    *,
    k: int,
) -> Float[Array, 'P N']:
    """The mean of ``mean_distinct`` over the k-subsets with each response.

    The product is a sum over pairs of a member j and an answer a that the set has:

        k^2 f(S) = sum_j sum_a R_j [j in S] [a in S]

    Given that i is in S, the chance that S has j and lacks a is that of drawing the
    others from N less the camp of a, those that gave it; it is 0 if i or j did.

    Args:
        rewards, answers, k: as for :func:`set_level`.
        camps: how many responses gave each response's answer.
    """
    num_rollouts = rewards.shape[-1]
    # By the size of the camp that is lacking: given i, and given i along with j.
    lacking = np.zeros((2, num_rollouts + 1))
    lacking[0, :-1] = partners(num_rollouts, k)[0][::-1]
    pair = (k - 1) / (num_rollouts - 1)
    if k > 1:
        lacking[1, :-2] = pair * partners(num_rollouts - 1, k - 1)[0][::-1]
    alone, along = jnp.asarray(lacking, jnp.float32)[:, camps]

    def over_answers(of_each: Float[Array, 'P N']) -> Float[Array, 'P 1']:
        return jnp.sum(of_each / camps, axis=-1, keepdims=True)

    count = over_answers(jnp.ones_like(rewards))
    own = rewards * (count - over_answers(alone) + alone)
    others = jnp.sum(rewards, axis=-1, keepdims=True) - rewards
    paid = rewards * along
    same = answers[:, :, None] == answers[:, None, :]
    camp = jnp.sum(jnp.where(same, paid[:, None, :], 0.0), axis=-1)
    of_others = others * (count * pair - over_answers(along) + along)
    of_others += jnp.sum(paid, axis=-1, keepdims=True) - camp
    return (own + of_others) / k**2

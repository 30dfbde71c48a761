"""Advantages of sets: the gradient of the expected value of k responses together.

    F = E[ f(S) ],    S = k responses to one problem
    A_i = k (mean of f over the k-subsets with i - mean over those without i)

On policy, ``E[(1/N) sum_i A_i grad log pi(y_i)]`` is the gradient of F for any f and
any k < N, because the mean over the sets without i is a baseline that does not depend
on i. With the highest of rewards 0 and 1 as f, this is ``canonical_k``. The difference
of the means has a closed form, so no set is formed.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from passk_jax.advantages import estimators
from passk_jax.advantages.declarations import Inputs
from passk_jax.advantages.objective_curves import check_canonical, partners


def check_set_level(*, num_rollouts: int, k: int, set_value: str) -> None:
    """Checks that ``1 <= k < num_rollouts``, whatever the value of a set."""
    del set_value
    check_canonical(num_rollouts=num_rollouts, k=k)


def set_level(inputs: Inputs, *, k: int, set_value: str) -> Float[Array, 'P N']:
    """Follows the expected value of k responses together, such as their diversity.

        max              the highest reward (arXiv:2606.06080); for rewards of 0 and 1,
                         pass@k: ``canonical_k``
        mean_distinct    the mean reward times the share of distinct answers: the
                         polychromic objective (arXiv:2509.25424), over all
                         k-subsets where its authors draw some

    All advantages are exactly 0 if every k-subset has the highest reward; with
    ``mean_distinct``, if rewards are equal and every answer is equally frequent. A
    wrong answer counts as an answer, and so does a missing one. ``mean_distinct`` is
    meant for rewards of 0 or more: more distinct answers make a negative mean lower. It
    also loses digits to a large common offset: for rewards of 1000 and 1001, errors are
    1e-3.

    Args:
        k: size of a set, below N.
        set_value: ``'max'`` or ``'mean_distinct'``.
    """
    rewards, answers = inputs.rewards, inputs.answers
    num_rollouts = rewards.shape[-1]
    if set_value == 'max':
        ordered = jnp.sort(rewards, axis=-1)
        gain, loss = estimators.maximum_gains(jnp.diff(ordered, axis=-1), k=k)
        flat = estimators.all_reach_maximum(ordered, k=k)
        # The baseline is the mean over the subsets without i, not over all.
        scale = k * num_rollouts / (num_rollouts - k)
        by_rank = jnp.where(flat, 0.0, scale * (gain - loss))
        return estimators.undo_sort(by_rank, ordered, rewards)
    camps = jnp.sum(answers[:, :, None] == answers[:, None, :], axis=-1)
    flat = estimators.all_equal(rewards) & estimators.all_equal(camps)
    return jnp.where(flat, 0.0, _mean_distinct(rewards, answers, camps, k=k))


def _mean_distinct(
    rewards: Float[Array, 'P N'],
    answers: Int[Array, 'P N'],
    camps: Int[Array, 'P N'],
    *,
    k: int,
) -> Float[Array, 'P N']:
    """Computes k times the mean of ``mean_distinct`` with i, less that without i.

    It is a sum over pairs of a member j and an answer a of the set:

        k^2 f(S) = sum_j sum_a R_j [j in S] [a in S]

    The *camp* of a is the responses with that answer; ``camps`` has the size of each
    response's camp. A set lacks a if no member is in the camp. So the chance of a pair
    is the chance of j (1 for j = i; for others ``(k - 1) / (N - 1)`` with i and ``k /
    (N - 1)`` without), less the chance that j is there and a is not. The function
    subtracts chance by chance, so that few digits cancel.
    """
    num_others = rewards.shape[-1] - 1
    table = jnp.asarray(_lacking(num_others + 1, k), jnp.float32)
    same = answers[:, :, None] == answers[:, None, :]
    # _lacking for the camp of each response; without i, its camp is one smaller.
    alone, change, _ = table[:, camps]
    joined = table[2][camps - 1]

    def over_answers(of_each: Float[Array, 'P N']) -> Float[Array, 'P 1']:
        return jnp.sum(of_each / camps, axis=-1, keepdims=True)

    def elsewhere(of_each: Float[Array, 'P N']) -> Float[Array, 'P N']:
        """Sums over the responses with other answers."""
        return jnp.sum(jnp.where(same, 0.0, of_each[:, None, :]), axis=-1)

    other_rewards = jnp.sum(rewards, axis=-1, keepdims=True) - rewards
    count = over_answers(jnp.ones_like(rewards))
    self_credit = count * (rewards - other_rewards / num_others)
    self_credit -= rewards * (over_answers(alone) - alone)
    of_others = elsewhere(rewards * change) - other_rewards * (
        over_answers(change) - change
    )
    return (self_credit + of_others + elsewhere(rewards) * joined) / k


def _lacking(num_rollouts: int, k: int) -> np.ndarray:
    """Computes chances that a set lacks a camp of 0, 1, ... N responses.

    Returns:
        ``[3, N + 1]`` float64, the chances that a set with i lacks the camp; that a set
        with i has j but lacks the camp, less the same without i; and that a set without
        i has j but lacks the camp. ``k < N``, so there are at least two responses.
    """
    N = num_rollouts
    table = np.zeros((3, N + 1))
    table[0, :-1] = partners(N, k)[0][::-1]
    beyond = np.zeros((2, N + 1))
    if k > 1:
        beyond[0, :-2] = (k - 1) / (N - 1) * partners(N - 1, k - 1)[0][::-1]
    beyond[1, :-2] = k / (N - 1) * partners(N - 1, k)[0][::-1]
    table[1], table[2] = beyond[0] - beyond[1], beyond[1]
    return table

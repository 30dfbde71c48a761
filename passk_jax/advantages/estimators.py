"""Estimators: ``[P, N]`` rewards to ``[P, N]`` advantages.

In order: Pass@1 (GRPO), two that sample groups, Pass@k of real-valued rewards,
adaptive, two that read log-probabilities, and :func:`along_curve`, which turns a curve
into an estimator. ``baselines.py``, ``set_level.py`` and ``history.py`` have others;
``table.py`` lists all. Callers go through ``make.py``.

**Every estimator** takes :class:`Inputs`, with the arrays that its row reads, and
perhaps the group size ``k``. Rewards and their differences are finite in float32. It
returns ``[P, N]`` advantages.

**Rewards or verdicts.** ``correct`` is the verifier's boolean. ``rewards`` is what the
policy is paid; it may be -1/+1, shaped, or include a format bonus. A Pass@k advantage
asks whether a group has a correct response, so designs with binary group rewards read
``correct`` alone: a group's reward (Eq. passk, the maximum) is 1 if any member is
correct. ``pass_at_1``, ``pass_at_k_real``, ``set_level`` and those of ``baselines.py``
read ``rewards``. Adding a constant to the rewards changes none of these, except
``set_level`` with ``mean_distinct``. A factor a > 0 multiplies ``set_level``, ``rloo``,
``dr_grpo`` and ``opo`` by a; the others have a sigma, which removes it.

**Problems without a signal.** A problem whose groups all have one reward gets exactly
0. Integer counts and tests of equality decide that; no sigma gets an epsilon.
The exceptions are ``reinforce_plus_plus``, ``set_level``, the two that read
log-probabilities, and some of ``objective_curves.py``; their docstrings say so.
``pass_at_k_real`` also compares its sigma with 0, because it may vanish in float32.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from passk_jax.advantages import curves
from passk_jax.advantages.declarations import Inputs


def pass_at_1(inputs: Inputs) -> Float[Array, 'P N']:
    """Divides centered rewards by their population sigma: GRPO (Eq. grpo_adv).

    With rewards 0 and 1 it follows ``2 arcsin sqrt(p)`` as N grows. Equal rewards give
    0; a NaN gives NaN. Rewards are first mapped to [0, 1], so that neither a large
    offset nor a tiny spread costs digits.

    >>> pass_at_1(Inputs(rewards=jnp.array([[1.0, 0.0], [0.7, 0.7]]))).tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """
    constant = all_equal(inputs.rewards)
    unit = _to_unit_interval(inputs.rewards, constant)
    centered = unit - jnp.mean(unit, axis=-1, keepdims=True)
    variance = jnp.mean(centered**2, axis=-1, keepdims=True)
    sigma = jnp.sqrt(jnp.where(constant, 1.0, variance))
    return jnp.where(constant, 0.0, centered / sigma)


def full_sampling(inputs: Inputs, *, k: int) -> Float[Array, 'P N']:
    """Groups k consecutive responses: full sampling (Algorithm code:full_sampling).

    Each member gets its group's advantage, which is GRPO's over the ``N // k`` group
    rewards. So it follows the objective of ``pass_at_k`` as groups are added. The last
    ``N mod k`` responses, which the paper discards, get 0; the loss still counts their
    tokens. With a single group all advantages are 0.
    """
    num_problems, num_rollouts = inputs.correct.shape
    num_groups = num_rollouts // k
    groups = inputs.correct[:, : num_groups * k].reshape(num_problems, num_groups, k)
    of_groups = _group_advantages(jnp.any(groups, axis=-1))
    of_members = jnp.repeat(of_groups, k, axis=-1)
    return jnp.pad(of_members, ((0, 0), (0, num_rollouts - num_groups * k)))


def bootstrap_sampling(
    inputs: Inputs, *, k: int, num_groups: int, aggregation: str
) -> Float[Array, 'P N']:
    """Draws random groups: bootstrap sampling (Algorithm code:bootstrap_sampling).

        A_i = sum over groups j that contain i of A^j

    (Eq. bootstrap_sampling_group_to_response). A group is k distinct responses, drawn
    independently of other groups. Its advantage is GRPO's over all groups.

    The printed sum is about ``num_groups * k / N`` times the analytical advantage,
    which is a mean. At the paper's ``num_groups = N``, replacing the sum by the mean
    changes the step size by a factor of k. ``aggregation='mean'`` averages over the
    groups that contain the response, and tends to ``pass_at_k`` as groups are added.

    Args:
        inputs: a problem's key is made from its id, so that groups do not depend on the
            problem's place in the batch; it is consumed here.
        num_groups: groups per problem; 0: N, as in the paper's runs.
        aggregation: ``'sum'`` as printed, or ``'mean'``. A response in no group gets 0.
    """
    num_rollouts = inputs.correct.shape[1]
    num_groups = num_groups or num_rollouts

    def draw_groups(problem_key: Key[Array, '']) -> Bool[Array, 'M N']:
        # The k largest of N random words are a uniform k-subset.
        words = jax.random.bits(problem_key, (num_groups, num_rollouts))
        _, members = jax.lax.top_k(words, k)
        group = jnp.arange(num_groups)[:, None]
        return jnp.zeros(words.shape, bool).at[group, members].set(True)

    member = jax.vmap(draw_groups)(inputs.key)
    passed = jnp.any(member & inputs.correct[:, None, :], axis=-1)
    of_groups = _group_advantages(passed)
    total = jnp.sum(jnp.where(member, of_groups[:, :, None], 0.0), axis=1)
    if aggregation == 'sum':
        return total
    return total / jnp.maximum(jnp.sum(member, axis=1), 1)


def pass_at_k_real(inputs: Inputs, *, k: int) -> Float[Array, 'P N']:
    """Computes the analytical Pass@k advantages of real-valued rewards.

    A group's reward is its maximum (Eq. passk), over all C(N, k) groups; a response's
    advantage is the mean normalized reward of its groups. With sorted rewards, gaps
    ``d_j = x_(j+1) - x_(j)`` and ``F_j = C(j, k) / C(N, k)`` (the probability that a
    group's maximum is at most ``x_(j)``), the response of rank i has

        A_i = (sum_{j<i} d_j F_j  -  sum_{j>=i} d_j F_j (N - j) / j) / sigma
        sigma^2 = sum_j (F_j - F_(j-1)) (x_(j) - mean of the group maximum)^2

    so no group is formed. Equal rewards get equal advantages, bit for bit. On
    two-valued rewards this is ``pass_at_k``; at ``k = 1`` it is ``pass_at_1``. All
    advantages are 0 if fewer than k responses are below the maximum, because every
    group then reaches it. A NaN gives NaN.

    The paper derives the two-valued case only (sec:passk_w_analytical_derivation). This
    is the same definition, with Eq. passk in place of counts. It follows no objective
    of the rewards, as each problem has its own sigma.

    >>> rewards = jnp.array([[0.3, 0.1, 0.1, 0.1]])
    >>> round(float(pass_at_k_real(Inputs(rewards=rewards), k=2)[0, 0]), 5)
    1.0
    """
    rewards = inputs.rewards
    inside, _ = curves.group_odds(num_rollouts=rewards.shape[-1], k=k)
    largest_is = jnp.asarray(np.diff(inside), jnp.float32)
    ordered = jnp.sort(rewards, axis=-1)
    flat = all_reach_maximum(ordered, k=k)
    # A group has k members, so the lowest k - 1 are no group's maximum.
    reached = jnp.maximum(ordered, ordered[:, k - 1 : k])
    spread = reached[:, -1:] - reached[:, :1]
    # Divide after the difference: in a fused x / spread - y / spread, equal rewards
    # may get a gap.
    gaps = jnp.diff(reached, axis=-1) / jnp.where(flat, 1.0, spread)
    gain, loss = maximum_gains(gaps, k=k)
    # The mean of the group maximum lies gain[-1] below the highest reward.
    below_highest = jnp.pad(_sum_from(gaps), ((0, 0), (0, 1)))
    variance = jnp.sum(
        largest_is * (below_highest - gain[:, -1:]) ** 2, axis=-1, keepdims=True
    )
    # With hundreds of responses, the share of groups below the maximum may round to 0.
    flat |= variance == 0
    sigma = jnp.sqrt(jnp.where(flat, 1.0, variance))
    by_rank = jnp.where(flat, 0.0, (gain - loss) / sigma)
    return undo_sort(by_rank, ordered, rewards)


def all_reach_maximum(ordered: Float[Array, 'P N'], *, k: int) -> Bool[Array, 'P 1']:
    """Returns whether every k-group of sorted rewards has the highest reward."""
    # `~(a >= b)` and not `a < b`: a NaN counts as below, so that the result shows it.
    return jnp.sum(~(ordered >= ordered[:, -1:]), axis=-1, keepdims=True) < k


def maximum_gains(
    gaps: Float[Array, 'P N-1'], *, k: int
) -> tuple[Float[Array, 'P N'], Float[Array, 'P N']]:
    """Computes the two sums of :func:`pass_at_k_real` for every rank.

    Their difference is the mean maximum of the k-groups with a response, less that of
    all k-groups; subtracting the means themselves would lose digits. ``gaps`` are those
    between neighbours of the sorted rewards.
    """
    num_rollouts = gaps.shape[-1] + 1
    inside, _ = curves.group_odds(num_rollouts=num_rollouts, k=k)
    ranks = np.arange(1, num_rollouts)
    at_most = jnp.asarray(inside[1:-1], jnp.float32)
    to_lose = jnp.asarray(inside[1:-1] * (num_rollouts / ranks - 1), jnp.float32)
    gain = jnp.pad(jnp.cumsum(gaps * at_most, axis=-1), ((0, 0), (1, 0)))
    return gain, jnp.pad(_sum_from(gaps * to_lose), ((0, 0), (0, 1)))


def _sum_from(values: Float[Array, 'P M']) -> Float[Array, 'P M']:
    """Sums each value and all that follow it."""
    return jax.lax.cumsum(values, axis=1, reverse=True)


def undo_sort(
    by_rank: Float[Array, 'P N'],
    ordered: Float[Array, 'P N'],
    rewards: Float[Array, 'P N'],
) -> Float[Array, 'P N']:
    """Undoes the sort; equal rewards get one value, bit for bit."""
    # Every response takes the value of the last of equal rewards.
    count_up_to = jax.vmap(functools.partial(jnp.searchsorted, side='right'))
    last_equal = count_up_to(ordered, rewards) - 1
    return jnp.take_along_axis(by_rank, last_equal, axis=-1)


def adaptive(
    inputs: Inputs, *, k: int, high_entropy_fraction: float
) -> Float[Array, 'P N']:
    """Applies Pass@1 to problems of high entropy, else Pass@k (sec:adaptive_training).

    Problems are ranked by the mean entropy of their responses. The top share,
    high-exploration problems, gets the Pass@1 curve and follows its objective, the
    others those of Pass@k.

    The ranking covers the given batch, so call this on a whole step, not on
    micro-batches. The share is rounded to whole problems, halves up; of equal entropies
    the earlier row ranks higher. The paper says neither which batch is ranked nor how
    it rounds. A NaN entropy gives NaN.

    Args:
        high_entropy_fraction: the share of high-exploration problems, in ``[0, 1]``;
            one half in the paper.
    """
    num_problems, mean_entropy = len(inputs.correct), inputs.mean_entropy
    num_high = math.floor(high_entropy_fraction * num_problems + 0.5)
    ranking = jnp.argsort(-mean_entropy, stable=True)
    high = jnp.zeros(num_problems, bool).at[ranking[:num_high]].set(True)
    advantages = jnp.where(
        high[:, None],
        along_curve(inputs, curve=curves.pass_at_1),
        along_curve(inputs, curve=curves.pass_at_k, k=k),
    )
    return jnp.where(jnp.isnan(mean_entropy)[:, None], jnp.nan, advantages)


def unlikeliness(inputs: Inputs, *, rank_penalty: float) -> Float[Array, 'P N']:
    """Pays likely successes less: GRPO with unlikeliness reward (arXiv:2506.02355).

        R_i = 1 - rank_penalty (share of the N responses less likely than i)

    for a correct response, and 0 for a wrong one. As in the authors' code, the mean
    log-probability of its tokens measures how likely a response is. Unlike there,
    equally likely responses share a rank, and sigma is the population's. If all
    responses are correct, GRPO scales the penalties alone to advantages of the usual
    size. It follows no objective of p. A NaN gives NaN.

    Args:
        rank_penalty: nearly the share of its reward that the likeliest response loses.
    """
    likely = inputs.log_probs / inputs.lengths
    less_likely = jnp.mean(likely[:, None, :] < likely[:, :, None], axis=-1)
    paid = jnp.where(inputs.correct, 1.0 - rank_penalty * less_likely, 0.0)
    return pass_at_1(Inputs(rewards=jnp.where(jnp.isnan(likely), jnp.nan, paid)))


def differential_smoothing(
    inputs: Inputs, *, smoothing_correct: float, smoothing_wrong: float
) -> Float[Array, 'P N']:
    """Smooths successes and sharpens failures of GRPO (arXiv:2511.19942).

        A_i = GRPO_i - smoothing_correct log_prob_i    for a correct response
        A_i = GRPO_i + smoothing_wrong log_prob_i      for a wrong one

    Log-probabilities are at most 0, so an unlikely response gets a larger advantage if
    it is correct, and a smaller one if it is wrong. If all responses are correct, or
    all wrong, only these terms remain. It follows no objective of p.

    Form and defaults are those of MaxRL's code: the mean over a response's tokens,
    added after the division by sigma. The paper has log pi(y | x) of a whole response,
    which grows with its length. That code takes the learner's log-probabilities; we
    take the sampler's.

    Args:
        smoothing_correct, smoothing_wrong: advantage per nat of a token.
    """
    likely = inputs.log_probs / inputs.lengths
    bonus, penalty = -smoothing_correct * likely, smoothing_wrong * likely
    added = jnp.where(inputs.correct, bonus, penalty)
    return along_curve(inputs, curve=curves.pass_at_1) + added


def along_curve(
    inputs: Inputs, *, curve: Callable[..., curves.Curve], **params: Any
) -> Float[Array, 'P N']:
    """Gives each response the value of its problem's curve."""
    correct = inputs.correct
    num_correct = jnp.sum(correct, axis=-1)
    positive, negative = curve(num_correct, num_rollouts=correct.shape[-1], **params)
    return jnp.where(correct, positive[:, None], negative[:, None])


def all_equal(values: Array) -> Bool[Array, 'P 1']:
    """Returns whether all of a problem's values are equal; a NaN equals nothing."""
    return jnp.all(values == values[:, :1], axis=-1, keepdims=True)


def _group_advantages(passed: Bool[Array, 'P M']) -> Float[Array, 'P M']:
    """Computes GRPO over groups, with reward 1 for those that passed."""
    return along_curve(Inputs(correct=passed), curve=curves.pass_at_1)


def _to_unit_interval(
    rewards: Float[Array, 'P N'], flat: Bool[Array, 'P 1']
) -> Float[Array, 'P N']:
    """Maps each row to [0, 1], except rows marked as flat."""
    lowest = jnp.min(rewards, axis=-1, keepdims=True)
    spread = jnp.max(rewards, axis=-1, keepdims=True) - lowest
    return (rewards - lowest) / jnp.where(flat, 1.0, spread)

"""Curves with a known objective: each follows a function of the success probability.

A curve follows the objective F(p) of a problem's success probability p if the expected
policy gradient is the gradient of F, on policy. The derivative of F is the weight of
the curve (``curve_weight.py``). It holds at every N, unless the docstring says "as N
grows".

Arguments and result are those of **every curve** (``curves.py``). c responses are
correct and w = N - c wrong. A value that no response can get is 0: that of a correct
response where c = 0, and of a wrong one where w = 0.

**Not every curve is centered.** ``c positive + w negative`` is 0 for ``canonical_k``,
``mixture``, ``maxrl``, ``rs_grpo`` and ``f_grpo`` alone, and so are the advantages of a
problem whose responses are all correct or all wrong. Most others move the policy on
such problems too, as their docstrings say, and dynamic sampling keeps those problems.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from passk_jax.advantages.curves import Curve, check_group_size, group_odds
from passk_jax.errors import InputError


def check_canonical(*, num_rollouts: int, k: int) -> None:
    """Raises ValueError unless ``1 <= k < num_rollouts``."""
    check_group_size(num_rollouts=num_rollouts, k=k)
    if k == num_rollouts:
        raise InputError(
            f'{k=} must be smaller than {num_rollouts=} here: a group of all responses '
            f'leaves none for the baseline'
        )


def canonical_k(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """The centered curve that follows pass@k exactly, at any N (arXiv:2606.06080).

        q = C(w, k) / C(N, k)
        positive = k N / (N - k) q        negative = -(c / w) positive

    k times the mean maximum of the groups with the response less that of the groups
    without it. It is the only centered curve that follows pass@k; ``k = 1`` is RLOO.
    Without its sigma, ``pass_at_k`` is ``(N - k) / (k N)`` of this one.

    Raises ValueError unless ``1 <= k < N``.

    >>> positive, negative = canonical_k(jnp.array([0, 1, 2]), num_rollouts=3, k=2)
    >>> positive.tolist(), negative.tolist()
    ([0.0, 2.0, 0.0], [0.0, -1.0, 0.0])
    """
    check_canonical(num_rollouts=num_rollouts, k=k)
    return _indexed(num_correct, *_canonical(num_rollouts, k))


def check_mixture(*, num_rollouts: int, pass_weights: Sequence[float]) -> None:
    """Raises ValueError unless there are from 1 to ``num_rollouts - 1`` weights."""
    if num_rollouts == 1:
        raise InputError('num_rollouts=1 leaves no response for a baseline: take 2')
    if not 1 <= len(pass_weights) < num_rollouts:
        raise InputError(
            f'pass_weights={tuple(pass_weights)} must be from 1 to {num_rollouts - 1} '
            f'numbers: with {num_rollouts=}, only pass@k of smaller k have a baseline'
        )


def mixture(
    num_correct: Int[Array, '*P'], *, num_rollouts: int, pass_weights: Sequence[float]
) -> Curve:
    """The centered curve that follows any sum of pass@k, exactly and at any N.

        F(p) = sum_k a_k pass@k        A = sum_k a_k A_canonical_k

    Pass@k of k = 1, ..., N - 1 span the polynomials of a degree below N without a
    constant, so this is every objective that a centered curve can follow.

    Args:
        num_correct, num_rollouts: as for every curve.
        pass_weights: a_1, a_2, ...: fewer than N.

    Raises ValueError for no weight, or for N or more of them.
    """
    check_mixture(num_rollouts=num_rollouts, pass_weights=pass_weights)
    first, *more = [
        weight * np.stack(_canonical(num_rollouts, k))
        for k, weight in enumerate(pass_weights, start=1)
    ]
    positive, negative = sum(more, start=first)
    return _indexed(num_correct, positive, negative)


def pkpo(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """PKPO without a baseline (arXiv:2505.15201): N times the credit s; follows pass@k.

        positive = k        negative = k (1 - C(w-1, k-1) / C(N-1, k-1))

    N times the mean over all k-groups of [the response is in the group] times the
    group's maximum. It is not centered: it discourages no response, and where all are
    correct each gets k.
    """
    _, others_right = partners(num_rollouts, k)
    positive = np.full(num_rollouts + 1, float(k))
    negative = np.append(k * others_right[::-1], 0.0)
    return _indexed(num_correct, positive, negative)


def pkpo_loo(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """PKPO with its loo-1 baseline (arXiv:2505.15201): N times it; follows pass@k.

        positive = k C(w, k-1) / C(N-1, k-1)        negative = 0

    N times the mean over all k-groups of what the response adds to the group's maximum.
    The maximum of an empty group counts as 0, so at ``k = 1`` every correct response
    gets 1. It is not centered: wrong responses are not discouraged. It is 0 where all
    responses are wrong and, unless ``k = 1``, where all are correct.
    """
    others_wrong, _ = partners(num_rollouts, k)
    # Correct responses have w wrong ones beside them, for w up to N - 1.
    positive = np.append(0.0, k * others_wrong[::-1])
    return _indexed(num_correct, positive, np.zeros(num_rollouts + 1))


def leave_one_out_max(num_correct: Int[Array, '*P'], *, num_rollouts: int) -> Curve:
    """What a response adds to the best of N (arXiv:2503.19595); follows pass@N / N.

        positive = 1 if c = 1, else 0        negative = 0

    verl's ``grpo_passk`` is the square root of N times this, but for its epsilon. It is
    not centered, and all advantages are 0 unless exactly one response is correct.
    """
    check_group_size(num_rollouts=num_rollouts, k=1)
    positive = np.arange(num_rollouts + 1) == 1
    return _indexed(num_correct, positive, np.zeros(num_rollouts + 1))


def maxrl(num_correct: Int[Array, '*P'], *, num_rollouts: int) -> Curve:
    """MaxRL (arXiv:2602.02710): follows the sum of pass@j / j over j < N.

        positive = w / c        negative = -1        both 0 where c = 0

    That is ``(reward - mean) / mean``; the sum tends to log p, the likelihood, as N
    grows. It is also the sum of ``canonical_k / k`` over k < N.
    """
    check_group_size(num_rollouts=num_rollouts, k=1)
    correct = np.arange(num_rollouts + 1)
    wrong = num_rollouts - correct
    positive = wrong / np.maximum(correct, 1)
    return _indexed(num_correct, positive, np.where(correct > 0, -1.0, 0.0))


def maclaurin(num_correct: Int[Array, '*P'], *, num_rollouts: int, order: int) -> Curve:
    """The Maclaurin series of log p (MaxRL's code): the sum of pass@j / j, j <= order.

        positive = 1        negative = -sum_{j=2}^{order} C(w-1, j-1) / C(N-1, j-1)

    That sum is what it follows. It is not centered: where all responses are correct
    each gets 1, and where all are wrong each gets ``1 - order``. ``order = 1`` is
    REINFORCE without a baseline.

    Args:
        num_correct, num_rollouts: as for every curve.
        order: terms of the series, in ``[1, N]``; a ValueError otherwise.
    """
    check_group_size(num_rollouts=num_rollouts, k=order)
    negative = np.zeros(num_rollouts + 1)
    for j in range(2, order + 1):
        negative[:-1] -= partners(num_rollouts, j)[0][::-1]
    return _indexed(num_correct, np.ones(num_rollouts + 1), negative)


def rs_grpo(num_correct: Int[Array, '*P'], *, num_rollouts: int, beta: float) -> Curve:
    """RS-GRPO (arXiv:2509.24261): exp(beta reward) over its mean, less 1, over beta.

        E = exp(beta) - 1,    p = c / N
        positive = E (1 - p) / (1 + p E) / beta
        negative = -p E / (1 + p E) / beta

    It follows ``log(1 + E p) / beta`` as N grows: p for a small beta, and the reward of
    the best response for a large one.

    Args:
        num_correct, num_rollouts: as for every curve.
        beta: how much risk is sought, above 0.
    """
    check_group_size(num_rollouts=num_rollouts, k=1)
    correct = np.arange(num_rollouts + 1)
    accuracy = correct / num_rollouts
    # Numerator and denominator are divided by exp(beta), which may overflow.
    mean = np.where(correct > 0, accuracy + (1 - accuracy) * np.exp(-beta), 1.0)
    scale = -np.expm1(-beta) / beta / mean
    return _indexed(num_correct, scale * (1 - accuracy), -scale * accuracy)


def f_grpo(num_correct: Int[Array, '*P'], *, num_rollouts: int, gamma: float) -> Curve:
    """F-GRPO (arXiv:2602.06717): GRPO with a focal weight against easy problems.

        positive = (w / N)^gamma sqrt(w / c)        negative = -(c / w) positive

    Both are 0 where one kind is absent. As N grows, ``gamma = 0`` (GRPO) follows
    ``2 arcsin sqrt(p)`` and ``gamma = 1/2`` follows ``2 sqrt(p)``.

    Args:
        num_correct, num_rollouts: as for every curve.
        gamma: strength of the focal weight, 0 or more.
    """
    check_group_size(num_rollouts=num_rollouts, k=1)
    correct = np.arange(num_rollouts + 1)
    wrong = num_rollouts - correct
    positive = np.where(correct > 0, np.sqrt(wrong / np.maximum(correct, 1)), 0.0)
    positive = (wrong / num_rollouts) ** gamma * positive
    return _indexed(num_correct, positive, -correct / np.maximum(wrong, 1) * positive)


def nsr(num_correct: Int[Array, '*P'], *, num_rollouts: int) -> Curve:
    """Negative sample reinforcement (arXiv:2506.01347): follows p by its failures.

        positive = 0        negative = -1

    It is not centered: a problem whose responses are all wrong gives each of them -1,
    and one whose responses are all correct gives 0.
    """
    return w_reinforce(num_correct, num_rollouts=num_rollouts, weight=0.0)


def w_reinforce(
    num_correct: Int[Array, '*P'], *, num_rollouts: int, weight: float
) -> Curve:
    """W-REINFORCE (arXiv:2506.01347): successes count less; follows (1 + weight) p.

        positive = weight        negative = -1

    It is not centered: responses that are all wrong get -1 each, and responses that are
    all correct get ``weight``.

    Args:
        num_correct, num_rollouts: as for every curve.
        weight: the advantage of a correct response, 0 or more.
    """
    check_group_size(num_rollouts=num_rollouts, k=1)
    ones = np.ones(num_rollouts + 1)
    return _indexed(num_correct, weight * ones, -ones)


def _canonical(num_rollouts: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """``[N + 1]`` positive and negative of :func:`canonical_k`, float64."""
    inside, _ = group_odds(num_rollouts=num_rollouts, k=k)
    correct = np.arange(num_rollouts + 1)
    wrong = num_rollouts - correct
    positive = k * num_rollouts / (num_rollouts - k) * inside[wrong]
    return positive, -correct / np.maximum(wrong, 1) * positive


def partners(num_rollouts: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Odds that the k - 1 others in a response's group are all wrong, or are not.

    Returns:
        ``C(j, k-1) / C(N-1, k-1)`` and 1 less that, ``[N]`` float64, for j wrong ones
        among the other N - 1.
    """
    check_group_size(num_rollouts=num_rollouts, k=k)
    if k == 1:
        return np.ones(num_rollouts), np.zeros(num_rollouts)
    return group_odds(num_rollouts=num_rollouts - 1, k=k - 1)


def _indexed(
    num_correct: Int[Array, '*P'], positive: np.ndarray, negative: np.ndarray
) -> Curve:
    """Looks up c in ``[N + 1]`` tables; values that no response can get become 0.

    They are float64 where JAX has it: ``tabulation.py`` takes the gap of the two.
    """
    # Adding 0 leaves no -0.
    table = np.stack([positive, negative]).astype(np.float64) + 0.0
    table[0, 0] = table[1, -1] = 0.0
    advantages = jnp.asarray(table)[:, jnp.asarray(num_correct)]
    return advantages[0], advantages[1]

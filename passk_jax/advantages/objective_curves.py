"""Curves with a known objective, a function of the success probability p.

A curve *follows* the objective F(p) if, on policy, the expected policy gradient is the
gradient of F. The derivative of F is the curve's weight (``curve_weight.py``). This
holds at every N unless a docstring says "as N grows".

Arguments and results are those of **every curve** (``curves.py``). c responses are
correct and w = N - c wrong. Values that no response can get are 0: that of a correct
response at c = 0, and of a wrong one at w = 0.

**Centered** curves have ``c positive + w negative = 0``: ``canonical_k``, ``mixture``,
``maxrl``, ``rs_grpo`` and ``f_grpo``. The others say that they are not. Most of those
also move the policy on problems whose responses are all correct or all wrong, and
dynamic sampling retains such problems.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from passk_jax.advantages.curves import Curve, check_group_size, count_array, group_odds
from passk_jax.errors import InputError


def check_canonical(*, num_rollouts: int, k: int) -> None:
    """Checks that ``1 <= k < num_rollouts``."""
    check_group_size(num_rollouts=num_rollouts, k=k)
    if k == num_rollouts:
        raise InputError(
            f'{k=} must be smaller than {num_rollouts=} here: a group of all responses '
            f'leaves none for the baseline'
        )


def canonical_k(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """Computes the centered curve that follows pass@k, at any N (arXiv:2606.06080).

        q = C(w, k) / C(N, k)
        positive = k N / (N - k) q        negative = -(c / w) positive

    This is k times the mean maximum of the groups with the response, less that of the
    groups without it. No other centered curve follows pass@k; ``k = 1`` is RLOO.
    Without its sigma, ``pass_at_k`` is ``(N - k) / (k N)`` of this curve.

    Raises ValueError unless ``1 <= k < N``.

    >>> positive, negative = canonical_k(jnp.array([0, 1, 2]), num_rollouts=3, k=2)
    >>> positive.tolist(), negative.tolist()
    ([0.0, 2.0, 0.0], [0.0, -1.0, 0.0])
    """
    check_canonical(num_rollouts=num_rollouts, k=k)
    return _indexed(num_correct, *_canonical(num_rollouts, k))


def check_mixture(*, num_rollouts: int, pass_weights: Sequence[float]) -> None:
    """Checks that there are 1 to ``num_rollouts - 1`` weights."""
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
    """Computes the centered curve that follows a weighted sum of pass@k, at any N.

        F(p) = sum_k a_k pass@k        A = sum_k a_k A_canonical_k

    Pass@k for k = 1, ..., N - 1 spans the polynomials of degree below N without a
    constant, so these are all objectives that a centered curve can follow.

    Args:
        pass_weights: a_1, a_2, ...: at least one and fewer than N; else ValueError.
    """
    check_mixture(num_rollouts=num_rollouts, pass_weights=pass_weights)
    first, *more = [
        weight * np.stack(_canonical(num_rollouts, k))
        for k, weight in enumerate(pass_weights, start=1)
    ]
    positive, negative = sum(more, start=first)
    return _indexed(num_correct, positive, negative)


def pkpo(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """Computes N times PKPO without a baseline (arXiv:2505.15201); follows pass@k.

        positive = k        negative = k (1 - C(w-1, k-1) / C(N-1, k-1))

    This is N times the mean, over all k-groups, of the group's maximum if the response
    is in the group, and else 0. Not centered: it discourages no response.
    """
    _, others_right = partners(num_rollouts, k)
    positive = np.full(num_rollouts + 1, float(k))
    negative = np.append(k * others_right[::-1], 0.0)
    return _indexed(num_correct, positive, negative)


def pkpo_loo(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """Computes N times PKPO with its loo-1 baseline (arXiv:2505.15201); follows pass@k.

        positive = k C(w, k-1) / C(N-1, k-1)        negative = 0

    This is N times the mean, over all k-groups, of what the response adds to the
    maximum. An empty group's maximum counts as 0, so at ``k = 1`` every correct
    response gets 1. Not centered: it discourages no wrong response. Advantages are 0 if
    all responses are wrong and, unless ``k = 1``, if all are correct.
    """
    others_wrong, _ = partners(num_rollouts, k)
    # Correct responses have w wrong ones beside them, for w up to N - 1.
    positive = np.append(0.0, k * others_wrong[::-1])
    return _indexed(num_correct, positive, np.zeros(num_rollouts + 1))


def leave_one_out_max(num_correct: Int[Array, '*P'], *, num_rollouts: int) -> Curve:
    """Pays for raising the best of N (arXiv:2503.19595); follows pass@N / N.

        positive = 1 if c = 1, else 0        negative = 0

    verl's ``grpo_passk`` is sqrt(N) times this, apart from its epsilon. Not centered.
    """
    correct, _ = _counts(num_rollouts)
    return _indexed(num_correct, correct == 1, np.zeros(num_rollouts + 1))


def maxrl(num_correct: Int[Array, '*P'], *, num_rollouts: int) -> Curve:
    """Divides centered rewards by their mean: MaxRL (arXiv:2602.02710).

        positive = w / c        negative = -1        both 0 where c = 0

    It follows the sum of pass@j / j over j < N, which tends to log p, the likelihood,
    as N grows. It is also the sum of ``canonical_k / k`` over k < N.
    """
    correct, wrong = _counts(num_rollouts)
    positive = wrong / np.maximum(correct, 1)
    return _indexed(num_correct, positive, np.where(correct > 0, -1.0, 0.0))


def maclaurin(num_correct: Int[Array, '*P'], *, num_rollouts: int, order: int) -> Curve:
    """Follows the Maclaurin series of log p: sum of pass@j / j, j <= order.

        positive = 1        negative = -sum_{j=2}^{order} C(w-1, j-1) / C(N-1, j-1)

    It is from MaxRL's code. Not centered: if all responses are wrong, each gets ``1 -
    order``. ``order = 1`` is REINFORCE without a baseline.

    Args:
        order: terms of the series, in ``[1, N]``; else ValueError.
    """
    check_group_size(num_rollouts=num_rollouts, k=order)
    negative = np.zeros(num_rollouts + 1)
    for j in range(2, order + 1):
        negative[:-1] -= partners(num_rollouts, j)[0][::-1]
    return _indexed(num_correct, np.ones(num_rollouts + 1), negative)


def rs_grpo(num_correct: Int[Array, '*P'], *, num_rollouts: int, beta: float) -> Curve:
    """Weighs rewards exponentially: RS-GRPO (arXiv:2509.24261).

        E = exp(beta) - 1,    p = c / N
        positive = E (1 - p) / (1 + p E) / beta
        negative = -p E / (1 + p E) / beta

    This is exp(beta reward) over its mean, less 1, over beta. It follows ``log(1 + E p)
    / beta`` as N grows: p for a small beta, and the best response's reward for a large
    one.

    Args:
        beta: risk seeking, above 0.
    """
    correct, _ = _counts(num_rollouts)
    accuracy = correct / num_rollouts
    # Both sides of the fraction are divided by exp(beta), which may overflow.
    mean = np.where(correct > 0, accuracy + (1 - accuracy) * np.exp(-beta), 1.0)
    scale = -np.expm1(-beta) / beta / mean
    return _indexed(num_correct, scale * (1 - accuracy), -scale * accuracy)


def f_grpo(num_correct: Int[Array, '*P'], *, num_rollouts: int, gamma: float) -> Curve:
    """Gives GRPO a focal weight against easy problems: F-GRPO (arXiv:2602.06717).

        positive = (w / N)^gamma sqrt(w / c)        negative = -(c / w) positive

    Both are 0 if either kind is absent. As N grows, ``gamma = 0`` (GRPO) follows ``2
    arcsin sqrt(p)`` and ``gamma = 1/2`` follows ``2 sqrt(p)``.

    Args:
        gamma: strength of the focal weight, 0 or more.
    """
    correct, wrong = _counts(num_rollouts)
    positive = np.where(correct > 0, np.sqrt(wrong / np.maximum(correct, 1)), 0.0)
    positive = (wrong / num_rollouts) ** gamma * positive
    return _indexed(num_correct, positive, -correct / np.maximum(wrong, 1) * positive)


def nsr(num_correct: Int[Array, '*P'], *, num_rollouts: int) -> Curve:
    """Penalizes failures: negative sample reinforcement (arXiv:2506.01347); follows p.

        positive = 0        negative = -1

    Not centered: if all responses are wrong, each gets -1.
    """
    return w_reinforce(num_correct, num_rollouts=num_rollouts, weight=0.0)


def w_reinforce(
    num_correct: Int[Array, '*P'], *, num_rollouts: int, weight: float
) -> Curve:
    """Weighs successes less: W-REINFORCE (arXiv:2506.01347); follows (1 + weight) p.

        positive = weight        negative = -1

    Not centered: equal verdicts get -1 or ``weight`` each.

    Args:
        weight: the advantage of a correct response, 0 or more.
    """
    check_group_size(num_rollouts=num_rollouts, k=1)
    ones = np.ones(num_rollouts + 1)
    return _indexed(num_correct, weight * ones, -ones)


def _counts(num_rollouts: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns ``[N + 1]`` numbers of correct and of wrong responses; checks N."""
    check_group_size(num_rollouts=num_rollouts, k=1)
    correct = np.arange(num_rollouts + 1)
    return correct, num_rollouts - correct


def _canonical(num_rollouts: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes ``[N + 1]`` positive and negative of :func:`canonical_k`, float64."""
    inside, _ = group_odds(num_rollouts=num_rollouts, k=k)
    correct, wrong = _counts(num_rollouts)
    positive = k * num_rollouts / (num_rollouts - k) * inside[wrong]
    return positive, -correct / np.maximum(wrong, 1) * positive


def partners(num_rollouts: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes the odds that the other members of a response's group are all wrong.

    Returns:
        ``C(j, k-1) / C(N-1, k-1)``, and 1 less that, for j wrong ones among the other
        N - 1: ``[N]`` float64 each.
    """
    check_group_size(num_rollouts=num_rollouts, k=k)
    if k == 1:
        return np.ones(num_rollouts), np.zeros(num_rollouts)
    return group_odds(num_rollouts=num_rollouts - 1, k=k - 1)


def _indexed(
    num_correct: Int[Array, '*P'], positive: np.ndarray, negative: np.ndarray
) -> Curve:
    """Looks up c in ``[N + 1]`` tables, whose impossible entries become 0.

    They are float64 if JAX allows it, because ``tabulation.py`` takes their difference.
    """
    # Adding 0 turns -0 into 0.
    table = np.stack([positive, negative]).astype(np.float64) + 0.0
    table[0, 0] = table[1, -1] = 0.0
    counts = count_array(num_correct, num_rollouts=len(positive) - 1)
    advantages = jnp.asarray(table)[:, counts]
    return advantages[0], advantages[1]

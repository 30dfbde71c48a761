"""Advantages as curves: ``num_correct -> (positive, negative)`` for a fixed N.

With two-valued rewards, the advantage of a response depends on two things: how many of
its problem's N responses are correct, and whether it is. Each function maps that number
to the advantages of a correct and of a wrong response.

**Every curve** takes ``num_correct`` (c, integers in ``[0, N]``; only this may be
traced) and ``num_rollouts`` (N); most take the group size ``k``. It returns two float32
arrays. It raises ValueError unless ``1 <= k <= N`` and c is possible; the range of a
traced c is not checked. ``make_estimator`` checks other parameters.

``estimators.py`` assigns the values to responses, and has sampled groups and
real-valued rewards.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from passk_jax.errors import InputError

Curve = tuple[Float[Array, '*P'], Float[Array, '*P']]


def check_group_size(*, num_rollouts: int, k: int) -> None:
    """Checks that ``1 <= k <= num_rollouts``, both whole numbers."""
    for name, value in (('num_rollouts', num_rollouts), ('k', k)):
        # Python counts True as 1, but k=True is a mistake.
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise InputError(f'{name}={value!r} must be a whole number')
    if num_rollouts < 1:
        raise InputError(f'{num_rollouts=} must be at least 1')
    if not 1 <= k <= num_rollouts:
        raise InputError(f'{k=} must lie in [1, {num_rollouts=}]')


def count_array(num_correct: Any, *, num_rollouts: int) -> Int[Array, '*P']:
    """Converts numbers of correct responses to an array.

    Raises:
        InputError: ``num_rollouts`` is no number of rollouts; the counts have no
            integer dtype; or one that is not traced is outside ``[0, num_rollouts]``.
    """
    check_group_size(num_rollouts=num_rollouts, k=1)
    try:
        counts = jnp.asarray(num_correct)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f'{num_correct=} must be whole numbers') from None
    if not jnp.issubdtype(counts.dtype, jnp.integer):
        raise InputError(
            f'num_correct.dtype={counts.dtype} must be of whole numbers, such as int32'
        )
    # Tables are indexed by them, and JAX would clip an index or count from the end.
    if not isinstance(counts, jax.core.Tracer):
        values = np.asarray(num_correct)
        if impossible := values[(values < 0) | (values > num_rollouts)].tolist():
            raise InputError(
                f'num_correct={impossible[0]} must lie in [0, {num_rollouts=}]'
            )
    return counts.astype(jnp.int32)


def group_odds(*, num_rollouts: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes the odds that a k-group lies inside a fixed set of j responses.

        inside[j] = C(j, k) / C(N, k)        outside[j] = 1 - inside[j]

    With j wrong responses, ``inside[j]`` is the probability q of an all-wrong group
    (Eq. n_group_neg over Eq. n_group_total), and ``outside[j]`` the mean group reward
    (Eq. group_avg). With sorted rewards, ``inside[j]`` is the probability that a
    group's maximum is at most the j-th smallest. Every analytical advantage uses this
    table.

    The falling factorials are multiplied out, ``C(j-1, k) / C(j, k) = (j-k) / j``, and
    the complement is a sum of positive terms, ``inside[j] - inside[j-1] = inside[j] k /
    j``. Both keep their relative precision; 1 - q would cancel, and log-gamma binomials
    lose digits. N and k are static, so the float64 table is a constant to the compiler.

    Returns:
        ``inside`` and ``outside``, ``[N + 1]`` float64 each, indexed by j.

    Raises:
        ValueError: ``k`` is not a group size for N.

    >>> inside, outside = group_odds(num_rollouts=4, k=2)
    >>> [round(float(x) * 6) for x in inside]
    [0, 0, 1, 3, 6]
    """
    check_group_size(num_rollouts=num_rollouts, k=k)
    sizes = np.arange(1, num_rollouts + 1)
    shrink = np.maximum(sizes - k, 0) / sizes
    inside = np.append(np.cumprod(shrink[::-1])[::-1], 1.0)
    largest_is = inside[1:] * k / sizes
    outside = np.append(np.cumsum(largest_is[::-1])[::-1], 0.0)
    return inside, outside


def pass_at_1(num_correct: Int[Array, '*P'], *, num_rollouts: int) -> Curve:
    """Computes GRPO's advantages (Eq. grpo_adv) of rewards 0 and 1.

        positive = sqrt(w / c)        negative = -sqrt(c / w)

    for c correct and w wrong responses; both 0 if either is absent. It follows ``2
    arcsin sqrt(p)`` as N grows, p the probability of success. Sigma is the
    population's. Eq. grpo_std prints 1/N outside the root, which must be a misprint:
    with the population sigma, eta peaks at N, as in the paper's figure
    (fig:sec4-adv-vanilla).

    >>> positive, negative = pass_at_1(jnp.array([0, 1, 5]), num_rollouts=5)
    >>> positive.tolist(), negative.tolist()
    ([0.0, 2.0, 0.0], [0.0, -0.5, 0.0])
    """
    num_correct = count_array(num_correct, num_rollouts=num_rollouts)
    num_wrong = num_rollouts - num_correct
    mixed = (num_correct > 0) & (num_wrong > 0)
    odds = jnp.where(mixed, num_wrong, 1) / jnp.where(mixed, num_correct, 1)
    odds = odds.astype(jnp.float32)
    positive = jnp.where(mixed, jnp.sqrt(odds), 0.0)
    negative = jnp.where(mixed, -jnp.sqrt(1.0 / odds), 0.0)
    return positive, negative


def pass_at_k(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """Computes the analytical Pass@k advantages (Eq. response_pos, Eq. response_neg).

        q = C(w, k) / C(N, k)
        positive = sqrt(q / (1 - q))        negative = -(c / w) positive

    The second is Eq. response_neg after inserting ``C(w-1, k-1) / C(N-1, k-1) = q N /
    w``, so that no digits cancel. Both are 0 if no response is correct or ``w < k``,
    because all groups then have the same reward. ``k = 1`` is ``pass_at_1``. It follows
    ``(2 / k) arcsin sqrt(pass@k)`` as N grows.

    >>> positive, negative = pass_at_k(jnp.array([0, 1, 3]), num_rollouts=4, k=2)
    >>> positive.tolist()
    [0.0, 1.0, 0.0]
    """
    inside, outside = group_odds(num_rollouts=num_rollouts, k=k)
    num_correct = count_array(num_correct, num_rollouts=num_rollouts)
    num_wrong = num_rollouts - num_correct
    mixed = (num_correct > 0) & (num_wrong >= k)
    all_wrong = jnp.asarray(inside, jnp.float32)[num_wrong]
    any_right = jnp.asarray(outside, jnp.float32)[num_wrong]
    odds = all_wrong / jnp.where(mixed, any_right, 1.0)
    positive = jnp.where(mixed, jnp.sqrt(odds), 0.0)
    right_to_wrong = num_correct / jnp.where(mixed, num_wrong, 1)
    negative = jnp.where(mixed, -positive * right_to_wrong, 0.0)
    return positive, negative.astype(jnp.float32)


def without_easy(
    num_correct: Int[Array, '*P'],
    *,
    num_rollouts: int,
    k: int,
    easy_threshold: float,
) -> Curve:
    """Applies ``pass_at_k`` to problems that are not easy (fig:adv-wo_easy).

    The values are those of ``pass_at_k`` where ``c / N <= easy_threshold``, and 0
    above. As N grows it follows the objective of ``pass_at_k`` up to that p, and is
    flat above.

    The paper leaves two things open. One is the threshold: the paper calls problems
    above an accuracy of 0.6 relatively easy where it reads the eta curves. The other is
    the curve: the caption says Pass@k, as here, while the text compares with Pass@1;
    ``k=1`` gives Pass@1 without easy problems.

    Args:
        easy_threshold: the largest accuracy that is trained on, in ``[0, 1]``.
    """
    positive, negative = pass_at_k(num_correct, num_rollouts=num_rollouts, k=k)
    easy = _accuracy_above(num_correct, easy_threshold, num_rollouts=num_rollouts)
    return jnp.where(easy, 0.0, positive), jnp.where(easy, 0.0, negative)


def piecewise(
    num_correct: Int[Array, '*P'],
    *,
    num_rollouts: int,
    k: int,
    switch_threshold: float,
) -> Curve:
    """Applies Pass@1 to hard problems and Pass@k to easy ones (fig:adv-segment).

    The values are those of ``pass_at_1`` where ``c / N <= switch_threshold``, and of
    ``pass_at_k`` above; so is the slope of the objective as N grows.

    The paper says only that accuracy decides between the two. The order follows from
    its reading of the runs (sec. Analysis Based on Model Performance): the design falls
    gradually to zero at high accuracy, as Pass@k does, and its eta peaks later than
    that of Pass@k, as that of Pass@1 does. The threshold is open; the eta of Pass@1
    peaks at 0.5.

    Args:
        switch_threshold: the largest accuracy at which Pass@1 is used, in ``[0, 1]``.
    """
    num_correct = count_array(num_correct, num_rollouts=num_rollouts)
    easy = _accuracy_above(num_correct, switch_threshold, num_rollouts=num_rollouts)
    hard_curve = pass_at_1(num_correct, num_rollouts=num_rollouts)
    easy_curve = pass_at_k(num_correct, num_rollouts=num_rollouts, k=k)
    return (
        jnp.where(easy, easy_curve[0], hard_curve[0]),
        jnp.where(easy, easy_curve[1], hard_curve[1]),
    )


def exceeding(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """Moves the peak of Pass@k to the hardest problems: Exceeding Pass@k Training.

        A' = f(c) A,    f(c) = 4 / (10 log(c + 0.5))

    (sec. Exceeding Pass@k Training). The peak of eta is at c = 1, as the paper says. It
    does not name the base of the logarithm; another base than e only scales A'. f is
    negative at c = 0, where A is 0. The objective that it follows has no closed form;
    ``implied_objective`` computes it.
    """
    positive, negative = pass_at_k(num_correct, num_rollouts=num_rollouts, k=k)
    factor = 4.0 / (10.0 * jnp.log(jnp.maximum(jnp.asarray(num_correct), 1) + 0.5))
    return factor * positive, factor * negative


def combination(num_correct: Int[Array, '*P'], *, num_rollouts: int, k: int) -> Curve:
    """Mixes Pass@1 and Pass@k by accuracy: Combination Training.

        A = (c / N) A_pass@k + (1 - c / N) A_pass@1

    (sec. Combination of Pass@1 and Pass@k Training). The objective that it follows has
    the slope ``p omega_pass@k + (1 - p) omega_pass@1`` as N grows.
    """
    num_correct = count_array(num_correct, num_rollouts=num_rollouts)
    accuracy = num_correct / num_rollouts
    of_k = pass_at_k(num_correct, num_rollouts=num_rollouts, k=k)
    of_1 = pass_at_1(num_correct, num_rollouts=num_rollouts)
    return (
        accuracy * of_k[0] + (1.0 - accuracy) * of_1[0],
        accuracy * of_k[1] + (1.0 - accuracy) * of_1[1],
    )


def sum_abs_advantage(
    num_correct: Int[Array | np.ndarray, '*P'],
    positive: Float[Array | np.ndarray, '*P'],
    negative: Float[Array | np.ndarray, '*P'],
    *,
    num_rollouts: int,
) -> Float[Array | np.ndarray, '*P']:
    """Sums absolute advantages to eta (``sec:difference_pass1_passk``).

        eta = c |positive| + w |negative|

    It measures how strongly a problem with c correct responses moves the policy.
    Arguments, result and errors are those of a curve.

    >>> c = jnp.array(16)
    >>> float(sum_abs_advantage(c, *pass_at_1(c, num_rollouts=32), num_rollouts=32))
    32.0
    """
    num_correct = count_array(num_correct, num_rollouts=num_rollouts)
    num_wrong = num_rollouts - num_correct
    return num_correct * jnp.abs(positive) + num_wrong * jnp.abs(negative)


def _accuracy_above(
    num_correct: Int[Array, '*P'], threshold: float, *, num_rollouts: int
) -> Bool[Array, '*P']:
    """Returns whether ``num_correct / num_rollouts > threshold``, by integers.

    The host divides in float64. A compiled division may become a product with a rounded
    reciprocal, and the device would decide whether 3 of 5 exceeds 0.6.
    """
    accuracies = np.arange(num_rollouts + 1) / num_rollouts
    most = int(np.count_nonzero(accuracies <= threshold)) - 1
    return jnp.asarray(num_correct) > most

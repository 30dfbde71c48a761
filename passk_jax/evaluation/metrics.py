"""Evaluation metrics, on the host in float64, one value for each problem.

The order is: pass@k and its relatives from counts, the diversity of parsed answers,
intervals. majority.py has maj@k. All are functions of a problem's recorded n responses,
c correct ones and parsed answers, so any k can be computed later. Only the intervals
average over problems, and only the bootstrap is random.
"""

import collections
import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from passk_jax.data.orders import part_of
from passk_jax.errors import InputError


def pass_at_k(
    num_responses: np.ndarray | int, num_correct: np.ndarray | int, *, k: int
) -> np.ndarray:
    """Computes the unbiased estimate of Pass@k (Eq. passk) from n >= k responses.

        1 - C(n - c, k) / C(n, k)

    This is the share of the k-subsets of the n responses that contain a correct one.
    Subsets drawn with replacement would give a low bias.

    Args:
        num_responses: n of each problem.
        num_correct: c of each problem; broadcast with ``num_responses``.
        k: group size.

    Returns:
        float64 of the broadcast shape.

    Raises:
        InputError: a count is not an integer, ``c`` is not in ``[0, n]``, or ``k`` is
            not in ``[1, n]`` for some problem.

    >>> pass_at_k(4, np.array([0, 1, 2]), k=2).round(4).tolist()
    [0.0, 0.5, 0.8333]
    """
    responses, correct = check_counts(num_responses, num_correct, k=k)
    return 1.0 - _share_of_groups(responses - correct, responses, k=k)


def pass_at_each_k(
    num_responses: np.ndarray | int, num_correct: np.ndarray | int, *, largest: int
) -> np.ndarray:
    """Computes :func:`pass_at_k` for k = 1, 2, ... ``largest``, as the last axis.

    Raises InputError as :func:`pass_at_k` does for the largest k.

    >>> pass_at_each_k(4, np.array([1, 2]), largest=2).round(4).tolist()
    [[0.25, 0.5], [0.5, 0.8333]]
    """
    responses, correct = check_counts(num_responses, num_correct, k=largest)
    responses, correct, i = responses[..., None], correct[..., None], np.arange(largest)
    absent = np.cumprod(np.maximum(responses - correct - i, 0) / (responses - i), -1)
    return 1.0 - absent


def pass_hat_k(
    num_responses: np.ndarray | int, num_correct: np.ndarray | int, *, k: int
) -> np.ndarray:
    """Computes the unbiased estimate of pass^k, the chance that k are all correct.

        C(c, k) / C(n, k)

    Arguments, returns and errors are those of :func:`pass_at_k`.

    >>> pass_hat_k(4, np.array([2, 4]), k=2).round(4).tolist()
    [0.1667, 1.0]
    """
    responses, correct = check_counts(num_responses, num_correct, k=k)
    return _share_of_groups(correct, responses, k=k)


def cover_at(
    num_responses: np.ndarray | int, num_correct: np.ndarray | int, *, tau: float
) -> np.ndarray:
    """Computes Cover@tau: 1 where at least a share tau of the responses is correct.

    It is 0 elsewhere. Its mean over problems is the share of problems that the policy
    solves this reliably (M. Dragoi et al., arXiv:2510.08325). Its integral over tau is
    Pass@1.

    Args:
        num_responses, num_correct: n and c, as in :func:`pass_at_k`.
        tau: in (0, 1].

    Returns:
        float64 of the broadcast shape.

    Raises:
        InputError: a count is wrong, or ``tau`` is not in (0, 1].

    >>> cover_at(4, np.array([1, 2, 4]), tau=0.5).tolist()
    [0.0, 1.0, 1.0]
    """
    responses, correct = check_counts(num_responses, num_correct, k=1)
    if not 0 < tau <= 1:
        raise InputError(f'{tau=} must lie in (0, 1]')
    return (correct / responses >= tau).astype(np.float64)


def powers_of_two(num_responses: np.ndarray | int) -> list[int]:
    """Returns every k = 2^i up to the fewest responses of any problem.

    Raises InputError if there is no problem.

    >>> powers_of_two(np.array([32, 9]))
    [1, 2, 4, 8]
    """
    if np.size(num_responses) == 0:
        raise InputError('num_responses is empty: there is no problem')
    return [2**i for i in range(int(np.min(num_responses)).bit_length())]


def pass_at_powers(
    num_responses: np.ndarray | int, num_correct: np.ndarray | int
) -> dict[int, np.ndarray]:
    """Computes :func:`pass_at_k` for every k of :func:`powers_of_two`.

    Raises InputError for bad counts or a problem without a response.
    """
    powers = powers_of_two(num_responses)
    check_counts(num_responses, num_correct, k=1)
    values = pass_at_each_k(num_responses, num_correct, largest=powers[-1])
    return {k: values[..., k - 1] for k in powers}


def answer_diversity(
    parsed: Sequence[Sequence[str]], correct: np.ndarray
) -> np.ndarray:
    """Computes distinct wrong answers per wrong response (sec:exploration_ability).

    Wrong responses without a parsed answer share the answer ``''``, so a policy that
    stops answering does not look diverse.

    Args:
        parsed: ``[P][N]`` answers.
        correct: ``[P, N]`` bool; InputError if the shapes disagree.

    Returns:
        ``[P]`` float64 in (0, 1]; NaN for a problem without a wrong response.

    >>> wrong = np.zeros((1, 4), bool)
    >>> answer_diversity([['UR', 'UR', 'RU', '']], wrong).tolist()
    [0.75]
    """
    wrong = _wrong_answers(parsed, correct)
    return np.array([len({*w}) / len(w) if w else np.nan for w in wrong], np.float64)


def rarefied_diversity(
    parsed: Sequence[Sequence[str]], correct: np.ndarray, *, size: int = 4
) -> np.ndarray:
    """Computes the expected number of distinct answers among ``size`` wrong responses.

        sum_a 1 - C(w - w_a, size) / C(w, size)

    Here w responses to a problem are wrong, and w_a of them have the answer a. This is
    rarefaction (S. H. Hurlbert, "The nonconcept of species diversity", 1971): the mean
    over the subsets of the wrong responses. Unlike :func:`answer_diversity`, it does
    not fall when more responses are wrong with the same distribution of answers. A
    missing answer counts as the answer ``''``.

    Args:
        parsed: ``[P][N]`` answers.
        correct: ``[P, N]`` bool; InputError if the shapes disagree.
        size: number of wrong responses, at least 1.

    Returns:
        ``[P]`` float64 in [1, size]; NaN for a problem with fewer wrong responses.

    >>> wrong = np.zeros((1, 4), bool)
    >>> rarefied_diversity([['UR', 'UR', 'RU', '']], wrong, size=2).round(4).tolist()
    [1.8333]
    """
    all_wrong = _wrong_answers(parsed, correct)
    diversities = np.full(len(all_wrong), np.nan)
    for problem, wrong in enumerate(all_wrong):
        if len(wrong) >= size:
            # How many wrong responses have each answer.
            camps = np.array(list(collections.Counter(wrong).values()))
            absent = _share_of_groups(len(wrong) - camps, np.array(len(wrong)), k=size)
            diversities[problem] = (1 - absent).sum()
    return diversities


def _wrong_answers(
    parsed: Sequence[Sequence[str]], correct: np.ndarray
) -> list[list[str]]:
    return [
        [answer for answer, is_right in zip(*row, strict=True) if not is_right]
        for row in zip(parsed, check_answers(parsed, correct), strict=True)
    ]


def bootstrap_interval(
    values: np.ndarray, *, seed: int, num_samples: int, level: float = 0.95
) -> tuple[float, float]:
    """Computes the percentile bootstrap interval of the mean over problems.

    The interval covers the choice of problems, which it draws with replacement. It does
    not cover the choice of training seeds; see :func:`paired_interval`.

    Args:
        values: ``[P]``; problems with NaN are left out.
        seed: seed of the draws; the same seed gives the same interval.
        num_samples: number of resampled means.
        level: coverage of the interval.

    Returns:
        The low and the high end; NaN for both if no problem has a value.

    Raises:
        InputError: ``values`` is not one-dimensional, ``num_samples < 1``, or
            ``level`` is not in (0, 1).

    >>> bootstrap_interval(np.ones(5), seed=0, num_samples=10)
    (1.0, 1.0)
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1:
        raise InputError(f'{values.shape=} must be [P], one value per problem')
    if num_samples < 1:
        raise InputError(f'{num_samples=} must be at least 1')
    _check_level(level)
    values = values[~np.isnan(values)]
    if values.size == 0:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    # One resample at a time: [num_samples, P] at once may not fit.
    means = [rng.choice(values, values.size).mean() for _ in range(num_samples)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_interval(
    first: np.ndarray, second: np.ndarray, *, level: float = 0.95
) -> tuple[float, float, float]:
    """Computes the mean of ``first - second`` over paired seeds, and its t interval.

    Args:
        first: ``[S]``, one number for each seed.
        second: ``[S]``, the numbers of the other arm, in the same order of seeds.
        level: coverage of the interval.

    Returns:
        The mean difference, and the low and the high end of its interval.

    Raises:
        InputError: fewer than two pairs, shapes that disagree, a number that is not
            finite, or ``level`` not in (0, 1).

    >>> mean, low, high = paired_interval(np.array([3.0, 5.0]), np.array([1.0, 1.0]))
    >>> mean, round(low, 3), round(high, 3)
    (3.0, -9.706, 15.706)
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size < 2:
        raise InputError(f'{first.shape=} and {second.shape=} must be [S], S >= 2')
    _check_level(level)
    differences = first - second
    if not np.isfinite(differences).all():
        raise InputError(f'a difference is not finite: {differences}')
    mean = float(differences.mean())
    standard_error = differences.std(ddof=1) / math.sqrt(differences.size)
    quantile = special.stdtrit(differences.size - 1, (1 + level) / 2)
    half_width = float(quantile * standard_error)
    return mean, mean - half_width, mean + half_width


def independent_interval(
    first: np.ndarray, second: np.ndarray, *, level: float = 0.95
) -> tuple[float, float, float]:
    """Computes the difference of two means over unpaired seeds, and Welch's interval.

    Args:
        first, second: ``[S1]`` and ``[S2]``, one finite number for each seed.
        level: coverage of the interval.

    Returns:
        The mean of ``first`` minus that of ``second``, and the low and the high end of
        its interval (B. L. Welch, "The generalization of Student's problem when several
        different population variances are involved", 1947).

    Raises:
        InputError: fewer than two numbers, one that is not finite, or ``level`` not in
            (0, 1).

    >>> ends = independent_interval(np.array([3.0, 5.0]), np.array([1.0, 1.0, 4.0]))
    >>> [round(end, 3) for end in ends]
    [2.0, -2.836, 6.836]
    """
    samples = [np.asarray(sample, np.float64) for sample in (first, second)]
    if any(sample.ndim != 1 or sample.size < 2 for sample in samples):
        raise InputError(f'{samples} must be [S1] and [S2] of at least two numbers')
    if not all(np.isfinite(sample).all() for sample in samples):
        raise InputError(f'a number is not finite: {samples}')
    _check_level(level)
    mean = float(samples[0].mean() - samples[1].mean())
    variances = [sample.var(ddof=1) / sample.size for sample in samples]
    if not (variance := sum(variances)):
        return mean, mean, mean
    pairs = zip(variances, samples, strict=True)
    degrees = variance**2 / sum(v**2 / (x.size - 1) for v, x in pairs)
    half_width = float(special.stdtrit(degrees, (1 + level) / 2) * math.sqrt(variance))
    return mean, mean - half_width, mean + half_width


def mask_by_category(categories: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the mask ``[P]`` of each category and of each part of a mixture, by name.

    >>> masks = mask_by_category(['mazes/5x5', 'sudoku', 'mazes/7x7'])
    >>> list(masks), masks['mazes'].tolist()
    (['mazes', 'mazes/5x5', 'mazes/7x7', 'sudoku'], [True, False, True])
    """
    labels = np.array(categories)
    parts = np.array([part_of(category) for category in categories])
    names = sorted({*categories, *parts.tolist()})
    return {name: (labels == name) | (parts == name) for name in names}


def check_counts(
    num_responses: np.ndarray | int, num_correct: np.ndarray | int, *, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Checks counts as :func:`pass_at_k` says; returns both as int64, broadcast."""
    responses, correct = np.asarray(num_responses), np.asarray(num_correct)
    for name, counts in (('num_responses', responses), ('num_correct', correct)):
        if not np.issubdtype(counts.dtype, np.integer):
            raise InputError(f'{name} is {counts.dtype}; it must hold integers')
    if np.any(correct < 0) or np.any(correct > responses):
        raise InputError('num_correct must lie in [0, num_responses]')
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f'{k=} must be an integer, at least 1')
    if np.any(responses < k):
        raise InputError(f'{k=} exceeds the {responses.min()} responses of a problem')
    shape = np.broadcast_shapes(responses.shape, correct.shape)
    return (
        np.broadcast_to(responses.astype(np.int64), shape),
        np.broadcast_to(correct.astype(np.int64), shape),
    )


def _share_of_groups(part: np.ndarray, total: np.ndarray, *, k: int) -> np.ndarray:
    """Computes C(part, k) / C(total, k) by falling factorials."""
    share = np.ones(part.shape)
    for i in range(k):
        share *= np.maximum(part - i, 0) / (total - i)
    return share


def check_answers(parsed: Sequence[Sequence[str]], correct: np.ndarray) -> np.ndarray:
    """Checks that ``parsed`` fits ``correct``, bool ``[P, N]``; returns ``correct``."""
    correct = np.asarray(correct)
    if correct.dtype != bool or correct.ndim != 2:
        raise InputError(f'correct is {correct.dtype}{correct.shape}; want bool [P, N]')
    lengths = {len(answers) for answers in parsed}
    if len(parsed) != len(correct) or lengths - {correct.shape[1]}:
        sizes = f'{len(parsed)} problems of {sorted(lengths)} responses'
        raise InputError(f'parsed has {sizes}; {correct.shape=}')
    return correct


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InputError(f'{level=} must lie in (0, 1)')

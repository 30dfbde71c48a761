"""maj@k: how often the majority of k responses is right, on the host in float64.

It is the exact mean over all k-subsets of a problem's responses. It needs only the
recorded answers and their correctness, so any k can be computed later.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from passk_jax.evaluation import metrics

# A product of matrices does so many multiplications in the time of one on arrays.
_BAND = 8


def maj_at_k(
    parsed: Sequence[Sequence[str]], correct: np.ndarray, *, k: int
) -> np.ndarray:
    """Computes the expected correctness of a majority vote among k responses.

    This is the exact mean over all k-subsets of a problem's n responses, without
    forming a subset. The most frequent answer of a subset wins; tied answers win with
    equal probability. ``''`` (nothing parsed) does not vote, and a subset without votes
    is wrong. A winner counts as the share of its responses that the verifier accepts
    (0 or 1, unless the verdict depends on more than the answer).

    Args:
        parsed: ``[P][N]`` answers.
        correct: ``[P, N]`` bool.
        k: number of responses, in ``[1, N]``.

    Returns:
        ``[P]`` float64.

    Raises:
        ValueError: shapes disagree, or ``k`` is not in ``[1, N]``.

    >>> votes = [['7', '7', '7', '5'], ['7', '5', '', '']]
    >>> right = np.array([[True, True, True, False], [True, False, False, False]])
    >>> maj_at_k(votes, right, k=3).round(6).tolist()
    [1.0, 0.5]
    """
    return _majorities(parsed, correct, [k])[k]


def maj_at_powers(
    parsed: Sequence[Sequence[str]], correct: np.ndarray
) -> dict[int, np.ndarray]:
    """Computes :func:`maj_at_k` for every k of :func:`metrics.powers_of_two` at once.

    Raises InputError if the shapes disagree or there is no problem.
    """
    correct = metrics.check_answers(parsed, correct)
    powers = metrics.powers_of_two(np.full(*correct.shape))
    # Several k at once need 2^-N, which underflows in float64 for N far above 1000.
    if correct.shape[1] <= 1000:
        return _majorities(parsed, correct, powers)
    return {k: maj_at_k(parsed, correct, k=k) for k in powers}


def _majorities(
    parsed: Sequence[Sequence[str]], correct: np.ndarray, ks: Sequence[int]
) -> dict[int, np.ndarray]:
    """Computes maj@k of each problem, by k; see :func:`maj_at_k`."""
    correct = metrics.check_answers(parsed, correct)
    num_responses = correct.shape[1]
    for k in ks:
        metrics.check_counts(num_responses, 0, k=k)
    enters = ks[0] / num_responses if len(ks) == 1 else 0.5
    odds = [_binomial(size, enters) for size in range(num_responses + 1)]
    wins = [
        _majority_wins(answers, is_right, odds, most=max(ks))
        for answers, is_right in zip(parsed, correct, strict=True)
    ]
    wins = np.reshape(wins, (len(correct), num_responses + 1))
    return {k: wins[:, k] / odds[num_responses][k] for k in ks}


def _majority_wins(
    answers: Sequence[str],
    correct: np.ndarray,
    odds: Sequence[np.ndarray],
    *,
    most: int,
) -> np.ndarray:
    """Computes the probability that k responses vote and a right answer wins.

    Let every response enter the vote independently with the same probability. Then the
    answers' votes are independent, and if k responses enter, they are a uniform
    k-subset. So for each number of winning votes, a polynomial in (votes so far,
    answers with that many votes) is a product over the answers with enough responses.
    Its coefficients are probabilities, so no digits cancel at any N.

    Args:
        answers, correct: answers and verdicts of the problem's N responses.
        odds: for each s up to N, the probabilities that 0 .. s of s responses enter.
        most: the largest k needed.

    Returns:
        ``[N + 1]`` by k; entries after ``most`` are meaningless.
    """
    credit: dict[str, list[bool]] = {}
    for answer, is_right in zip(answers, correct, strict=True):
        credit.setdefault(answer, []).append(bool(is_right))
    credit.pop('', None)
    camps = sorted((len(c), sum(c) / len(c)) for c in credit.values())
    wins = np.zeros(len(answers) + 1)
    if not camps:
        return wins
    largest, share = camps[-1]
    second = camps[-2][0] if len(camps) > 1 else 0
    for winning in range(1, min(second, most) + 1):
        contenders = [camp for camp in camps if camp[0] >= winning]
        unable = len(answers) - sum(size for size, _ in contenders)
        credited = _credit_of_winners(contenders, odds, winning=winning, most=most)
        wins[: len(credited) + unable] += np.convolve(credited, odds[unable])
    # With more votes than any other answer has responses, the largest camp wins alone.
    alone = odds[largest] * (np.arange(largest + 1) > second)
    return wins + share * np.convolve(alone, odds[len(answers) - largest])


def _credit_of_winners(
    camps: Sequence[tuple[int, float]],
    odds: Sequence[np.ndarray],
    *,
    winning: int,
    most: int,
) -> np.ndarray:
    """Computes probability times credit of the winners, by the votes of these camps.

    A camp is the responses with one answer.

    Args:
        camps: for each, its number of responses, at least ``winning``, and the share
            that is right.
        odds: as in :func:`_majority_wins`.
        winning: votes of each winner; tied winners win with equal probability.
        most: the largest number of votes needed.
    """
    # [votes, 2, winners]: the probability, and its product with the winners' credit.
    state = np.ones((1, 2, 1)) * [[1.0], [0.0]]
    for size, share in camps:
        votes, _, winners = state.shape
        new = np.zeros((votes + winning, 2, winners + 1))
        new[:-1, :, :-1] = _add_votes(state, odds[size][:winning])
        won = odds[size][winning] * state
        new[winning:, :, 1:] += won
        new[winning:, 1, 1:] += share * won[:, 0]
        state = new[: most + 1]
    return state[:, 1, 1:] @ (1 / np.arange(1, state.shape[2]))


def _add_votes(state: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Convolves the first axis of a state with the probabilities of further votes."""
    length, num_votes = len(state), len(votes)
    if num_votes * _BAND < length:
        # Many answers with few responses each: most of the matrix would be zeros.
        added = np.zeros((length + num_votes - 1, *state.shape[1:]))
        for number, probability in enumerate(votes):
            added[number : number + length] += probability * state
        return added
    # Row i of the matrix has votes[i - j] in column j.
    padded = np.zeros(num_votes + 2 * length - 2)
    padded[length - 1 : length - 1 + num_votes] = votes
    matrix = np.lib.stride_tricks.sliding_window_view(padded, length)[:, ::-1]
    # Matrix products are fast only on contiguous arrays.
    product = np.ascontiguousarray(matrix) @ state.reshape(length, -1)
    return product.reshape(-1, *state.shape[1:])


def _binomial(size: int, probability: float) -> np.ndarray:
    """Computes the probabilities of 0 .. size successes."""
    hits = np.arange(size + 1)
    ways = -special.betaln(size - hits + 1, hits + 1) - math.log(size + 1)
    logs = special.xlogy(hits, probability) + special.xlog1py(size - hits, -probability)
    return np.exp(ways + logs)

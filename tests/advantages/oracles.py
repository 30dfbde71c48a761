"""Advantages by their definition: every k-subset is formed. Float64, slow, plain."""

import itertools
import math
from fractions import Fraction

import numpy as np


def normalized(values: np.ndarray) -> np.ndarray:
    """Values less their mean over their population sigma; 0 if all are equal."""
    values = np.asarray(values, np.float64)
    if np.all(values == values[0]):
        return np.zeros_like(values)
    return (values - values.mean()) / values.std()


def all_groups(num_rollouts: int, k: int) -> np.ndarray:
    """``[C(N, k), k]`` every group."""
    return np.array(list(itertools.combinations(range(num_rollouts), k)))


def advantages_over_all_groups(rewards: np.ndarray, k: int) -> np.ndarray:
    """``[N]`` the mean advantage of the groups that each response is in."""
    groups = all_groups(len(rewards), k)
    of_groups = normalized(np.asarray(rewards, np.float64)[groups].max(axis=1))
    member = (groups[:, :, None] == np.arange(len(rewards))).any(axis=1)
    return of_groups @ member / member.sum(axis=0)


def exact_curve(num_correct: int, num_rollouts: int, k: int) -> tuple[float, float]:
    """Eq. response_pos and Eq. response_neg as printed, in rationals to the root."""
    num_wrong = num_rollouts - num_correct
    mean = 1 - Fraction(math.comb(num_wrong, k), math.comb(num_rollouts, k))
    variance = mean * (1 - mean)
    if variance == 0:
        return 0.0, 0.0
    negative = Fraction(0)
    if num_wrong:
        negative = 1 - mean
        negative -= Fraction(
            math.comb(num_wrong - 1, k - 1), math.comb(num_rollouts - 1, k - 1)
        )
    # The square of a signed ratio is rational: one rounding at the very end.
    return (
        math.sqrt((1 - mean) ** 2 / variance),
        math.copysign(math.sqrt(negative**2 / variance), negative),
    )


def with_and_without(
    rewards: np.ndarray, k: int, response: int
) -> tuple[np.ndarray, np.ndarray]:
    """``[.]`` the highest rewards of the k-groups that hold a response, and do not."""
    groups = all_groups(len(rewards), k)
    best = np.asarray(rewards, np.float64)[groups].max(axis=1)
    member = (groups == response).any(axis=1)
    return best[member], best[~member]


def gained(rewards: np.ndarray, k: int, response: int) -> list[float]:
    """What a response adds to the maximum, at least 0, of each k-group with it."""
    other_rewards = [r for i, r in enumerate(rewards) if i != response]
    subsets = itertools.combinations(other_rewards, k - 1)
    return [
        max(*subset, rewards[response], 0) - max(*subset, 0, 0) for subset in subsets
    ]

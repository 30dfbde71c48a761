"""What a token's distribution is, by sorting, in float64; no code of the package."""

from typing import NamedTuple

import numpy as np


class Figures(NamedTuple):
    """Of given tokens, as ``Rollouts`` defines them."""

    sampler: np.ndarray
    untruncated: np.ndarray
    entropies: np.ndarray


def softmax(logits: np.ndarray, *, temperature: float) -> np.ndarray:
    scores = logits.astype(np.float64) / temperature
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def allowed_tokens(
    logits: np.ndarray,
    *,
    top_p: float,
    top_k: int,
    temperature: float = 1.0,
    min_p: float = 0.0,
) -> np.ndarray:
    """Row by row: sort, cut at k, renormalise, cut where the sum reaches p."""
    allowed = np.zeros(logits.shape, bool)
    for row in np.ndindex(logits.shape[:-1]):
        probs = softmax(logits[row], temperature=temperature)
        order = np.argsort(-probs, kind='stable')
        order = order[: top_k or None]
        share = probs[order] / probs[order].sum()
        total = 0.0
        for token, part in zip(order, share, strict=True):
            if total >= top_p < 1:
                break
            allowed[(*row, token)] = True
            total += part
        allowed[row] &= probs >= min_p * probs.max()
    return allowed


def distribution(
    logits: np.ndarray, *, temperature: float, **truncation: float
) -> np.ndarray:
    """Probabilities after temperature, top-k, top-p and min-p."""
    probs = softmax(logits, temperature=temperature)
    allowed = allowed_tokens(logits, temperature=temperature, **truncation)
    probs = np.where(allowed, probs, 0)
    return probs / probs.sum(axis=-1, keepdims=True)


def figures(
    logits: np.ndarray,
    tokens: np.ndarray,
    *,
    temperature: float,
    **truncation: float,
) -> Figures:
    untruncated = softmax(logits, temperature=temperature)
    cut = distribution(logits, temperature=temperature, **truncation)

    def of_tokens(probs: np.ndarray) -> np.ndarray:
        return np.log(np.take_along_axis(probs, tokens[..., None], -1)[..., 0])

    entropies = -(untruncated * np.log(untruncated)).sum(axis=-1)
    return Figures(of_tokens(cut), of_tokens(untruncated), entropies)


def chi_square_sigmas(counts: np.ndarray, expected: np.ndarray) -> float:
    """How far counts are from what is expected, in standard deviations.

    Zero expected counts must be zero. The rest is Pearson's statistic, compared with
    its mean and standard deviation under the hypothesis.
    """
    assert (counts[expected == 0] == 0).all()
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = counts.size - 1
    # The variance of a Pearson statistic: 2 (K - 1) and a term for small counts.
    variance = 2 * freedom + (1 / expected).sum()
    return abs(statistic - freedom) / np.sqrt(variance) if freedom else 0.0

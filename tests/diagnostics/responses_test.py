"""Figures of responses against those of loops that spell the definitions out."""

import itertools

import jax
import numpy as np
import pytest

from passk_jax.advantages import curves, sum_abs_advantage
from passk_jax.diagnostics.responses import (
    advantage_mass,
    entropy_by_position,
    wrong_partings,
)

A, B, C, D = 1, 2, 3, 4


def pad(responses, width):
    """Tokens, with garbage past the ends, and lengths of ``[P][N]`` lists."""
    lengths = np.array([[len(r) for r in row] for row in responses], np.int32)
    tokens = np.random.default_rng(0).integers(5, 9, (*lengths.shape, width))
    for p, row in enumerate(responses):
        for n, response in enumerate(row):
            tokens[p, n, : len(response)] = response
    return tokens.astype(np.int32), lengths


def test_entropy_is_the_mean_of_the_responses_that_get_so_far():
    entropies = np.array([[[1, 2, np.nan], [3, 9, 9]], [[5, 4, 6], [7, 6, 7]]])
    lengths = np.array([[2, 1], [2, 3]])
    means, count = entropy_by_position(entropies.astype(np.float32), lengths)
    # (1 + 3 + 5 + 7) / 4, (2 + 4 + 6) / 3, 7 / 1.
    assert means.tolist() == [4, 4, 7]
    assert count.tolist() == [4, 3, 1]


def test_a_position_that_no_response_reaches_has_none():
    means, count = entropy_by_position(np.full((1, 1, 2), np.inf), np.array([[1]]))
    assert (means[1], count[1]) == (0, 0)


def test_wrong_responses_part_where_a_hand_finds_it():
    responses = [
        # The last is right. AB and AC part at 1, either and D at 0.
        [[A, B, D], [A, C, D], [D], [A, B, D]],
        # Three are equal, and the fourth goes on where they were cut off.
        [[A, B], [A, B], [A, B], [A, B, C]],
        # One is wrong.
        [[A], [B], [A], [B]],
    ]
    wrong = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]], bool)
    partings = jax.device_get(wrong_partings(*pad(responses, 4), wrong))
    np.testing.assert_allclose(
        partings.by_position, [1 / 3, 1 / 6, 1 / 2, 0], rtol=1e-6
    )
    # No pair of three; three of six.
    assert partings.identical == pytest.approx((0 + 3 / 6) / 2)
    assert (partings.num_parting, partings.num_pairs) == (2, 2)


def test_equal_responses_that_fill_the_width_are_identical():
    partings = wrong_partings(*pad([[[A, B], [A, B]]], 2), np.ones((1, 2), bool))
    assert partings.by_position.tolist() == [0, 0]
    assert (partings.identical, partings.num_parting, partings.num_pairs) == (1, 0, 1)


def test_without_two_wrong_responses_there_are_no_pairs():
    for shape in ((2, 1), (2, 3)):
        tokens, lengths = pad([[[A]] * shape[1]] * shape[0], 3)
        partings = wrong_partings(tokens, lengths, np.zeros(shape, bool))
        assert not partings.by_position.any()
        assert (partings.identical, partings.num_parting, partings.num_pairs) == (
            0,
            0,
            0,
        )


def brute_partings(tokens, lengths, wrong):
    shares, identical = [], []
    for p, n in zip(*wrong.nonzero(), strict=True):
        tokens[p, n, lengths[p, n] :] = -1
    for responses, is_wrong in zip(tokens, wrong, strict=True):
        pairs = list(itertools.combinations(responses[is_wrong], 2))
        firsts = [np.flatnonzero(a != b)[0] for a, b in pairs if (a != b).any()]
        if firsts:
            shares.append(
                np.bincount(firsts, minlength=responses.shape[-1]) / len(firsts)
            )
        if pairs:
            identical.append(1 - len(firsts) / len(pairs))
    return np.mean(shares, axis=0), np.mean(identical), len(shares), len(identical)


@pytest.mark.parametrize('seed', range(5))
def test_partings_are_those_of_all_pairs(seed):
    """Two letters and short responses, so that many are equal or go on alike."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, (6, 5))
    tokens = rng.integers(0, 2, (6, 5, 4))
    wrong = rng.random((6, 5)) < [[0.0], [0.3], [0.5], [0.7], [1.0], [1.0]]
    partings = jax.device_get(wrong_partings(tokens, lengths, wrong))
    by_position, *totals = brute_partings(tokens, lengths, wrong)
    np.testing.assert_allclose(partings.by_position, by_position, atol=1e-6)
    got = partings.identical, partings.num_parting, partings.num_pairs
    assert got == pytest.approx(tuple(totals), abs=1e-6)


def test_mass_lies_where_the_number_of_right_responses_says():
    correct = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]], bool)
    advantages = np.array([[2, -1, -1], [-0.5, 3, 0], [0, 0, -4], [0, 0, 0]])
    mass = advantage_mass(advantages.astype(np.float32), correct)
    assert mass.right.tolist() == [0, 5, 0, 4]
    assert mass.wrong.tolist() == [0, 2.5, 0, 0]
    assert mass.num_problems.tolist() == [1, 2, 0, 1]


def test_the_mass_of_a_curve_is_the_papers_eta():
    """Of one problem for every number of right responses."""
    num_correct = np.arange(9)
    positive, negative = curves.pass_at_k(num_correct, num_rollouts=8, k=3)
    correct = np.arange(8) < num_correct[:, None]
    advantages = np.where(correct, positive[:, None], negative[:, None])
    mass = advantage_mass(advantages, correct)
    eta = sum_abs_advantage(num_correct, positive, negative, num_rollouts=8)
    np.testing.assert_allclose(mass.right + mass.wrong, eta, rtol=1e-5)
    np.testing.assert_allclose(mass.right, num_correct * np.abs(positive), rtol=1e-5)

"""Comparisons of arms against the definitions and simple cases."""

import itertools

import numpy as np
import pytest

from passk_jax.evaluation import comparison, metrics
from passk_jax.evaluation.comparison import compare, make_arm, solved


def arm(name, *seeds, n=8):
    """An arm from the numbers of correct responses of each seed's problems."""
    return make_arm(
        name,
        [
            (f'{name}{i}', {7 * j: (n, c) for j, c in enumerate(counts)})
            for i, counts in enumerate(seeds)
        ],
    )


def test_every_k_is_the_share_of_subsets_with_a_correct_response():
    counts = [0, 1, 3, 5]
    names, values = comparison.measures(arm('a', counts, n=5), 5)
    for k in range(1, 6):
        expected = [
            np.mean(
                [any(i < c for i in s) for s in itertools.combinations(range(5), k)]
            )
            for c in counts
        ]
        column = values[0, :, names.index(f'pass_at_{k}')]
        np.testing.assert_allclose(column, expected, rtol=1e-12)
        reference = metrics.pass_at_k(5, np.array(counts), k=k)
        np.testing.assert_allclose(column, reference, rtol=1e-12)


def test_the_largest_k_is_the_fewest_responses_of_any_arm():
    measures = compare([arm('a', [1, 2], n=8), arm('b', [1, 2], n=5)])
    ks = [name for name in measures if name.startswith('pass_at_')]
    assert ks == [f'pass_at_{k}' for k in range(1, 6)]


def test_an_arm_beside_itself_differs_by_nothing():
    counts = [3, 1, 7], [2, 2, 8]
    measures = compare([arm('a', *counts), arm('b', *counts)])
    for _, other in measures.values():
        assert other.over_problems == comparison.Estimate(0.0, 0.0, 0.0)
        assert other.over_seeds == comparison.Estimate(0.0, 0.0, 0.0)


def test_pairing_removes_what_the_problems_share():
    # The difference is 1/8 for every problem, whichever are drawn.
    base = np.random.default_rng(0).integers(0, 8, 300)
    measures = compare([arm('a', base), arm('b', base + 1)])
    first, second = measures['pass_at_1']
    gap = second.over_problems
    np.testing.assert_allclose([gap.mean, gap.low, gap.high], 1 / 8, rtol=1e-12)
    assert second.value.high - second.value.low > 0.05
    assert first.over_problems is None


def test_the_bootstrap_has_the_width_of_the_standard_error():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 9, (2, 1000))
    gap = compare([arm('a', a), arm('b', b)])['pass_at_1'][1].over_problems
    error = ((b - a) / 8).std() / np.sqrt(1000)
    assert gap.high - gap.low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert gap.low < gap.mean < gap.high


def test_the_bootstrap_draws_from_the_means_of_all_seeds():
    rng = np.random.default_rng(3)
    seeds = rng.integers(0, 9, (2, 40))
    base = arm('a', rng.integers(0, 9, 40))
    one = compare([base, arm('b', *seeds)])['pass_at_1'][1]
    other = compare([base, arm('b', *seeds[::-1])])['pass_at_1'][1]
    assert (one.value, one.over_problems) == (other.value, other.over_problems)


def test_seeds_have_students_interval():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 9, (2, 4, 50))
    row = compare([arm('a', *a), arm('b', *b)])['pass_at_1']
    np.testing.assert_allclose(row[1].by_seed, b.mean(axis=1) / 8)
    expected = metrics.paired_interval(b.mean(axis=1) / 8, a.mean(axis=1) / 8)
    over = row[1].over_seeds
    np.testing.assert_allclose([over.mean, over.low, over.high], expected)


def test_arms_of_different_numbers_of_seeds_have_no_interval_over_seeds():
    row = compare([arm('a', [1, 2], [1, 1]), arm('b', [2, 2])])['pass_at_1']
    assert row[1].over_seeds is None
    assert row[1].over_problems.mean == pytest.approx(2 / 8 - 5 / 32)


def test_sets_of_solved_problems():
    first = arm('a', [1, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0])
    sets = solved([first, arm('b', [0, 3, 0, 1])])
    # In one of three seeds is not solved; in two of three is.
    assert sets == {'only a': [], 'only b': [7], 'all': [21], 'none': [0, 14]}


def test_cover_counts_the_problems_at_or_above_tau():
    measures = compare([arm('a', [0, 2, 4, 8]), arm('b', [8, 8, 8, 8])])
    assert measures['cover_at_0.25'][0].value.mean == 0.75
    assert measures['cover_at_1'][0].value.mean == 0.25


@pytest.mark.parametrize(
    ('arms', 'message'),
    [
        (lambda: [arm('a', [1])], 'name at least two'),
        (lambda: [arm('a', [1]), arm('a', [2])], 'two arms have one name'),
        (
            lambda: [arm('a', [1]), arm('b', [1, 2])],
            'different problems, 1 in all',
        ),
        (lambda: [arm('a', [1], [1, 2])], 'have different problems'),
        (lambda: [arm('a', [])], 'a0 has no problem'),
        (lambda: [arm('a', [9])], r'num_correct must lie in \[0, num_responses\]'),
        (lambda: [make_arm('a', [])], 'has no runs'),
    ],
)
def test_what_cannot_be_compared(arms, message):
    with pytest.raises(ValueError, match=message):
        compare(arms())

"""Which problems an evaluation solves that another does not."""

import pytest

from passk_jax.diagnostics.flips import Flips, flips


def test_problems_flip_in_both_directions_and_only_over_zero():
    before = {7: 0, 3: 0, 5: 1, 2: 8, 9: 0, 4: 1}
    after = {2: 1, 3: 4, 4: 0, 5: 0, 7: 1, 9: 0}
    # 2 keeps one of eight, and 9 none; the ids ascend.
    assert flips(before, after) == Flips(solved=(3, 7), unsolved=(4, 5))
    assert flips(after, before) == Flips(solved=(4, 5), unsolved=(3, 7))
    assert flips(before, before) == Flips((), ())


def test_other_problems_or_impossible_counts_are_an_error():
    with pytest.raises(ValueError, match=r'2 in all, for example 1; compare'):
        flips({1: 0, 2: 0}, {2: 0, 3: 0})
    with pytest.raises(ValueError, match=r'negative: \{2: -1\}'):
        flips({2: 0}, {2: -1})

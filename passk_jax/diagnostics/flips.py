"""Finds problems that turn from solved to unsolved between two evaluations, or back."""

import dataclasses
from collections.abc import Mapping

from passk_jax.errors import InputError
from passk_jax.evaluation.comparison import check_same_problems


@dataclasses.dataclass(frozen=True)
class Flips:
    """Ids of the problems that are newly solved, or no longer solved, ascending."""

    solved: tuple[int, ...]
    unsolved: tuple[int, ...]


def flips(before: Mapping[int, int], after: Mapping[int, int]) -> Flips:
    """Compares two evaluations of the same problems.

    A problem is solved if at least one of its n responses is correct (c > 0), as in
    pass@n. Responses are random, so a problem that is rarely solved may flip although
    the policy stays the same. With fewer responses this happens more often.

    Args:
        before, after: problem id -> c, its number of correct responses.

    Raises:
        ValueError: the problems differ, or a count is negative.

    >>> flips({1: 0, 2: 3, 3: 1}, {1: 2, 2: 0, 3: 4})
    Flips(solved=(1,), unsolved=(2,))
    """
    check_same_problems('the first evaluation', before, 'the second', after)
    for counts in (before, after):
        if negative := {i: c for i, c in counts.items() if c < 0}:
            raise InputError(f'numbers of correct responses are negative: {negative}')
    changed = [i for i in sorted(before) if (before[i] > 0) != (after[i] > 0)]
    return Flips(
        solved=tuple(i for i in changed if after[i] > 0),
        unsolved=tuple(i for i in changed if before[i] > 0),
    )


def common_flips(before: Mapping[int, int], after: Mapping[int, int]) -> Flips:
    """Computes :func:`flips` of the common problems; a file may be incomplete."""
    both = before.keys() & after.keys()
    return flips(*({i: counts[i] for i in both} for counts in (before, after)))

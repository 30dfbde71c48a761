"""Compares policies by the (n, c) of the same problems, on the host in float64.

An arm is one policy, or one training repeated with several seeds. All measures need
only how many of n responses to each problem are correct, so any k up to n can be
compared. The first arm is the baseline of all differences.

Two intervals answer two questions. The *paired bootstrap* resamples problems, the same
for every arm: would other problems of this kind give the same difference? The *paired
t* is over seeds: would another training run give the same difference?
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from passk_jax.errors import InputError
from passk_jax.evaluation import metrics

COVERAGES = tuple(i / 20 for i in range(1, 21))
"""The values of tau at which Cover@tau is compared."""

_LEVEL = 0.95
# The resamples and the seed of the paired bootstrap.
_SAMPLES, _SEED = 2000, 0


@dataclasses.dataclass(frozen=True)
class Arm:
    """The counts of one arm.

    Attributes:
        name: the arm's name in tables.
        problems: ids of the P problems, ascending.
        num_responses: ``[S, P]`` int64, n of each seed and problem.
        num_correct: ``[S, P]`` int64, c of each seed and problem.
        sources: the file of each seed's counts.
    """

    name: str
    problems: np.ndarray
    num_responses: np.ndarray
    num_correct: np.ndarray
    sources: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % interval; both ends are NaN where there is no interval."""

    mean: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Measured:
    """One measure of one arm.

    Attributes:
        value: mean over seeds and problems, with an interval over problems.
        by_seed: mean over problems, for each seed.
        over_problems: difference to the baseline, by a paired bootstrap; ``None`` for
            the baseline.
        over_seeds: the same difference, by a paired t interval; ``None`` for the
            baseline, with fewer than two seeds, or if the numbers of seeds differ.
    """

    value: Estimate
    by_seed: tuple[float, ...]
    over_problems: Estimate | None
    over_seeds: Estimate | None


def make_arm(
    name: str, seeds: Sequence[tuple[str, Mapping[int, tuple[int, int]]]]
) -> Arm:
    """Makes an arm from the counts of its seeds.

    Args:
        name: the arm's name in tables.
        seeds: for each seed, the source and ``problem id -> (n, c)``.

    Raises:
        InputError: no seed, no problem, seeds with different problems, or bad counts.
    """
    if not seeds:
        raise InputError(f'arm {name!r} has no runs')
    where, first = seeds[0]
    for other, counts in seeds:
        if not counts:
            raise InputError(f'{other} has no problem')
        check_same_problems(where, first.keys(), other, counts.keys())
    problems = np.array(sorted(first))
    pairs = np.array([[counts[i] for i in problems] for _, counts in seeds], np.int64)
    responses, correct = pairs[..., 0], pairs[..., 1]
    metrics.check_counts(responses, correct, k=1)
    sources = tuple(source for source, _ in seeds)
    return Arm(name, problems, responses, correct, sources)


def compare(arms: Sequence[Arm]) -> dict[str, list[Measured]]:
    """Measures every arm and its difference to the first one, the baseline.

    Args:
        arms: arms of the same problems; their numbers of responses may differ.

    Returns:
        The measures of each arm: ``pass_at_<k>`` for every k up to the fewest responses
        of a problem, then ``cover_at_<tau>`` for every tau of :data:`COVERAGES`.

    Raises:
        InputError: fewer than two arms, two of one name, or arms with different
            problems.
    """
    if len(arms) < 2:
        raise InputError(f'{len(arms)} arm cannot be compared; name at least two')
    check_names([arm.name for arm in arms])
    for arm in arms[1:]:
        names = arms[0].name, arms[0].problems, arm.name, arm.problems
        check_same_problems(*names)
    largest = min(int(arm.num_responses.min()) for arm in arms)
    names, _ = measures(arms[0], largest)
    # [S, P, M] for each arm.
    values = [measures(arm, largest)[1] for arm in arms]
    drawn = _bootstrap_means([x.mean(axis=0) for x in values])
    estimate = functools.partial(_estimate, num_problems=len(arms[0].problems))
    measurements: dict[str, list[Measured]] = {}
    for m, name in enumerate(names):
        by_seed = [x[..., m].mean(axis=1) for x in values]
        base = by_seed[0]
        row = []
        for i, seed_means in enumerate(by_seed):
            mean = float(seed_means.mean())
            over_problems = over_seeds = None
            if i:
                gap = float(seed_means.mean() - base.mean())
                over_problems = estimate(gap, drawn[i][:, m] - drawn[0][:, m])
                if len(seed_means) == len(base) > 1:
                    over_seeds = Estimate(*metrics.paired_interval(seed_means, base))
            value = estimate(mean, drawn[i][:, m])
            row.append(
                Measured(value, tuple(seed_means.tolist()), over_problems, over_seeds)
            )
        measurements[name] = row
    return measurements


def check_names(names: Sequence[str]) -> None:
    """Raises InputError if two arms have one name."""
    if len(set(names)) < len(names):
        raise InputError(f'two arms have one name: {[*names]}; write NAME=RUN')


def measures(arm: Arm, largest: int) -> tuple[list[str], np.ndarray]:
    """Computes M measures; returns their names and values ``[S, P, M]``.

    Args:
        arm: the arm.
        largest: the largest k of Pass@k.
    """
    counts = arm.num_responses, arm.num_correct
    passed = metrics.pass_at_each_k(*counts, largest=largest)
    covered = [metrics.cover_at(*counts, tau=tau) for tau in COVERAGES]
    names = [f'pass_at_{k}' for k in range(1, largest + 1)]
    names += [f'cover_at_{tau:g}' for tau in COVERAGES]
    return names, np.concatenate([passed, np.stack(covered, -1)], axis=-1)


def solved(arms: Sequence[Arm]) -> dict[str, list[int]]:
    """Finds the problems that only one arm, all arms, or no arm solves.

    An arm solves a problem if at least half of its seeds have a correct response to it.
    More responses solve more problems, so arms need the same number.

    Returns:
        Ascending ids under ``only <arm>`` for every arm, ``all`` and ``none``. Empty if
        the numbers of responses differ.
    """
    if len({int(n) for arm in arms for n in np.unique(arm.num_responses)}) > 1:
        return {}
    solves = np.stack(
        [2 * (a.num_correct > 0).sum(0) >= len(a.num_correct) for a in arms]
    )
    count, problems = solves.sum(axis=0), arms[0].problems
    sets = {
        f'only {arm.name}': arm_solves & (count == 1)
        for arm, arm_solves in zip(arms, solves, strict=True)
    }
    sets |= {'all': count == len(arms), 'none': count == 0}
    return {name: problems[chosen].tolist() for name, chosen in sets.items()}


def _bootstrap_means(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Bootstraps means ``[samples, M]`` of each ``[P, M]``, with the same draws."""
    rng, num_problems = np.random.default_rng(_SEED), len(values[0])
    means: list[list[np.ndarray]] = [[] for _ in values]
    for _ in range(0, _SAMPLES, 100):
        # Drawing P problems with replacement gives multinomial counts.
        counts = rng.multinomial(num_problems, [1 / num_problems] * num_problems, 100)
        for arm_means, x in zip(means, values, strict=True):
            arm_means.append(counts @ x / num_problems)
    return [np.concatenate(arm_means) for arm_means in means]


def _estimate(mean: float, drawn: np.ndarray, *, num_problems: int) -> Estimate:
    if num_problems < 2:
        # All resamples of a single problem are equal, so there is no interval.
        return Estimate(mean, np.nan, np.nan)
    low, high = np.quantile(drawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(mean, float(low), float(high))


def check_same_problems(
    name: str, ids: Iterable[int], other: str, other_ids: Iterable[int]
) -> None:
    """Raises InputError with both names if the problem ids differ."""
    if differing := sorted(set(ids) ^ set(other_ids)):
        raise InputError(
            f'{name} and {other} have different problems, {len(differing)} in all, for '
            f'example {differing[0]}; compare evaluations of one split and num_problems'
        )

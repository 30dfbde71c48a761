"""What the results of a sweep say of the end of training; for other experiments.

It reads ``results/<name>.jsonl.gz`` alone, so it needs no run and starts none.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from passk_jax.errors import InputError
from passk_jax.report.arms import Interval, difference
from passk_jax.report.run_data import Row
from passk_jax.sweeps import Sweep
from passk_jax.sweeps.rows import join_stages, read_rows


@dataclasses.dataclass(frozen=True)
class LastEvaluations:
    """The last evaluations of the arms that have all seeds.

    Attributes:
        seeds: those that more than half of the arms have.
        baseline: the arm that others are compared with.
        values: arm -> measure -> ``[S]``, NaN where undefined.
        left_out: the arms that lack a seed.
        dropped: seeds that half of the arms or fewer have.
    """

    seeds: tuple[int, ...]
    baseline: str
    values: Mapping[str, Mapping[str, np.ndarray]]
    left_out: tuple[str, ...]
    dropped: tuple[int, ...]

    def difference(self, arm: str, measure: str) -> Interval:
        """Computes an arm's difference from the baseline, seed by seed."""
        of_arm, of_base = self.values[arm], self.values[self.baseline]
        return difference(of_arm[measure], of_base[measure])

    @property
    def note(self) -> str:
        """Says which arms and seeds are left out; ``''``: none."""
        sentences = []
        if self.left_out:
            names = ', '.join(self.left_out)
            sentences.append(
                f'Without {names}: they have no last evaluation of every seed.'
            )
        if self.dropped:
            names = ', '.join(map(str, self.dropped))
            sentences.append(f'Without seeds that few arms have: {names}.')
        return ' '.join(sentences)


def read_last(
    sweep: Sweep, directory: pathlib.Path, measures: Sequence[str]
) -> LastEvaluations:
    """Reads the evaluations of ``sweep.split`` at the last step.

    Raises:
        InputError: there are none, or the baseline lacks a seed.
    """
    path, rows = _rows(sweep, directory)
    end = max((row['step'] for row in rows), default=0)
    by_arm: dict[str, dict[int, Row]] = {arm.name: {} for arm in sweep.arms}
    for row in rows:
        if row['step'] == end and row['arm'] in by_arm:
            by_arm[row['arm']][row['seed']] = row
    having = collections.Counter(seed for of_arm in by_arm.values() for seed in of_arm)
    seeds = tuple(sorted(s for s, arms in having.items() if 2 * arms > len(by_arm)))
    left_out = tuple(arm for arm in by_arm if not by_arm[arm].keys() >= {*seeds})
    if not seeds or sweep.baseline in left_out:
        raise InputError(
            f'{path} has no results of {sweep.baseline} with every seed of most arms, '
            f'{[*seeds]}, so run the sweep on'
        )
    values = {
        arm: _by_measure(of_arm, seeds, measures)
        for arm, of_arm in by_arm.items()
        if arm not in left_out
    }
    dropped = tuple(sorted(having.keys() - {*seeds}))
    return LastEvaluations(seeds, sweep.baseline, values, left_out, dropped)


def read_first(
    sweep: Sweep,
    directory: pathlib.Path,
    measures: Sequence[str],
    last: LastEvaluations,
) -> Mapping[str, np.ndarray]:
    """Reads the evaluations of the first policy of each seed of ``last``.

    Returns:
        Measure -> ``[S]``, NaN where undefined.

    Raises:
        InputError: a seed has none.
    """
    steps = read_steps(sweep, directory, measures, last, arm=last.baseline)
    if 0 not in steps:
        path, _ = _rows(sweep, directory)
        seeds = [*last.seeds]
        raise InputError(f'{path} has no first evaluation of all the seeds {seeds}')
    return steps[0]


def read_steps(
    sweep: Sweep,
    directory: pathlib.Path,
    measures: Sequence[str],
    last: LastEvaluations,
    *,
    arm: str,
    split: str = '',
) -> Mapping[int, Mapping[str, np.ndarray]]:
    """Reads the evaluations of an arm at the steps that every seed of ``last`` has.

    Args:
        split: of the evaluations; ``''``: ``sweep.split``.

    Returns:
        Step, in order -> measure -> ``[S]``, NaN where undefined.
    """
    _, rows = _rows(sweep, directory, split)
    steps: dict[int, dict[int, Row]] = collections.defaultdict(dict)
    for row in rows:
        if row['arm'] == arm:
            steps[row['step']][row['seed']] = row
    return {
        step: _by_measure(of_step, last.seeds, measures)
        for step, of_step in sorted(steps.items())
        if of_step.keys() >= {*last.seeds}
    }


def _by_measure(
    rows: Mapping[int, Row], seeds: Sequence[int], measures: Sequence[str]
) -> Mapping[str, np.ndarray]:
    """Returns measure -> ``[S]``, of each seed's row; NaN where undefined."""
    return {x: np.array([rows[s].get(x, np.nan) for s in seeds]) for x in measures}


def _rows(
    sweep: Sweep, directory: pathlib.Path, split: str = ''
) -> tuple[pathlib.Path, list[Row]]:
    path = directory / f'{sweep.name}.jsonl.gz'
    rows = join_stages(read_rows(path)) if path.exists() else []
    return path, [row for row in rows if row['split'] == (split or sweep.split)]

"""Do gain and price of Pass@k Training hold for other mazes?

    python -m experiments.new_mazes

It reads the results of experiments/sweeps/new_mazes.py, whose sets of mazes are crossed
with seeds, and trains nothing. ``results/new_mazes.md`` has the difference of Pass@4
Training from Pass@1 Training for each set, with its interval over seeds, and for all
sets with intervals over sets, over seeds, and over both: the last is for a new set and
a new seed. It also has the standard deviations of sets, of seeds and of what is left,
the components of a two-way layout without repetition (H. Scheffé, "The Analysis of
Variance", 1959, section 7.4), negative ones as 0.
"""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from experiments.last_evaluations import read_last
from experiments.sweeps.new_mazes import SETS, get_sweep
from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.report.arms import (
    Interval,
    format_difference,
    markdown_table,
    mean_interval,
)

MEASURES = {
    'pass_at_1': 'Pass@1',
    'pass_at_4': 'Pass@4',
    'pass_at_32': 'Pass@32',
    'entropy': 'entropy (nats a token)',
}


@dataclasses.dataclass(frozen=True)
class Crossed:
    """The analysis of values that depend on a set and on a seed.

    Attributes:
        interval: the mean and its 95 % interval, for a new set and a new seed.
        sets, seeds, rest: standard deviations of the three components.
    """

    interval: Interval
    sets: float
    seeds: float
    rest: float


def main(*, results: str = 'experiments/results') -> None:
    """Writes the table and prints it."""
    directory = pathlib.Path(results)
    text = '\n'.join(table(*read(directory))) + '\n'
    atomic_write_text(directory / 'new_mazes.md', text)
    print(text, end='')


def read(directory: pathlib.Path) -> tuple[list[int], Mapping[str, np.ndarray]]:
    """Reads the sets that have results.

    Returns:
        The sets, and measure -> differences ``[T, S]`` of T sets and S seeds.

    Raises:
        InputError: fewer than two sets have results, or they have different seeds.
    """
    sweeps = {mazes: get_sweep(f'mazes={mazes}') for mazes in SETS}
    found, seeds = {}, set()
    for mazes, sweep in sweeps.items():
        if (directory / f'{sweep.name}.jsonl.gz').exists():
            last = read_last(sweep, directory, [*MEASURES])
            seeds.add(last.seeds)
            found[mazes] = last.values['pass_at_k'], last.values['pass_at_1']
    if len(found) < 2:
        raise InputError(f'{directory} has results of the sets {[*found]}: run others')
    if len(seeds) > 1:
        raise InputError(f'sets have different seeds, {sorted(seeds)}: run them on')
    return [*found], {
        name: np.stack([of_k[name] - of_1[name] for of_k, of_1 in found.values()])
        for name in MEASURES
    }


def analyse(values: np.ndarray) -> Crossed:
    """Takes values ``[T, S]`` apart into components of sets, seeds and the rest.

    The variance of the mean is (M_sets + M_seeds - M_rest) / (T S), of the three mean
    squares; if that is less than M_rest / (T S), M_rest / (T S). The degrees of freedom
    are Satterthwaite's.
    """
    num_sets, num_seeds = values.shape
    mean = values.mean()
    of_sets, of_seeds = values.mean(axis=1), values.mean(axis=0)
    rest = values - of_sets[:, None] - of_seeds + mean
    free = (num_sets - 1) * (num_seeds - 1)
    m_sets = num_seeds * of_sets.var(ddof=1)
    m_seeds = num_sets * of_seeds.var(ddof=1)
    m_rest = (rest**2).sum() / free
    square = max(m_sets + m_seeds - m_rest, m_rest)
    terms = (
        m_sets**2 / (num_sets - 1),
        m_seeds**2 / (num_seeds - 1),
        m_rest**2 / free,
    )
    degrees = square**2 / sum(terms)
    half = special.stdtrit(degrees, 0.975) * math.sqrt(square / values.size)
    return Crossed(
        interval=(float(mean), float(mean - half), float(mean + half)),
        sets=math.sqrt(max(m_sets - m_rest, 0) / num_seeds),
        seeds=math.sqrt(max(m_seeds - m_rest, 0) / num_sets),
        rest=math.sqrt(m_rest),
    )


def table(sets: Sequence[int], found: Mapping[str, np.ndarray]) -> list[str]:
    """Returns a row for each set, for all sets, and for each component."""
    num_sets, num_seeds = next(iter(found.values())).shape
    rows = [
        [f'set {mazes}', *(_over(values[row]) for values in found.values())]
        for row, mazes in enumerate(sets)
    ]
    analysed = [analyse(values) for values in found.values()]
    rows += [
        ['all, over sets', *(_over(values.mean(axis=1)) for values in found.values())],
        ['all, over seeds', *(_over(values.mean(axis=0)) for values in found.values())],
        ['all, over both', *(format_difference(x.interval) for x in analysed)],
        ['deviation of sets', *(f'{x.sets:.3f}' for x in analysed)],
        ['deviation of seeds', *(f'{x.seeds:.3f}' for x in analysed)],
        ['deviation of the rest', *(f'{x.rest:.3f}' for x in analysed)],
    ]
    head = f'test split, {num_sets} sets x {num_seeds} seeds'
    return markdown_table([head, *MEASURES.values()], rows)


def _over(values: np.ndarray) -> str:
    return format_difference(mean_interval(values))


if __name__ == '__main__':
    cli.run(main)

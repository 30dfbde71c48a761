"""Do gain and price of Pass@k Training hold for other mazes?

    python -m experiments.new_mazes

It reads the results of experiments/sweeps/new_mazes.py, whose sets of mazes are crossed
with seeds, and trains nothing. ``results/new_mazes.md`` has the difference of Pass@4
Training from Pass@1 Training for each set, with its interval over seeds, and for all
sets, with sets and seeds as random effects (experiments/crossed.py).
"""

import pathlib
from collections.abc import Mapping

import numpy as np

from experiments.crossed import table
from experiments.last_evaluations import read_last
from experiments.sweeps.new_mazes import SETS, get_sweep
from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text

MEASURES = {
    'pass_at_1': 'Pass@1',
    'pass_at_4': 'Pass@4',
    'pass_at_32': 'Pass@32',
    'entropy': 'entropy (nats a token)',
}


def main(*, results: str = 'experiments/results') -> None:
    """Writes the table and prints it."""
    directory = pathlib.Path(results)
    sets, by_measure = read(directory)
    names = [f'set {mazes}' for mazes in sets]
    differences = {MEASURES[name]: by_measure[name] for name in MEASURES}
    text = '\n'.join(table(names, differences, factor='sets')) + '\n'
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
    by_set, seeds = {}, set()
    for mazes, sweep in sweeps.items():
        if (directory / f'{sweep.name}.jsonl.gz').exists():
            last = read_last(sweep, directory, [*MEASURES])
            seeds.add(last.seeds)
            by_set[mazes] = last.values['pass_at_k'], last.values['pass_at_1']
    if len(by_set) < 2:
        raise InputError(f'{directory} has results of the sets {[*by_set]}: run others')
    if len(seeds) > 1:
        raise InputError(f'sets have different seeds, {sorted(seeds)}: run them on')
    return [*by_set], {
        name: np.stack([of_k[name] - of_1[name] for of_k, of_1 in by_set.values()])
        for name in MEASURES
    }


if __name__ == '__main__':
    cli.run(main)

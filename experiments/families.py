"""Do gain and price of Pass@k Training hold for a new family of puzzles?

    python -m experiments.families

It reads the results of experiments/sweeps/families.py and trains nothing.
``results/families_crossed.md`` has the difference of Pass@4 Training from Pass@1
Training for each family, with its interval over seeds, and for all, with families and
seeds as random effects (experiments/crossed.py).
"""

import pathlib

import numpy as np

from configs.families_tiny import FAMILIES
from experiments.crossed import table
from experiments.last_evaluations import read_last
from experiments.sweeps.families import get_sweep
from passk_jax import cli
from passk_jax.files import atomic_write_text

MEASURES = {'pass_at_1': 'Pass@1', 'pass_at_32': 'Pass@32'}


def main(*, results: str = 'experiments/results') -> None:
    """Writes the table and prints it."""
    directory = pathlib.Path(results)
    names = [family.rpartition('/')[2] for family in FAMILIES]
    text = '\n'.join(table(names, read(directory), factor='families')) + '\n'
    atomic_write_text(directory / 'families_crossed.md', text)
    print(text, end='')


def read(directory: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads label of a measure -> differences ``[F, S]`` of F families and S seeds."""
    keys = [f'{family}/{name}' for family in FAMILIES for name in MEASURES]
    last = read_last(get_sweep(), directory, keys)
    of_k, of_1 = last.values['pass_at_k'], last.values['pass_at_1']
    return {
        label: np.stack([of_k[f'{x}/{name}'] - of_1[f'{x}/{name}'] for x in FAMILIES])
        for name, label in MEASURES.items()
    }


if __name__ == '__main__':
    cli.run(main)

"""Do gain and price of Pass@k Training hold for a new family of problems?

    python -m experiments.families
    python -m experiments.families --of=smollm2

It reads the results of experiments/sweeps/families.py, or those of the variant
``families`` of experiments/sweeps/smollm2.py, and trains nothing.
``results/<sweep>_crossed.md`` has the difference of Pass@4 Training from Pass@1
Training for each family, with its interval over seeds, and for all, with families and
seeds as random effects (experiments/crossed.py).
"""

import pathlib
from collections.abc import Collection

import numpy as np

from configs.families_tiny import FAMILIES
from configs.smollm2 import MANY
from experiments.crossed import table
from experiments.last_evaluations import read_last
from experiments.sweeps import families as of_puzzles
from experiments.sweeps import smollm2 as of_smollm2
from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.sweeps import Sweep

MEASURES = {'pass_at_1': 'Pass@1', 'pass_at_32': 'Pass@32'}
# Name of a study -> its sweep, its families, and what the table calls them.
_STUDIES = {
    'puzzles': (of_puzzles.get_sweep(), FAMILIES, 'families'),
    'smollm2': (of_smollm2.get_sweep('variant=families'), MANY, 'sets'),
}


def main(*, of: str = 'puzzles', results: str = 'experiments/results') -> None:
    """Writes the table of a study and prints it."""
    if of not in _STUDIES:
        raise InputError(f'--of={of} must be one of {sorted(_STUDIES)}')
    sweep, families, factor = _STUDIES[of]
    directory = pathlib.Path(results)
    names = [family.rpartition('/')[2] for family in families]
    differences = read(sweep, families, directory)
    text = '\n'.join(table(names, differences, factor=factor)) + '\n'
    atomic_write_text(directory / f'{sweep.name}_crossed.md', text)
    print(text, end='')


def read(
    sweep: Sweep, families: Collection[str], directory: pathlib.Path
) -> dict[str, np.ndarray]:
    """Reads label of a measure -> differences ``[F, S]`` of F families and S seeds."""
    keys = [f'{family}/{name}' for family in families for name in MEASURES]
    last = read_last(sweep, directory, keys)
    of_k, of_1 = last.values['pass_at_k'], last.values['pass_at_1']
    return {
        label: np.stack([of_k[f'{x}/{name}'] - of_1[f'{x}/{name}'] for x in families])
        for name, label in MEASURES.items()
    }


if __name__ == '__main__':
    cli.run(main)

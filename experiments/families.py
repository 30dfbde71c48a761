"""Do gain and price of Pass@k Training hold for a new family of problems?

    python -m experiments.families
    python -m experiments.families --of=smollm2

It reads the results of experiments/sweeps/families.py, or those of the variant
``families`` of experiments/sweeps/smollm2.py, and trains nothing.
``results/<sweep>_crossed.md`` has the difference of Pass@4 Training from Pass@1
Training for each family, with its interval over seeds, and for all, with families and
seeds as random effects (experiments/crossed.py). Of the language model it also has the
sets that only this variant has, minus the others.
"""

import dataclasses
import pathlib
from collections.abc import Collection, Sequence

import numpy as np

from configs.families_tiny import FAMILIES
from configs.smollm2 import MANY, SETS
from experiments.crossed import table
from experiments.last_evaluations import read_last
from experiments.sweeps import families as of_puzzles
from experiments.sweeps import smollm2 as of_smollm2
from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.report.arms import format_difference, mean_interval
from passk_jax.sweeps import Sweep

MEASURES = {'pass_at_1': 'Pass@1', 'pass_at_32': 'Pass@32'}


@dataclasses.dataclass(frozen=True)
class Study:
    """A sweep over families of problems.

    Attributes:
        sweep: the sweep.
        families: the categories of its results.
        factor: what the table calls them.
        first: those that other sweeps have too; the table compares the others with
            them.
    """

    sweep: Sweep
    families: Collection[str]
    factor: str = 'families'
    first: Collection[str] = ()


STUDIES = {
    'puzzles': Study(of_puzzles.get_sweep(), FAMILIES),
    'smollm2': Study(
        of_smollm2.get_sweep('variant=families'), MANY, factor='sets', first=SETS
    ),
}


def main(*, of: str = 'puzzles', results: str = 'experiments/results') -> None:
    """Writes the table of a study and prints it."""
    if of not in STUDIES:
        raise InputError(f'--of={of} must be one of {sorted(STUDIES)}')
    study, directory = STUDIES[of], pathlib.Path(results)
    names = [family.rpartition('/')[2] for family in study.families]
    differences = read(study, directory)
    last = [new_minus_first(study, [*differences.values()])] if study.first else []
    lines = table(names, differences, factor=study.factor, last=last)
    text = '\n'.join(lines) + '\n'
    atomic_write_text(directory / f'{study.sweep.name}_crossed.md', text)
    print(text, end='')


def read(study: Study, directory: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads label of a measure -> differences ``[F, S]`` of F families and S seeds."""
    keys = [f'{family}/{name}' for family in study.families for name in MEASURES]
    last = read_last(study.sweep, directory, keys)
    of_k, of_1 = last.values['pass_at_k'], last.values['pass_at_1']
    return {
        label: np.stack(
            [of_k[f'{x}/{name}'] - of_1[f'{x}/{name}'] for x in study.families]
        )
        for name, label in MEASURES.items()
    }


def new_minus_first(study: Study, differences: Sequence[np.ndarray]) -> list[str]:
    """Returns a row: the mean of the new families minus that of the first, by seed."""
    new = np.array([family not in study.first for family in study.families])
    intervals = [
        mean_interval(x[new].mean(axis=0) - x[~new].mean(axis=0)) for x in differences
    ]
    name = f'{new.sum()} new minus {(~new).sum()} others, over seeds'
    return [name, *map(format_difference, intervals)]


if __name__ == '__main__':
    cli.run(main)

"""Does a verdict depend on the last evaluation alone?

    python -m experiments.last_three

The tables of the sweeps compare the last evaluations of runs. This compares Pass@4 with
Pass@1 Training, seed by seed, at the last evaluation and by the mean of the last three,
on the split that a sweep evaluates during training. It reads results, trains nothing
and writes ``results/last_three.md``.
"""

import pathlib
from collections.abc import Mapping

import numpy as np

from experiments.last_evaluations import read_last, read_steps
from passk_jax import cli
from passk_jax.cli import config_file
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.report.arms import format_difference, markdown_table, mean_interval
from passk_jax.sweeps import Sweep

# Setting -> the sweep, and its arm of Pass@4 Training.
_SWEEPS = {
    'hard mazes': ('experiments/sweeps/estimators.py', 'pass_at_k'),
    'hard mazes, knobs': (
        'experiments/sweeps/knobs.py:difficulty=hard',
        'pass_at_k_4',
    ),
    'medium mazes': ('experiments/sweeps/passk_vs_pass1.py', 'pass_at_k'),
    'medium mazes, knobs': (
        'experiments/sweeps/knobs.py:difficulty=medium',
        'pass_at_k_4',
    ),
    'easy mazes': ('experiments/sweeps/estimators.py:variant=easy', 'pass_at_k'),
    'five puzzles': ('experiments/sweeps/puzzles.py', 'pass_at_k'),
    'fifteen families of puzzles': ('experiments/sweeps/families.py', 'pass_at_k'),
}
_MEASURES = {'pass_at_1': 'Pass@1', 'pass_at_32': 'Pass@32'}
_NUMBER = 3


def main(*, results: str = 'experiments/results') -> None:
    """Writes the table and prints it."""
    directory = pathlib.Path(results)
    rows = []
    for setting, (config, arm) in _SWEEPS.items():
        sweep = config_file.call(config, 'get_sweep', returns=Sweep)
        split = sweep.curves or sweep.split
        differences = read_differences(sweep, directory, arm, split=split)
        cells = [
            format_difference(
                mean_interval(differences[measure][-number:].mean(axis=0))
            )
            for measure in _MEASURES
            for number in (1, _NUMBER)
        ]
        num_seeds = differences['pass_at_1'].shape[1]
        rows.append([f'{setting}, {num_seeds} seeds, {split}', *cells])
    heads = [
        f'{label}, {column}'
        for label in _MEASURES.values()
        for column in ('last', 'mean of three')
    ]
    text = '\n'.join(markdown_table(['Pass@4 minus Pass@1 Training', *heads], rows))
    atomic_write_text(directory / 'last_three.md', text + '\n')
    print(text)


def read_differences(
    sweep: Sweep, directory: pathlib.Path, arm: str, *, split: str
) -> Mapping[str, np.ndarray]:
    """Reads measure -> differences from the baseline ``[evaluations, S]``.

    Raises:
        InputError: fewer than three evaluations after step 0 have all seeds.
    """
    last = read_last(sweep, directory, tuple(_MEASURES))
    of_arm, of_base = (
        read_steps(sweep, directory, tuple(_MEASURES), last, arm=name, split=split)
        for name in (arm, sweep.baseline)
    )
    steps = sorted((of_arm.keys() & of_base.keys()) - {0})
    if len(steps) < _NUMBER:
        raise InputError(f'{sweep.name} has evaluations of all seeds at {steps} only')
    return {
        measure: np.stack([of_arm[x][measure] - of_base[x][measure] for x in steps])
        for measure in _MEASURES
    }


if __name__ == '__main__':
    cli.run(main)

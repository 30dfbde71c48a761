"""What do 1,200 steps change, at each arm's best rate?

    python -m experiments.horizon

It reads the results of experiments/sweeps/horizon.py and trains nothing. Its table is
of the validation split, which was evaluated during training: each arm after 300 steps,
stopped early, and after 1,200. *Stopped early* is the first step whose Pass@1 is within
.01 of the run's highest, seed by seed. Beside Pass@1 Training's own values are the
differences of the other arms from it under the same rule.

With ``--rates`` it prints instead what ``variant=rates`` of that sweep chooses: the
rate of each arm with the highest Pass@1 at the end.

It writes ``results/horizon_steps.md``.
"""

import pathlib
from collections.abc import Mapping

import numpy as np

from experiments.last_evaluations import read_last, read_steps
from experiments.sweeps.horizon import ARMS, RATES, STEPS, get_sweep
from passk_jax import cli
from passk_jax.files import atomic_write_text
from passk_jax.report.arms import difference, format_difference, markdown_table

MEASURES = {'pass_at_1': 'Pass@1', 'pass_at_8': 'Pass@8', 'pass_at_32': 'Pass@32'}
SHORT = 300
# How far below the highest Pass@1 a run may be stopped.
MARGIN = 0.01

Steps = Mapping[int, Mapping[str, np.ndarray]]
"""Step -> measure -> ``[S]``."""


def main(*, results: str = 'experiments/results', rates: bool = False) -> None:
    """Writes the table and prints it, or prints the chosen rates."""
    directory = pathlib.Path(results)
    if rates:
        for arm, rate in chosen_rates(directory).items():
            print(f'{arm}: {rate:g}')
        return
    text = '\n'.join(table(read(directory))) + '\n'
    atomic_write_text(directory / 'horizon_steps.md', text)
    print(text, end='')


def chosen_rates(directory: pathlib.Path) -> dict[str, float]:
    """Returns the rate of each arm by the rule of the sweep."""
    last = read_last(get_sweep('variant=rates'), directory, ['pass_at_1'])
    return {
        arm: max(
            RATES, key=lambda rate: last.values[f'{arm}_{rate:g}']['pass_at_1'].mean()
        )
        for arm in ARMS
    }


def read(directory: pathlib.Path) -> dict[str, Steps]:
    """Reads arm -> the evaluations of its steps on the validation split."""
    sweep = get_sweep()
    last = read_last(sweep, directory, [*MEASURES])
    return {
        arm: read_steps(
            sweep, directory, [*MEASURES], last, arm=arm, split='validation'
        )
        for arm in last.values
    }


def stopped_early(steps: Steps) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
    """Returns the step at which each seed stops, ``[S]``, and its measures there."""
    numbers = np.array([*steps])
    pass_at_1 = np.stack([values['pass_at_1'] for values in steps.values()])
    first = (pass_at_1 >= pass_at_1.max(axis=0) - MARGIN).argmax(axis=0)
    seeds = np.arange(pass_at_1.shape[1])
    early = {
        name: np.stack([values[name] for values in steps.values()])[first, seeds]
        for name in MEASURES
    }
    return numbers[first], early


def table(by_arm: Mapping[str, Steps]) -> list[str]:
    """Returns three rows for each arm: a short run, stopped early, and a long run."""
    rows, base = [], {}
    for arm, steps in by_arm.items():
        stops, early = stopped_early(steps)
        ends = {
            f'{SHORT} steps': steps[SHORT],
            'stopped early': early,
            f'{STEPS} steps': steps[STEPS],
        }
        for end, values in ends.items():
            when = f' (at {stops.mean():.0f})' if end == 'stopped early' else ''
            cells = [
                f'{values[name].mean():.3f}'
                if end not in base
                else format_difference(difference(values[name], base[end][name]))
                for name in MEASURES
            ]
            rows.append([f'{ARMS[arm][0]}, {end}{when}', *cells])
        base = base or ends
    seeds = len(next(iter(base.values()))['pass_at_1'])
    return markdown_table([f'validation, {seeds} seeds', *MEASURES.values()], rows)


if __name__ == '__main__':
    cli.run(main)

"""Does the steepness of its weight say which estimator keeps more answers alive?

    python -m experiments.steepness

Under an estimator whose advantage is a curve, a problem that is solved with probability
p counts omega(p) times (``passk_jax.advantages.effective_weight``). Its steepness here
is omega(.01) / omega(.3): how much more a hard problem counts than an easy one. The
first expectation of experiments/sweeps/estimators.py is that steepness orders Pass@32
and the entropy at the end of training.

This reads the results of that sweep, or of another variant of it (``--config``). It
writes ``results/<name>_steepness.md``, Spearman's rank correlation over the estimators
for each seed with Student's t interval of the mean, and a figure, ``.png``. Of a sweep
that is still running it takes the seeds that every estimator has, and says so.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.stats

from passk_jax import cli, metrics
from passk_jax.advantages import effective_weight
from passk_jax.advantages.make import own_parameters
from passk_jax.cli import config_file
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_bytes, atomic_write_text
from passk_jax.report.arms import COLORS, markdown_table
from passk_jax.report.charts import as_png, new_rows
from passk_jax.report.run_data import Row, read_lines
from passk_jax.sweeps import Sweep

HARD, EASY = 0.01, 0.3

Values = Mapping[str, Mapping[str, np.ndarray]]


def main(
    *,
    config: str = 'experiments/sweeps/estimators.py',
    results: str = 'experiments/results',
) -> None:
    """Writes the table and the figure, and prints the table."""
    declared = config_file.call(config, 'get_sweep', returns=Sweep)
    directory = pathlib.Path(results)
    last, left_out = last_values(declared, directory)
    configs = json.loads((directory / f'{declared.name}.configs.json').read_text())
    steepness = {
        arm.label: value
        for arm in declared.arms
        if (value := steepness_of(configs[arm.name])) is not None
    }
    text = table(declared, steepness, last)
    if left_out:
        text += f'\nWithout seeds {left_out}, which not every estimator has.\n'
    name = f'{declared.name}_steepness'
    atomic_write_text(directory / f'{name}.md', text)
    image = draw(declared, steepness, last)
    atomic_write_bytes(directory / f'{name}.png', image)
    print(text, end='')


def steepness_of(saved: Mapping[str, Any]) -> float | None:
    """omega(.01) / omega(.3) of a saved config; ``None``: it is not one curve."""
    if saved['stages']:
        return None
    name = saved['advantage']['name']
    try:
        hard, easy = effective_weight(
            name,
            num_rollouts=saved['sampling']['num_rollouts'],
            p=np.array([HARD, EASY]),
            **own_parameters(name, saved['advantage']),
        )
    except InputError:
        return None
    # Equal weights are computed in different ways.
    return round(float(hard / easy), 4)


def last_values(sweep: Sweep, directory: pathlib.Path) -> tuple[Values, list[int]]:
    """Measures of the last evaluations, of the seeds that every arm has.

    Returns:
        Arm's label -> measure -> ``[S]``, NaN where undefined; and the seeds that are
        left out, because some arms lack them.

    Raises:
        InputError: no seed has results of every arm.
    """
    path = directory / f'{sweep.name}.jsonl'
    rows = [row for row in read_lines(path) if row['split'] == sweep.split]
    end = max((row['step'] for row in rows), default=0)
    found: dict[str, dict[int, Row]] = {arm.name: {} for arm in sweep.arms}
    for row in rows:
        if row['step'] == end and row['arm'] in found:
            found[row['arm']][row['seed']] = row
    every = {seed for of_arm in found.values() for seed in of_arm}
    seeds = sorted(every.intersection(*found.values()))
    if not seeds:
        lacking = [arm for arm, of_arm in found.items() if of_arm.keys() != every]
        raise InputError(
            f'{path} has no seed with results of every arm: {lacking or list(found)} '
            f'lack some of the seeds {sorted(every)}, so run the sweep on'
        )
    values = {
        arm.label: {
            measure: np.array(
                [found[arm.name][seed].get(measure, np.nan) for seed in seeds]
            )
            for measure in sweep.measures
        }
        for arm in sweep.arms
    }
    return values, sorted(every.difference(seeds))


def correlations(
    steepness: Mapping[str, float], last: Values, measure: str
) -> np.ndarray:
    """Spearman's rank correlation of steepness and a measure, ``[S]``."""
    values = np.stack([last[label][measure] for label in steepness])
    ranked = [*steepness.values()]
    return np.array(
        [scipy.stats.spearmanr(ranked, seed).statistic for seed in values.T]
    )


def table(sweep: Sweep, steepness: Mapping[str, float], last: Values) -> str:
    """The correlations, and below them the estimators in the order of steepness."""
    lines = markdown_table(
        ['at the end, against steepness', 'rank correlation', 'of each seed'],
        [
            [label, _with_interval(found), ' '.join(f'{x:+.2f}' for x in found)]
            for measure, label in sweep.measures.items()
            for found in [correlations(steepness, last, measure)]
        ],
    )
    lines += ['']
    lines += markdown_table(
        ['estimator', 'ω(.01) / ω(.3)', *sweep.measures.values()],
        [
            [
                label,
                f'{steepness[label]:.2f}',
                *(f'{last[label][measure].mean():.3f}' for measure in sweep.measures),
            ]
            for label in sorted(steepness, key=steepness.__getitem__)
        ],
    )
    return '\n'.join(lines) + '\n'


def _with_interval(of_seeds: np.ndarray) -> str:
    if len(of_seeds) < 2 or not np.isfinite(of_seeds).all():
        return f'{of_seeds.mean():+.2f}'
    # No correlation lies outside of [-1, 1].
    mean, *ends = metrics.paired_interval(of_seeds, np.zeros_like(of_seeds))
    low, high = np.clip(ends, -1, 1)
    return f'{mean:+.2f} [{low:+.2f}, {high:+.2f}]'


def draw(sweep: Sweep, steepness: Mapping[str, float], last: Values) -> bytes:
    """A panel for each measure, and a row for each estimator, the steepest on top.

    A small point is a seed, and a large one their mean.
    """
    rows = sorted(steepness, key=steepness.__getitem__)
    titles = [
        f'{label}\nrank correlation\n'
        + _with_interval(correlations(steepness, last, measure))
        for measure, label in sweep.measures.items()
    ]
    figure, axes = new_rows(
        [f'{name}: {steepness[name]:.3g}' for name in rows],
        titles,
        # In inches, as are the margins of the labels.
        size=(2.2 + 2.0 * len(titles), 0.27 * len(rows) + 1.5),
    )
    for ax, measure in zip(axes, sweep.measures, strict=True):
        for place, name in enumerate(rows):
            of_seeds = last[name][measure]
            ax.plot(of_seeds, [place] * len(of_seeds), '.', color=COLORS[0], alpha=0.5)
            ax.plot(of_seeds.mean(), place, 'o', color=COLORS[1], markersize=5)
    figure.supxlabel(
        f'{sweep.split} split, at the end: each seed (small) and their mean (large); '
        'beside each name ω(.01) / ω(.3), how steeply it weighs hard problems',
        fontsize=9,
    )
    figure.tight_layout()
    return as_png(figure)


if __name__ == '__main__':
    cli.run(main)

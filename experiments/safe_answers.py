"""How often does a policy give one and the same answer, whatever the problem?

    python -m passk_jax.sweep --config=experiments/sweeps/puzzles.py:variant=estimators
    python -m experiments.safe_answers --workdir=runs/puzzles_estimators
    python -m experiments.safe_answers

Some puzzles have an answer that is right for many problems and needs no search, such as
"cannot form 24". A policy is safe if it gives that answer to all of them. For each kind
of problem, this finds the answer that a run's last evaluation has most often, and its
share of all responses.

With ``--workdir`` it counts in the runs of that sweep (``--config``), and writes a line
for each run and kind of problem to ``results/<name>_safe_answers.jsonl``; lines of runs
that are not there stay. In any case it writes the table of that file, ``.md``: the mean
over seeds, and the paired difference from the baseline with its 95 % interval.
"""

import collections
import itertools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from passk_jax import cli
from passk_jax.cli import config_file
from passk_jax.errors import InputError
from passk_jax.evaluation import metrics
from passk_jax.files import atomic_write_text, check_writable
from passk_jax.report.arms import markdown_table
from passk_jax.report.run_data import read_lines
from passk_jax.runs.saved_config import run_config
from passk_jax.sweeps import Sweep


def main(
    *,
    config: str = 'experiments/sweeps/puzzles.py:variant=estimators',
    workdir: str = '',
    results: str = 'experiments/results',
) -> None:
    """Counts in the runs of ``workdir``, writes the table, and prints it."""
    sweep = config_file.call(config, 'get_sweep', returns=Sweep)
    path = pathlib.Path(results) / f'{sweep.name}_safe_answers.jsonl'
    check_writable(path)
    rows = {_key(row): row for row in (read_lines(path) if path.exists() else [])}
    if workdir:
        directories = [
            (arm.name, directory)
            for arm in sweep.arms
            for directory in sorted(pathlib.Path(workdir).glob(f'{arm.name}_seed*/'))
            # Later stages have other names.
            if directory.name.removeprefix(f'{arm.name}_seed').isdigit()
        ]
        if not directories:
            raise InputError(f'{workdir=} has no run of {config}: run the sweep')
        for arm, directory in directories:
            counted = count(directory, arm=arm, split=sweep.split)
            rows |= {_key(row): row for row in counted}
        lines = (json.dumps(row) + '\n' for _, row in sorted(rows.items()))
        atomic_write_text(path, ''.join(lines))
    if not rows:
        raise InputError(f'{path} has no results: give --workdir')
    text = table(sweep, [*rows.values()])
    atomic_write_text(path.with_suffix('.md'), text)
    print(text, end='')


def _key(row: Mapping[str, Any]) -> tuple[str, int, str]:
    return row['arm'], row['seed'], row['category']


def count(directory: pathlib.Path, *, arm: str, split: str) -> list[dict[str, Any]]:
    """Finds the most frequent answer of a run for each kind of problem.

    In a line, ``share`` is the share of the responses with this answer, and ``right``
    the share of right verdicts among the problems with such a response. If no response
    has an answer, ``answer`` is ``''`` and both are 0.

    Raises:
        InputError: the run has no evaluation of this split after its last step.
    """
    config = run_config(directory)
    name = f'evaluation/{split}_step_{config.train.steps:08d}.jsonl'
    if not (directory / name).exists():
        raise InputError(f'{directory} has no {name}: let the sweep finish')
    answers: dict[str, collections.Counter[str]] = {}
    right: dict[tuple[str, str], dict[int, bool]] = {}
    responses: collections.Counter[str] = collections.Counter()
    for problem in read_lines(directory / name):
        category = problem['category']
        responses[category] += problem['n']
        answers.setdefault(category, collections.Counter())
        for answer, correct in zip(problem['parsed'], problem['correct'], strict=True):
            if answer:
                answers[category][answer] += 1
                right.setdefault((category, answer), {})[problem['problem_id']] = (
                    correct
                )
    rows = []
    for category, counts in answers.items():
        ((answer, times),) = counts.most_common(1) or [('', 0)]
        of_problems = right.get((category, answer), {0: False})
        rows.append(
            {
                **{'arm': arm, 'seed': config.seed, 'category': category},
                **{'answer': answer, 'share': times / responses[category]},
                'right': float(np.mean([*of_problems.values()])),
            }
        )
    return rows


def table(sweep: Sweep, rows: list[dict[str, Any]]) -> str:
    """Returns the table of shares, over the seeds that all arms with results have.

    Raises:
        InputError: the baseline has no results, the arms share no seed, or one of them
            lacks a category.
    """
    shares = {_key(row): row['share'] for row in rows}
    seeds_of = {
        arm.name: {seed for name, seed, _ in shares if name == arm.name}
        for arm in sweep.arms
    }
    arms = [arm for arm in sweep.arms if seeds_of[arm.name]]
    every = {seed for of_arm in seeds_of.values() for seed in of_arm}
    seeds = sorted(set.intersection(*(seeds_of[arm.name] for arm in arms), every))
    if sweep.baseline not in {arm.name for arm in arms} or not seeds:
        raise InputError(
            f'no table has the baseline {sweep.baseline!r} beside other arms of one '
            f'seed: there are {seeds_of}'
        )
    categories = sorted({row['category'] for row in rows})
    keys = itertools.product([arm.name for arm in arms], seeds, categories)
    if absent := [key for key in keys if key not in shares]:
        raise InputError(f'there are no counts of {absent}: count these runs again')
    lines = []
    for arm in arms:
        cells = []
        for category in categories:
            ours, base = (
                np.array([shares[name, seed, category] for seed in seeds])
                for name in (arm.name, sweep.baseline)
            )
            cells.append(f'{ours.mean():.3f}')
            if arm.name != sweep.baseline and len(seeds) > 1:
                mean, low, high = metrics.paired_interval(ours, base)
                cells[-1] += f', {mean:+.3f} [{low:+.3f}, {high:+.3f}]'
        lines.append([arm.label, *cells])
    head = ['share of the commonest answer', *categories]
    return '\n'.join([*markdown_table(head, lines), '', f'Seeds {seeds}.']) + '\n'


if __name__ == '__main__':
    cli.run(main)

"""Compares runs by their evaluations: pass@k for every k, Cover@tau, solved problems.

    python -m passk_jax.compare runs/pass_at_1 runs/pass_at_k

Each argument is an arm: one run directory, or several separated by commas, one for each
seed. ``NAME=`` before it names the arm. A records file that ``evaluate`` wrote
(``evaluation/by_command/*.jsonl``) may replace a run directory. Runs are paired by
their seeds, files outside of run directories by their order. The first arm is the
baseline:

    python -m passk_jax.compare grpo=runs/a0,runs/a1 'pass@4=runs/b0,runs/b1' \\
        --split=test --output=compare.json --figure=compare.png

It prints Markdown. ``--output`` writes every k and tau and the solved problems as JSON.
It uses no device. A sweep that was run twice is compared by its result directories:

    python -m passk_jax.compare experiments/results results --sweep=passk_vs_pass1
"""

import dataclasses
import functools
import json
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.evaluation import metrics
from passk_jax.evaluation.comparable import (
    Evaluation,
    check_alike,
    differing_options,
    read_evaluations,
)
from passk_jax.evaluation.comparison import (
    COVERAGES,
    Arm,
    Estimate,
    Measured,
    check_names,
    compare,
    make_arm,
    solved,
)
from passk_jax.files import atomic_write_bytes, atomic_write_text, check_writable
from passk_jax.report.arms import COLORS, MARKERS, markdown_table
from passk_jax.report.charts import draw_figure
from passk_jax.report.panels import Panel, Series
from passk_jax.sweeps.reproduction import compare_results

_SHOWN_COVERAGES = (0.1, 0.25, 0.5, 0.75, 1.0)

NamedEvaluations = tuple[str, Sequence[Evaluation]]
"""An arm's name and its evaluations."""


def main(
    runs: Sequence[str],
    *,
    split: str = 'test',
    step: int | None = None,
    output: str | None = None,
    figure: str | None = None,
    sweep: str | None = None,
    measures: str | None = None,
) -> None:
    """Prints the comparison; writes it to ``output`` and ``figure`` if given."""
    if sweep is not None:
        if output or figure or step is not None:
            raise InputError('with sweep there is no step, output or figure')
        names = measures.split(',') if measures else ()
        print(compare_results(sweep, runs, split=split, measures=names), end='')
        return
    if measures is not None:
        raise InputError(
            f'{measures=} is for the results of a sweep: name it, --sweep='
        )
    for path in filter(None, (output, figure)):
        check_writable(path)
    if output and figure and _real(output) == _real(figure):
        raise InputError(f'{output=} and {figure=} are one file')
    pairs = [read_named(run, split=split, step=step) for run in runs]
    arms, options = make_arms(pairs), differing_options(dict(pairs))
    compared, sets = compare(arms), solved(arms)
    if output:
        record = {
            'arms': {arm.name: arm.sources for arm in arms},
            'measures': {
                name: [as_json(dataclasses.asdict(x)) for x in row]
                for name, row in compared.items()
            },
            'solved': sets,
        }
        atomic_write_text(output, json.dumps(record, indent=1) + '\n')
    if figure:
        title = f'{split} split, {len(arms[0].problems)} problems'
        drawn = draw_figure(
            panels(arms, compared), title=title, below=make_caption(arms, compared)
        )
        atomic_write_bytes(figure, drawn)
    print(markdown(arms, compared, sets), end='')
    if options:
        print(f'\nThe arms were not sampled alike: {"; ".join(options)}.')


def _real(path: str) -> pathlib.Path:
    return pathlib.Path(path).expanduser().resolve()


def read_arm(argument: str, *, split: str, step: int | None) -> Arm:
    """Reads one arm without a comparison; see :func:`read_named`."""
    return _make_arm(*read_named(argument, split=split, step=step))


def read_named(argument: str, *, split: str, step: int | None) -> NamedEvaluations:
    """Reads the evaluations that an argument names.

    Args:
        argument: ``[name=]run[,run...]``.
        split, step: which evaluation to read in run directories; ``step=None``: the
            last one of each run.

    Returns:
        The arm's name and its evaluations.

    Raises:
        InputError: a run or evaluation is missing or damaged.
    """
    # A directory name may contain an equals sign.
    name, equals, paths = argument.partition('=')
    if not equals or '/' in name or pathlib.Path(argument.partition(',')[0]).exists():
        name, paths = argument, argument
    if not name:
        raise InputError(f'{argument!r} must be RUN or NAME=RUN')
    runs = [run for run in paths.split(',') if run]
    return name, read_evaluations(runs, split=split, step=step)


def make_arms(pairs: Sequence[NamedEvaluations]) -> list[Arm]:
    """Makes arms from named evaluations.

    Raises:
        InputError: there are none, two have one name, or they cannot be compared.
    """
    if not pairs:
        raise InputError('there is no arm to compare')
    check_names([name for name, _ in pairs])
    check_alike(dict(pairs))
    return [_make_arm(name, evaluations) for name, evaluations in pairs]


def _make_arm(name: str, evaluations: Sequence[Evaluation]) -> Arm:
    return make_arm(
        name, [(str(evaluation.file), evaluation.counts) for evaluation in evaluations]
    )


def markdown(
    arms: Sequence[Arm],
    measures: dict[str, list[Measured]],
    sets: dict[str, list[int]],
) -> str:
    """Formats the comparison as tables: measures at powers of two, solved problems."""
    num_ks = len(measures) - len(COVERAGES)
    names = [f'pass_at_{k}' for k in metrics.powers_of_two(num_ks)]
    if f'pass_at_{num_ks}' not in names:
        names.append(f'pass_at_{num_ks}')
    names += [f'cover_at_{tau:g}' for tau in _SHOWN_COVERAGES]
    base, *variants = arms
    heads = ['measure', base.name]
    for arm in variants:
        heads += [arm.name, f'{arm.name} - {base.name}, problems']
        if any(row[arms.index(arm)].over_seeds for row in measures.values()):
            heads.append(f'{arm.name} - {base.name}, seeds')
    rows = []
    for name in names:
        row = measures[name]
        cells = [_label(name), _interval(row[0].value)]
        for measured in row[1:]:
            differences = measured.over_problems, measured.over_seeds
            cells.append(_interval(measured.value))
            cells += [
                _interval(difference, '+') for difference in differences if difference
            ]
        rows.append(cells)
    lines = [
        *markdown_table(heads, rows),
        '',
        *(f'- {arm.name}, {_sizes(arm)}: {", ".join(arm.sources)}' for arm in arms),
        '',
        f'{len(base.problems)} problems; mean [95 %]. "Problems": bootstrap over '
        'problems, paired. "Seeds": Student t over paired seeds.',
        *(f'No seeds are paired: {reason}.' for reason in _unpaired(arms)),
        '',
    ]
    if sets:
        rows = [[name, str(len(ids))] for name, ids in sets.items()]
        lines += markdown_table(['problems solved by', 'number'], rows)
    else:
        lines += [
            'The numbers of responses n differ. More responses solve more problems, so '
            'the problems that only one arm solves are not listed, and Cover@tau '
            'compares shares of different n.'
        ]
    return '\n'.join(lines) + '\n'


def panels(arms: Sequence[Arm], measures: dict[str, list[Measured]]) -> list[Panel]:
    """Makes the panels: Pass@k, its difference to the baseline, and Cover@tau."""
    num_ks = len(measures) - len(COVERAGES)
    of_k = [measures[f'pass_at_{k}'] for k in range(1, num_ks + 1)]
    of_tau = [measures[f'cover_at_{tau:g}'] for tau in COVERAGES]
    passed, gaps, covered = [], [], []
    for i, arm in enumerate(arms):
        ks, draw = range(1, num_ks + 1), functools.partial(_series, arm.name, i)
        passed.append(draw(ks, [row[i].value for row in of_k]))
        covered.append(draw(COVERAGES, [row[i].value for row in of_tau]))
        gap = [difference for row in of_k if (difference := row[i].over_problems)]
        if gap:
            gaps.append(draw(ks, gap))
    gaps.append(Series('', (1, num_ks), (0.0, 0.0), '#667085', dashed=True))
    panel = functools.partial(Panel, y_label='share of problems')
    share = functools.partial(panel, floor=0.0, ceiling=1.0)
    less = f'Pass@k minus that of {arms[0].name}'
    return [
        share('Pass@k', 'k: responses', tuple(passed), log2=True),
        panel(less, 'k: responses', tuple(gaps), log2=True),
        share('Cover@tau', 'tau: share that is right', tuple(covered)),
    ]


def make_caption(arms: Sequence[Arm], measures: dict[str, list[Measured]]) -> str:
    """Makes the lines below the panels: what bands show, and differences over seeds."""
    lines = [
        'bands: 95 % intervals over problems (bootstrap); those of a difference are '
        'paired'
    ]
    largest = f'pass_at_{len(measures) - len(COVERAGES)}'
    for i, arm in enumerate(arms):
        differences = [
            f'{_label(name)} {_interval(difference, "+")}'
            for name in ('pass_at_1', largest)
            if (difference := measures[name][i].over_seeds)
        ]
        if differences:
            whose = f'{arm.name} minus {arms[0].name} over {len(arm.sources)} seeds'
            lines.append(f'{whose} (paired, Student t): {", ".join(differences)}')
    return '\n'.join(lines)


def _series(
    name: str, number: int, x: Sequence[float], values: Sequence[Estimate]
) -> Series:
    """Makes the line of the arm with this number."""
    color, marker = (cycle[number % len(cycle)] for cycle in (COLORS, MARKERS))
    band = {'low': [v.low for v in values], 'high': [v.high for v in values]}
    return Series(name, x, [v.mean for v in values], color, marker=marker, **band)


def _sizes(arm: Arm) -> str:
    """Formats an arm's numbers of runs and responses."""
    numbers = sorted({int(n) for n in np.unique(arm.num_responses)})
    runs = len(arm.sources)
    return f'{runs} run{"s" * (runs > 1)}, n = {", ".join(map(str, numbers))}'


def _unpaired(arms: Sequence[Arm]) -> list[str]:
    """Lists the arms whose number of runs differs from the first arm's."""
    base, *variants = arms
    return [
        f'{base.name} has {len(base.sources)} runs and {arm.name} {len(arm.sources)}'
        for arm in variants
        if len(arm.sources) != len(base.sources)
    ]


def as_json(values: Any) -> Any:
    """Replaces NaN by ``None``, as JSON needs, in nested dicts and sequences."""
    if isinstance(values, dict):
        return {key: as_json(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [as_json(value) for value in values]
    return None if isinstance(values, float) and math.isnan(values) else values


def _label(name: str) -> str:
    kind, _, value = name.rpartition('_at_')
    return f'{kind.capitalize()}@{value}'


def _interval(estimate: Estimate, sign: str = '') -> str:
    values = (estimate.mean, estimate.low, estimate.high)
    mean, low, high = (f'{value:{sign}.3f}' for value in values)
    return mean if math.isnan(estimate.low) else f'{mean} [{low}, {high}]'


if __name__ == '__main__':
    cli.run(main)

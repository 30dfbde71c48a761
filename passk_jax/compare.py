"""Compares runs by their evaluations: pass@k for every k, Cover@tau, problems solved.

    python -m passk_jax.compare runs/pass_at_1 runs/pass_at_k

An argument is an arm: a run directory, or several separated by commas, which are the
seeds of one training in the same order in every arm. ``NAME=`` before it names the arm.
A file that ``evaluate`` wrote (``evaluation/by_command/*.jsonl``) stands for a run. The
first arm is the baseline:

    python -m passk_jax.compare grpo=runs/a0,runs/a1 'pass@4=runs/b0,runs/b1' \\
        --split=test --output=compare.json --figure=compare.png

It prints Markdown. ``--output`` has every k and tau and the problems solved. It uses no
device.
"""

import dataclasses
import functools
import json
import math
import pathlib
import re
from collections.abc import Sequence

from passk_jax import cli, metrics
from passk_jax.comparison import (
    COVERAGES,
    Arm,
    Estimate,
    Measured,
    compare,
    make_arm,
    solved,
)
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_bytes, atomic_write_text, check_writable
from passk_jax.report.arms import COLORS, MARKERS, markdown_table
from passk_jax.report.charts import draw_figure
from passk_jax.report.panels import Panel, Series
from passk_jax.report.run_data import read_lines
from passk_jax.runs.metric_writer import evaluation_name
from passk_jax.runs.saved_config import config_file

_STEP = re.compile(r'_step_(\d+)\.jsonl$')
_SHOWN_COVERAGES = (0.1, 0.25, 0.5, 0.75, 1.0)


def main(
    runs: Sequence[str],
    *,
    split: str = 'test',
    step: int | None = None,
    output: str | None = None,
    figure: str | None = None,
) -> None:
    """Prints the comparison; writes it to ``output`` and ``figure`` if given."""
    for path in filter(None, (output, figure)):
        check_writable(path)
    arms = [read_arm(argument, split=split, step=step) for argument in runs]
    _check_alike(arms, named=runs)
    found, sets = compare(arms), solved(arms)
    if output:
        record = {
            'arms': {arm.name: arm.sources for arm in arms},
            'measures': {
                name: [dataclasses.asdict(x) for x in row]
                for name, row in found.items()
            },
            'solved': sets,
        }
        atomic_write_text(output, json.dumps(record, indent=1) + '\n')
    if figure:
        title = f'{split} split, {len(arms[0].problems)} problems'
        drawn = draw_figure(panels(arms, found), title=title, below=said(arms, found))
        atomic_write_bytes(figure, drawn)
    print(markdown(arms, found, sets), end='')


def read_arm(argument: str, *, split: str, step: int | None) -> Arm:
    """Reads the evaluations that an argument names.

    Args:
        argument: ``[name=]run[,run...]``.
        split, step: of the evaluations in run directories; ``None``: each run's last.

    Raises:
        InputError: there is no such run or evaluation, or it is damaged.
    """
    # A directory may have an equals sign in its name.
    name, given, rest = argument.partition('=')
    if not given or '/' in name or pathlib.Path(argument.partition(',')[0]).exists():
        name, rest = argument, argument
    files = [
        _evaluation(pathlib.Path(run), split, step) for run in rest.split(',') if run
    ]
    # By seed, so that the first of each arm are a pair whatever their order.
    files.sort(key=lambda file: -1 if (seed := _seed(file)) is None else seed)
    return make_arm(name, [(str(file), _counts(file)) for file in files])


def _seed(file: pathlib.Path) -> int | None:
    """The seed of the run that an evaluation lies in; ``None``: it lies in none."""
    path = file.parent.parent / 'config.json'
    return json.loads(path.read_text()).get('seed') if path.is_file() else None


def _check_alike(arms: Sequence[Arm], *, named: Sequence[str]) -> None:
    """Checks that arms can be compared, and their seeds be paired.

    Args:
        arms: the arms.
        named: the arguments; a file that they name may be of any step.

    Raises:
        InputError: an evaluation is there twice, the last evaluations of runs are of
            different steps, or arms of as many runs have different seeds.
    """
    files = [source for arm in arms for source in arm.sources]
    if twice := sorted({file for file in files if files.count(file) > 1}):
        raise InputError(f'{twice} would be compared with themselves: name a run once')
    chosen = [file for file in files if not any(file in each for each in named)]
    steps = {file: found[1] for file in chosen if (found := _STEP.search(file))}
    if len(set(steps.values())) > 1:
        raise InputError(
            f'{[*steps]} are of different steps: give --step, or name these files'
        )
    seeds = {arm.name: [_seed(pathlib.Path(x)) for x in arm.sources] for arm in arms}
    base = seeds[arms[0].name]
    for name, own in seeds.items():
        if len(own) == len(base) > 1 and None not in own + base and own != base:
            raise InputError(
                f'{arms[0].name} has the seeds {base} and {name} has {own}: runs are '
                'paired by seed, so name the same ones'
            )


def _evaluation(run: pathlib.Path, split: str, step: int | None) -> pathlib.Path:
    """The file of an evaluation: the run itself, or in a run's directory."""
    run = run.expanduser()
    if run.is_file():
        return run
    files = sorted((run / 'evaluation').glob(f'{split}_step_*.jsonl'))
    if step is not None:
        files = [run / 'evaluation' / evaluation_name(split, step)]
    if not files or not files[-1].is_file():
        others = sorted(file.stem for file in run.glob('evaluation/*.jsonl'))
        if not others:
            config_file(run)
        steps = '' if step is None else f' of step {step}'
        raise InputError(
            f'{run} has no evaluation of split {split!r}{steps}; it has {others}'
        )
    return files[-1]


def _counts(file: pathlib.Path) -> dict[int, tuple[int, int]]:
    counts: dict[int, tuple[int, int]] = {}
    for number, row in enumerate(read_lines(file), 1):
        problem, *pair = (row.get(name) for name in ('problem_id', 'n', 'c'))
        if not all(type(value) is int for value in (problem, *pair)):
            raise InputError(f'{file}: record {number} has no whole problem_id, n, c')
        if problem in counts:
            raise InputError(f'{file}: record {number} has {problem=} a second time')
        counts[problem] = pair[0], pair[1]
    return counts


def markdown(
    arms: Sequence[Arm],
    found: dict[str, list[Measured]],
    sets: dict[str, list[int]],
) -> str:
    """The comparison as tables: measures at powers of two, and sets of problems."""
    num_ks = len(found) - len(COVERAGES)
    shown = [f'pass_at_{k}' for k in metrics.powers_of_two(num_ks)]
    if f'pass_at_{num_ks}' not in shown:
        shown.append(f'pass_at_{num_ks}')
    shown += [f'cover_at_{tau:g}' for tau in _SHOWN_COVERAGES]
    base, *others = arms
    heads = ['measure', base.name]
    for arm in others:
        heads += [arm.name, f'{arm.name} - {base.name}, problems']
        if any(row[arms.index(arm)].over_seeds for row in found.values()):
            heads.append(f'{arm.name} - {base.name}, seeds')
    rows = []
    for name in shown:
        row = found[name]
        cells = [_label(name), _interval(row[0].value)]
        for measured in row[1:]:
            cells += [_interval(measured.value), _interval(measured.over_problems, '+')]
            if measured.over_seeds:
                cells.append(_interval(measured.over_seeds, '+'))
        rows.append(cells)
    lines = [
        *markdown_table(heads, rows),
        '',
        *(f'- {arm.name}: {", ".join(arm.sources)}' for arm in arms),
        '',
        f'{len(base.problems)} problems; mean [95 %]. "Problems": bootstrap over '
        'problems, paired. "Seeds": Student t over paired seeds.',
        '',
        *markdown_table(
            ['problems solved by', 'number'],
            [[name, str(len(ids))] for name, ids in sets.items()],
        ),
    ]
    return '\n'.join(lines) + '\n'


def panels(arms: Sequence[Arm], found: dict[str, list[Measured]]) -> list[Panel]:
    """Pass@k, its difference to the baseline, and Cover@tau."""
    num_ks = len(found) - len(COVERAGES)
    of_k = [found[f'pass_at_{k}'] for k in range(1, num_ks + 1)]
    of_tau = [found[f'cover_at_{tau:g}'] for tau in COVERAGES]
    passed, gaps, covered = [], [], []
    for i, arm in enumerate(arms):
        ks, draw = range(1, num_ks + 1), functools.partial(_series, arm.name, i)
        passed.append(draw(ks, [row[i].value for row in of_k]))
        covered.append(draw(COVERAGES, [row[i].value for row in of_tau]))
        if i:
            gaps.append(draw(ks, [row[i].over_problems for row in of_k]))
    gaps.append(Series('', (1, num_ks), (0.0, 0.0), '#667085', dashed=True))
    of_problems = {'y_label': 'share of problems'}
    bounds = {'floor': 0.0, 'ceiling': 1.0} | of_problems
    less = f'Pass@k minus that of {arms[0].name}'
    return [
        Panel('Pass@k', 'k: responses', tuple(passed), log2=True, **bounds),
        Panel(less, 'k: responses', tuple(gaps), log2=True, **of_problems),
        Panel('Cover@tau', 'tau: share that is right', tuple(covered), **bounds),
    ]


def said(arms: Sequence[Arm], found: dict[str, list[Measured]]) -> str:
    """The lines below the panels: what the bands are, and what the seeds say."""
    lines = [
        'bands: 95 % intervals over problems (bootstrap); those of a difference are '
        'paired'
    ]
    largest = f'pass_at_{len(found) - len(COVERAGES)}'
    for i, arm in enumerate(arms):
        differences = [
            f'{_label(name)} {_interval(measured.over_seeds, "+")}'
            for name in ('pass_at_1', largest)
            if (measured := found[name][i]).over_seeds
        ]
        if differences:
            whose = f'{arm.name} minus {arms[0].name} over {len(arm.sources)} seeds'
            lines.append(f'{whose} (paired, Student t): {", ".join(differences)}')
    return '\n'.join(lines)


def _series(
    name: str, number: int, x: Sequence[float], values: Sequence[Estimate]
) -> Series:
    """The line of the arm of this number."""
    color, marker = (each[number % len(each)] for each in (COLORS, MARKERS))
    band = {'low': [v.low for v in values], 'high': [v.high for v in values]}
    return Series(name, x, [v.mean for v in values], color, marker=marker, **band)


def _label(name: str) -> str:
    kind, _, value = name.rpartition('_at_')
    return f'{kind.capitalize()}@{value}'


def _interval(estimate: Estimate, sign: str = '') -> str:
    values = (estimate.mean, estimate.low, estimate.high)
    mean, low, high = (f'{value:{sign}.3f}' for value in values)
    return mean if math.isnan(estimate.low) else f'{mean} [{low}, {high}]'


if __name__ == '__main__':
    cli.run(main)

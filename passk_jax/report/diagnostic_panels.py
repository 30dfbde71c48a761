"""Makes the panels of ``diagnostics.jsonl``, and of flips between evaluations."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from passk_jax.diagnostics.gradients import cosines
from passk_jax.report.panels import (
    NEGATIVE,
    POSITIVE,
    SPLITS,
    Panel,
    Series,
    color_of,
    most_evaluated,
)
from passk_jax.report.run_data import Row, Run

_MOST_STEPS = 5
# Hide positions that a smaller share of a step's responses reach: the means are noisy.
_LEAST_SHARE = 0.01
# Products are summed over at least this many steps, because the signal of a single step
# is lost in the noise.
_LEAST_WINDOW, _LEAST_JACKKNIFE = 10, 3
_ACCURACY = 'accuracy: the share of a problem’s responses that are right'
# The estimators whose expected gradients are those of pass@1 and pass@k.
_EXACT = ('rloo', 'canonical_k')


class _Gradients(NamedTuple):
    """The diagnosed gradients of a stage.

    Attributes:
        names: E estimators, the stage's own first.
        steps: S diagnosed steps.
        products: ``[S, E, E]``, products of the expected gradients.
        noise: ``[S, E]``, the variance of a step's gradient.
    """

    names: list[str]
    steps: list[int]
    products: np.ndarray
    noise: np.ndarray


def step_panels(run: Run) -> list[Panel]:
    """Makes panels of entropy, partings, advantage mass, signal and cosines.

    If shares of the gradient were measured, they have a panel too. A run without
    diagnosed steps has no panels.
    """
    if not (rows := run.diagnostics):
        return []
    measured = _with(rows, *_names('gradient_product_{}_by_difficulty'))
    return [
        _entropy_by_position(rows),
        _partings(rows),
        _mass(rows),
        *([_gradient_shares(measured)] if measured else []),
        _signal(run),
        _cosines(run),
    ]


def _with(rows: list[Row], *names: str) -> list[Row]:
    return [row for row in rows if all(name in row for name in names)]


def _names(lists: str) -> tuple[str, str]:
    """Returns the names of the lists of right and of wrong responses."""
    return lists.format('right'), lists.format('wrong')


def _over_steps(
    rows: list[Row], line: Callable[[Row], tuple[Sequence[float], Sequence[float]]]
) -> tuple[Series, ...]:
    """Makes a line for each of a few steps, including the first and the last."""
    count = min(_MOST_STEPS, len(rows))
    chosen = np.linspace(0, len(rows) - 1, count).round().astype(int)
    series = []
    for i, row in enumerate(rows[index] for index in chosen):
        label = f'step {row["step"]}'
        series.append(Series(label, *line(row), color_of(i, count)))
    return tuple(series)


def _entropy_by_position(rows: list[Row]) -> Panel:
    def line(row: Row) -> tuple[Sequence[float], Sequence[float]]:
        reaching = row['responses_by_position']
        length = int((reaching >= _LEAST_SHARE * reaching.max(initial=0)).sum())
        entropy = row['entropy_by_position'][:length].tolist()
        return range(len(entropy)), entropy

    rows = _with(rows, 'responses_by_position', 'entropy_by_position')
    title, label = 'Entropy by position (nats)', 'position in the response (tokens)'
    return Panel(title, label, _over_steps(rows, line), floor=0.0)


def _partings(rows: list[Row]) -> Panel:
    def line(row: Row) -> tuple[Sequence[float], Sequence[float]]:
        return _cumulate(row['parting_by_position'])

    rows = _with(rows, 'parting_position', 'parting_by_position')
    title = 'Wrong responses that have parted'
    label = 'position of the first difference (tokens), or before'
    return Panel(title, label, _over_steps(rows, line), floor=0.0, ceiling=1.0)


def _cumulate(shares: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    sums = np.cumsum(shares)
    return range(len(sums)), (sums / sums[-1]).tolist()


def _mass(rows: list[Row]) -> Panel:
    lists = 'mass_{}_by_right'
    rows = _with(rows, *_names(lists))
    bins = len(rows[-1][lists.format('right')]) if rows else 0
    series = _shares(rows, lists, np.linspace(0, 1, bins).tolist())
    return Panel('Share of the sum of |Â|', _ACCURACY, series, floor=0.0)


def _gradient_shares(rows: list[Row]) -> Panel:
    bins = len(rows[-1]['gradient_product_right_by_difficulty'])
    middles = ((np.arange(bins) + 0.5) / bins).tolist()
    series = _shares(rows, 'gradient_product_{}_by_difficulty', middles)
    return Panel('Share of the expected gradient', _ACCURACY, series)


def _shares(
    rows: list[Row], lists: str, accuracy: Sequence[float]
) -> tuple[Series, ...]:
    """Makes lines of right and wrong shares, for each half of the steps."""
    # A run that was resumed with other bins has rows of both kinds.
    size, names = len(accuracy), _names(lists)
    rows = [row for row in rows if all(len(row[name]) == size for name in names)]
    half, series = len(rows) // 2, []
    for part, early in ((rows[:half], True), (rows[half:], False)):
        masses = {
            side: sum((row[lists.format(side)] for row in part), start=np.zeros(size))
            for side in ('right', 'wrong')
        }
        total = sum(np.sum(mass) for mass in masses.values())
        # Without a signal, shares are undefined.
        if total <= 0:
            continue
        first, last = part[0]['step'], part[-1]['step']
        when = f'to step {last}' if early else f'from step {first}'
        for side, color in (('right', POSITIVE), ('wrong', NEGATIVE)):
            share = (masses[side] / total).tolist()
            # With centered advantages the lines coincide; dashes show both.
            style = {'faint': early, 'dashed': side == 'wrong'}
            series.append(Series(f'{side}, {when}', accuracy, share, color, **style))
    return tuple(series)


def _signal(run: Run) -> Panel:
    series = []
    for names, steps, products, noise in _gradients(run):
        for e, name in enumerate(names):
            sums = [
                (products[i, e, e].sum(), noise[i, e].sum()) for i in _windows(steps)
            ]
            # Without a problem with a signal, noise is 0 and the ratio undefined.
            ratios = [
                (x, s / n) for x, (s, n) in zip(steps, sums, strict=True) if n > 0
            ]
            x, y = [x for x, _ in ratios], [y for _, y in ratios]
            series.append(Series(name, x, y, ''))
    return Panel('Signal / noise of a step’s gradient', 'step', _colored(series))


def _cosines(run: Run) -> Panel:
    """Makes the panel of cosines between the gradients of run, pass@1 and pass@k.

    Bands are jackknife standard errors over the steps of a window.
    """
    series = [line for stage in _gradients(run) for line in _cosines_of(stage)]
    title = 'Cosine of expected gradients'
    return Panel(title, 'step', _colored(series), floor=-1.0, ceiling=1.0)


def _cosines_of(stage: _Gradients) -> list[Series]:
    names, steps, products, _ = stage
    values, errors = [], []
    for part in (products[window] for window in _windows(steps)):
        total = part.sum(axis=0)
        values.append(cosines(total))
        spread = np.var(cosines(total - part), axis=0)
        enough = len(part) >= _LEAST_JACKKNIFE
        errors.append(np.sqrt((len(part) - 1) * spread) if enough else np.nan * total)
    values, errors = np.array(values), np.array(errors)
    chosen = [i for i, name in enumerate(names) if i == 0 or name in _EXACT]
    series = []
    for e, f in itertools.combinations(chosen, 2):
        value, error = values[:, e, f], errors[:, e, f]
        finite = np.flatnonzero(np.isfinite(value + error))
        # A ratio of two estimates can exceed 1, which no cosine does.
        y, low, high = (
            np.clip(line[finite], -1, 1).tolist()
            for line in (value, value - error, value + error)
        )
        if x := [steps[i] for i in finite]:
            series.append(Series(f'{names[e]}, {names[f]}', x, y, '', low, high))
    return series


def _colored(series: Sequence[Series]) -> tuple[Series, ...]:
    """Gives each label a color and one legend entry; repeated colors are dashed."""
    labels = list(dict.fromkeys(line.label for line in series))
    colored = []
    for i, line in enumerate(series):
        place = labels.index(line.label)
        again = line.label in (earlier.label for earlier in series[:i])
        colored.append(
            dataclasses.replace(
                line,
                label='' if again else line.label,
                color=SPLITS[place % len(SPLITS)],
                dashed=place >= len(SPLITS),
            )
        )
    return tuple(colored)


def _gradients(run: Run) -> list[_Gradients]:
    """Returns the gradients of each stage with a diagnosed step, in order.

    Stages are not summed, because another estimator or k has another expected gradient.
    """
    stages = run.advantages()
    ends = [start for start, _ in stages[1:]] + [np.inf]
    gradients = []
    for (start, section), end in zip(stages, ends, strict=True):
        rows = [row for row in run.diagnostics if start <= row['step'] < end]
        if rows:
            gradients.append(_gradients_of(rows, estimator=section.get('name')))
    return [stage for stage in gradients if stage.names and stage.steps]


def _gradients_of(rows: list[Row], *, estimator: str | None) -> _Gradients:
    prefix = 'gradient_signal/'
    # A run that was resumed with other code may have other estimators.
    names = set.intersection(*(set(row) for row in rows))
    names = {n.removeprefix(prefix) for n in names if n.startswith(prefix)}
    names = sorted(names, key=lambda name: (name != estimator, name))

    def product(row: Row, e: str, f: str) -> float:
        if e == f:
            return row[f'{prefix}{e}']
        pair = f'gradient_product/{e}/{f}'
        return row[pair if pair in row else f'gradient_product/{f}/{e}']

    steps, products, noise = [], [], []
    for row in rows:
        # A damaged line may lack values.
        with contextlib.suppress(KeyError):
            of_row = [[product(row, e, f) for f in names] for e in names]
            noise.append([row[f'gradient_noise/{e}'] for e in names])
            products.append(of_row)
            steps.append(row['step'])
    return _Gradients(names, steps, np.array(products), np.array(noise))


def _windows(steps: Sequence[int]) -> list[slice]:
    """Returns for each step the window of steps over which its values are summed."""
    size = max(_LEAST_WINDOW, len(steps) // 5)
    return [slice(max(0, i + 1 - size), i + 1) for i in range(len(steps))]


def flip_panels(run: Run) -> list[Panel]:
    """Makes the panel of flips between evaluations of the most evaluated split.

    Runs older than these metrics have no such panel.
    """
    split = most_evaluated(run)
    rows = _with(run.evaluations.get(split, []), 'flips_solved', 'flips_unsolved')
    if not rows:
        return []
    x = [row['step'] for row in rows]
    solved, unsolved = (
        [row[name] for row in rows] for name in ('flips_solved', 'flips_unsolved')
    )
    series = (
        Series('newly solved', x, solved, POSITIVE, marker='o'),
        Series('no longer solved', x, unsolved, NEGATIVE, marker='o'),
    )
    title = f'Problems that flip, {split}'
    return [Panel(title, 'step', series, floor=0.0)]

"""Panels of the diagnostics: ``diagnostics.jsonl``, and flips between evaluations."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from passk_jax.diagnostics.flips import flips
from passk_jax.diagnostics.gradients import cosines
from passk_jax.report.panels import (
    BY_K,
    NEGATIVE,
    POSITIVE,
    SPLITS,
    Panel,
    Series,
    most_evaluated,
)
from passk_jax.report.run_data import Row, Run, correct_counts

_MOST_STEPS = 5
# A mean over fewer of the step's responses is mostly noise.
_LEAST_SHARE = 0.01
# Steps whose products are added: of one step alone, a weak signal is lost in noise.
_LEAST_WINDOW, _LEAST_JACKKNIFE = 10, 3
# What follows pass@1 and pass@k exactly.
_EXACT = ('rloo', 'canonical_k')


def step_panels(run: Run) -> list[Panel]:
    """Entropy and partings by position, mass, signal, cosines; none without a line."""
    if not run.diagnostics:
        return []
    return [
        _entropy_by_position(run.diagnostics),
        _partings(run.diagnostics),
        _mass(run.diagnostics),
        _signal(run),
        _cosines(run),
    ]


def _over_steps(
    rows: list[Row], line: Callable[[Row], tuple[Sequence[float], Sequence[float]]]
) -> tuple[Series, ...]:
    """A line for each of a few steps, the first and the last among them."""
    count = min(_MOST_STEPS, len(rows))
    chosen = np.linspace(0, len(rows) - 1, count).round().astype(int)
    series = []
    for i, row in enumerate(rows[index] for index in chosen):
        color = BY_K[round(i * (len(BY_K) - 1) / max(1, count - 1))]
        series.append(Series(f'step {row["step"]}', *line(row), color))
    return tuple(series)


def _entropy_by_position(rows: list[Row]) -> Panel:
    def line(row: Row) -> tuple[Sequence[float], Sequence[float]]:
        reaching = np.array(row['responses_by_position'])
        shown = int((reaching >= _LEAST_SHARE * reaching.max(initial=0)).sum())
        return range(shown), row['entropy_by_position'][:shown]

    title, label = 'Entropy by position (nats)', 'position in the response (tokens)'
    return Panel(title, label, _over_steps(rows, line), floor=0.0)


def _partings(rows: list[Row]) -> Panel:
    def line(row: Row) -> tuple[Sequence[float], Sequence[float]]:
        return _cumulated(row['parting_by_position'])

    rows = [row for row in rows if row.get('parting_position') is not None]
    title = 'Wrong responses that have parted'
    label = 'position of the first difference (tokens), or before'
    return Panel(title, label, _over_steps(rows, line), floor=0.0, ceiling=1.0)


def _cumulated(shares: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    sums = np.cumsum(shares)
    return range(len(sums)), (sums / sums[-1]).tolist()


def _mass(rows: list[Row]) -> Panel:
    """Shares of the mass, of the first and of the second half of the steps."""
    # A stage may have another number of rollouts, and so another number of bins.
    bins = len(rows[-1]['mass_right_by_right'])
    rows = [row for row in rows if len(row['mass_right_by_right']) == bins]
    accuracy, half, series = np.linspace(0, 1, bins).tolist(), len(rows) // 2, []
    for part, early in ((rows[:half], True), (rows[half:], False)):
        masses = {
            side: sum(np.array(row[f'mass_{side}_by_right']) for row in part)
            for side in ('right', 'wrong')
        }
        total = sum(np.sum(mass) for mass in masses.values())
        if not total:
            continue
        when = (
            f'to step {part[-1]["step"]}' if early else f'from step {part[0]["step"]}'
        )
        for side, color in (('right', POSITIVE), ('wrong', NEGATIVE)):
            share = (masses[side] / total).tolist()
            # With centred advantages both are equal: dashes show the line below.
            style = {'faint': early, 'dashed': side == 'wrong'}
            series.append(Series(f'{side}, {when}', accuracy, share, color, **style))
    label = 'accuracy: the share of a problem’s responses that are right'
    return Panel('Share of the sum of |Â|', label, tuple(series), floor=0.0)


def _signal(run: Run) -> Panel:
    names, steps, products, noise = _gradients(run)
    series = []
    for e, name in enumerate(names):
        sums = [(products[i, e, e].sum(), noise[i, e].sum()) for i in _windows(steps)]
        # No problem had a signal yet: there is neither signal nor noise.
        shown = [(x, s / n) for x, (s, n) in zip(steps, sums, strict=True) if n > 0]
        x, y = [x for x, _ in shown], [y for _, y in shown]
        series.append(Series(name, x, y, SPLITS[e % len(SPLITS)]))
    return Panel('Signal / noise of a step’s gradient', 'step', tuple(series))


def _cosines(run: Run) -> Panel:
    """Of the run's own gradient and those of pass@1 and pass@k, with standard errors.

    The errors are jackknife's over the steps of a window.
    """
    names, steps, products, _ = _gradients(run)
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
    for (e, f), color in zip(itertools.combinations(chosen, 2), SPLITS, strict=False):
        value, error = values[:, e, f], errors[:, e, f]
        shown = np.flatnonzero(np.isfinite(value + error))
        # No cosine is beyond 1, though the ratio of two estimates may be.
        y, low, high = (
            np.clip(line[shown], -1, 1).tolist()
            for line in (value, value - error, value + error)
        )
        x = [steps[i] for i in shown]
        if x:
            series.append(Series(f'{names[e]}, {names[f]}', x, y, color, low, high))
    title = 'Cosine of expected gradients'
    return Panel(title, 'step', tuple(series), floor=-1.0, ceiling=1.0)


def _gradients(run: Run) -> tuple[list[str], list[int], np.ndarray, np.ndarray]:
    """What the diagnosed steps say of gradients.

    Returns:
        E estimators, the run's own first; S steps; ``[S, E, E]`` products; ``[S, E]``
        noise.
    """
    rows, prefix = run.diagnostics, 'gradient_signal/'
    # A stage may have another estimator, which is then not that of all steps.
    found = set.intersection(*(set(row) for row in rows))
    found = {n.removeprefix(prefix) for n in found if n.startswith(prefix)}
    own = run.option('advantage.name')
    names = sorted(found, key=lambda name: (name != own, name))

    def product(row: Row, e: str, f: str) -> float:
        if e == f:
            return row[f'{prefix}{e}']
        pair = f'gradient_product/{e}/{f}'
        return row[pair if pair in row else f'gradient_product/{f}/{e}']

    products = [[[product(row, e, f) for f in names] for e in names] for row in rows]
    noise = [[row[f'gradient_noise/{e}'] for e in names] for row in rows]
    return names, [row['step'] for row in rows], np.array(products), np.array(noise)


def _windows(steps: Sequence[int]) -> list[slice]:
    """For each step, those that its figures are summed over: it and some before it."""
    size = max(_LEAST_WINDOW, len(steps) // 5)
    return [slice(max(0, i + 1 - size), i + 1) for i in range(len(steps))]


def flip_panels(run: Run) -> list[Panel]:
    """Flips from one evaluation to the next; none without the files of two."""
    split = most_evaluated(run)
    steps = [row['step'] for row in run.evaluations.get(split, [])]
    counts = {step: correct_counts(run, split, step) for step in steps}
    steps = [step for step in steps if counts[step]]
    found = {}
    for step, after in itertools.pairwise(steps):
        both = counts[step].keys() & counts[after].keys()
        found[after] = flips(*({i: counts[s][i] for i in both} for s in (step, after)))
    if not found:
        return []
    solved = [len(each.solved) for each in found.values()]
    unsolved = [len(each.unsolved) for each in found.values()]
    x = list(found)
    series = (
        Series('newly solved', x, solved, POSITIVE, marked=True),
        Series('no longer solved', x, unsolved, NEGATIVE, marked=True),
    )
    title = f'Problems that flip, {split}'
    return [Panel(title, 'step', series, floor=0.0)]

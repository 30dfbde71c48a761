"""Any difference between the arms of sweeps, with its 95 % interval over seeds.

    python -m experiments.interval 'pass_at_32 of canonical_k - pass_at_k in estimators'

It reads ``experiments/results`` and prints ``+.021 [+.006, +.037], 5 seeds``. What it
takes is

    MEASURE of TERMS in SWEEP, SPLIT, seeds 0-4

without the last two for the test split and all seeds. A term is an arm at its last
evaluation, ``ARM@STEP`` at another, and ``SWEEP/ARM`` if the sweep is not named at the
end. Terms are added and subtracted, and may have a factor, as in ``0.5 * ARM``. Two of
the above may be subtracted with one ``minus`` between them. All have the same seeds;
the interval is Student's t over these.

Every interval in the text of README.md and of the pages in experiments/ is such a
difference: ``tests/statements.toml`` says which, and a test computes them all.
"""

import functools
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.report.arms import mean_interval
from passk_jax.report.run_data import Row
from passk_jax.sweeps.rows import join_stages, read_rows

RESULTS = pathlib.Path('experiments/results')

_EXPRESSION = re.compile(
    r"""(?P<measure>\S+)\ of\ (?P<terms>[^,]+?)(\ in\ (?P<sweep>\w+))?
    (,\ (?P<split>[a-z]+))?(,\ seeds\ (?P<first>\d+)-(?P<last>\d+))?""",
    re.VERBOSE,
)
_TERM = re.compile(
    r"""\s*(?P<sign>[+-]?)\s*((?P<factor>[\d.]+)\ \*\ )?
    ((?P<sweep>\w+)/)?(?P<arm>[\w.]+)(@(?P<step>\d+))?""",
    re.VERBOSE,
)


def main(differences: Sequence[str], *, results: str = str(RESULTS)) -> None:
    """Prints each difference with its interval."""
    for text in differences:
        values = evaluate(text, results=pathlib.Path(results))
        seeds = '1 seed' if len(values) == 1 else f'{len(values)} seeds'
        print(f'{with_interval(np.array([*values.values()]))}, {seeds}: {text}')


def evaluate(text: str, *, results: pathlib.Path = RESULTS) -> dict[int, float]:
    """Computes a difference for each seed, in ascending order.

    Raises:
        InputError: the text cannot be read, a term has no such evaluation, or terms
            have different seeds.
    """
    first, minus, second = text.partition(' minus ')
    if ' minus ' in second:
        raise InputError(f'{text!r} must have one minus between two differences')
    if minus:
        of_first = evaluate(first, results=results)
        of_second = evaluate(second, results=results)
        _check_seeds(of_second, of_first, second)
        return {seed: of_first[seed] - of_second[seed] for seed in of_first}
    match = _EXPRESSION.fullmatch(text)
    if not match:
        raise InputError(
            f'{text!r} must be MEASURE of TERMS in SWEEP, SPLIT, seeds 0-4'
        )
    total: dict[int, float] = {}
    for term in _terms(match['terms']):
        values = _values(
            results / f'{term["sweep"] or match["sweep"]}.jsonl.gz',
            term,
            measure=match['measure'],
            split=match['split'] or 'test',
        )
        if match['first']:
            seeds = range(int(match['first']), int(match['last']) + 1)
            if not seeds:
                raise InputError(f'{text!r} has no seeds: give the smaller one first')
            if absent := [seed for seed in seeds if seed not in values]:
                raise InputError(
                    f'{text!r}: {term["arm"]} has the seeds {sorted(values)}, and not '
                    f'{absent}'
                )
            values = {seed: values[seed] for seed in seeds}
        if total:
            _check_seeds(values, total, term['arm'])
        factor = float(term['factor'] or 1) * (-1 if term['sign'] == '-' else 1)
        total = {seed: total.get(seed, 0) + factor * values[seed] for seed in values}
    return {seed: total[seed] for seed in sorted(total)}


def _check_seeds(
    values: Mapping[int, float], before: Mapping[int, float], name: str
) -> None:
    if values.keys() != before.keys():
        raise InputError(
            f'{name} has the seeds {sorted(values)} and what stands before it '
            f'{sorted(before)}; they must be the same'
        )


def _terms(text: str) -> list[re.Match[str]]:
    terms: list[re.Match[str]] = []
    place = 0
    while place < len(text):
        term = _TERM.match(text, place)
        if not term or bool(terms) != bool(term['sign']):
            raise InputError(f'{text[place:]!r} of {text!r} must begin with a term')
        terms.append(term)
        place = term.end()
    return terms


def _values(
    path: pathlib.Path, term: re.Match[str], *, measure: str, split: str
) -> Mapping[int, float]:
    """Returns the value of each seed."""
    rows = [
        row for row in _rows(path) if (row['arm'], row['split']) == (term['arm'], split)
    ]
    last = max((row['step'] for row in rows), default=0)
    step = int(term['step'] or last)
    by_seed = {row['seed']: row.get(measure) for row in rows if row['step'] == step}
    lacking = [seed for seed, value in by_seed.items() if value is None]
    if lacking or not by_seed:
        of = f' for the seeds {lacking}' if lacking else ''
        raise InputError(
            f'{path} has no {measure} of {term["arm"]} at {step=} of {split=}{of}'
        )
    return by_seed


@functools.lru_cache(maxsize=32)
def _rows(path: pathlib.Path) -> Sequence[Row]:
    if not path.exists():
        sweeps = path.parent.glob('*.configs.json')
        names = sorted(file.name.partition('.')[0] for file in sweeps)
        raise InputError(f'{path} is not there; the sweeps are {names}')
    return join_stages(read_rows(path))


def with_interval(values: np.ndarray) -> str:
    """Formats a mean and its interval, as in ``+.021 [+.006, +.037]``."""
    interval = mean_interval(values)
    mean, low, high = (re.sub(r'^(.)0\.', r'\1.', f'{x:+.3f}') for x in interval)
    return mean if len(values) == 1 else f'{mean} [{low}, {high}]'


if __name__ == '__main__':
    cli.run(main)

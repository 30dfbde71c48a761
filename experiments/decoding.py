"""Does what the sweeps conclude depend on how responses are decoded?

    python -m passk_jax.sweep --workdir=runs/estimators_medium --results=runs/results \\
        --config=experiments/sweeps/estimators.py:variant=medium
    python -m experiments.decoding --setting=medium --workdir=runs/estimators_medium
    python -m experiments.decoding --setting=medium

All sweeps decode at temperature 1 without truncation. The second command evaluates the
last policies of a sweep's finished runs at other temperatures and with top_p, on the
validation and the test split, and adds a row for each to
``results/decoding_<setting>.jsonl.gz``; with ``--arms=pass_at_1,pass_at_k``, those of
these estimators. Kill it at any time and repeat it. The third makes
``decoding_<setting>.md`` and ``.png`` from the rows alone, as the second does at its
end. Both also make ``decoding.md``, which has all settings.

Each measure has a table: ``pass_at_1`` itself, and the differences of the other
estimators from it at the same decoding, seed by seed. In the row "best on validation"
every estimator is at the temperature that is best for it, in this measure, on the
validation split. The last row says how these differences change from temperature 1.

Expected, written before the first policy was evaluated so:

1. With the paper's top_p of .95, Pass@4 Training still has a lower Pass@1 than Pass@1
   Training on medium mazes.
2. At greedy decoding it is not lower: the price in Pass@1 is that of sampling.
3. With both at the temperature that is best for Pass@32, Pass@4 Training is still
   higher in Pass@32, by less than at temperature 1 and by at least .02.
4. With both at the temperature that is best for Pass@1, the difference in Pass@1 is
   within .02.
5. The same four of ``maxrl`` in place of Pass@4 Training.

Hard and easy mazes came later and without an expectation: there Pass@4 Training had a
higher Pass@1 at greedy decoding. So five other seeds repeat each difficulty
(``--setting=hard_again``). Expected of all three, written before any of these policies
was decoded so, Pass@4 against Pass@1 Training:

6. At greedy decoding it has a higher Pass@1.
7. At temperature .5 its Pass@1 is less than .02 lower and its Pass@32 at least .05
   higher.
8. With both at the temperature that is best for Pass@32, its Pass@32 is higher.

Fifteen families of puzzles (``--setting=families``) came last. Expected, written before
any of these policies was decoded so, Pass@4 against Pass@1 Training:

9. At greedy decoding the difference in Pass@1 is within .02.
10. At temperature .5 its Pass@1 is less than .02 lower and its Pass@32 higher.
11. As 8.
12. Of ``maxrl``, ``rs_grpo`` and ``f_grpo``, with the seeds that repeat hard and medium
    mazes: as 10, and as 8.
13. Of the same three on easy mazes, with the seeds that repeat them: as 12. At
    temperature 1 ``pass_at_k`` has the largest loss in Pass@1 of the four.
"""

import dataclasses
import itertools
import operator
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from experiments.fronts import Front, draw_fronts
from passk_jax import cli
from passk_jax.cli import config_file
from passk_jax.config import ExperimentConfig
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_bytes, atomic_write_text
from passk_jax.models import policy as policies
from passk_jax.report.arms import difference, format_difference, markdown_table
from passk_jax.report.run_data import Row
from passk_jax.runs import saved_config
from passk_jax.runs.checkpoints import find_step, restore_params
from passk_jax.runtime.compile_cache import keep_programs
from passk_jax.setup.setup import make_setup
from passk_jax.sweeps import Sweep, directories
from passk_jax.sweeps.commands import runs_of
from passk_jax.sweeps.opening import open_runs
from passk_jax.sweeps.rows import compress_rows, read_rows

ARMS = ('pass_at_1', 'pass_at_k', 'maxrl', 'rs_grpo', 'f_grpo')
MEASURES = {
    **{f'pass_at_{k}': f'Pass@{k}' for k in (1, 2, 4, 32)},
    'maj_at_32': 'maj@32',
}
_SUMMARY = ('pass_at_1', 'pass_at_4', 'pass_at_32')
SPLITS = ('validation', 'test')


@dataclasses.dataclass(frozen=True)
class Setting:
    """The policies to evaluate.

    Attributes:
        sweep: the file of the sweep that trained them, with its argument.
        seeds: the seeds; empty: the sweep's.
        knobs: estimator -> the end of its arm's name, the value of its knob.
    """

    sweep: str
    seeds: Sequence[int] = ()
    knobs: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def load(self) -> Sweep:
        """Returns the sweep with the seeds."""
        sweep = config_file.call(self.sweep, 'get_sweep', returns=Sweep)
        return dataclasses.replace(sweep, seeds=tuple(self.seeds or sweep.seeds))

    @property
    def estimators(self) -> Mapping[str, str]:
        """Returns arm -> estimator."""
        return {name + self.knobs.get(name, ''): name for name in ARMS}


# Arms of experiments/sweeps/knobs.py at the values that estimators.py has.
_KNOBS = {'pass_at_k': '_4', 'rs_grpo': '_2', 'f_grpo': '_0.5'}
SETTINGS = {
    'hard': Setting('experiments/sweeps/estimators.py'),
    'medium': Setting('experiments/sweeps/estimators.py:variant=medium'),
    'easy': Setting('experiments/sweeps/estimators.py:variant=easy'),
    'puzzles': Setting('experiments/sweeps/puzzles.py:variant=estimators'),
    'families': Setting('experiments/sweeps/families.py'),
    'hard_again': Setting(
        'experiments/sweeps/knobs.py:difficulty=hard', range(60, 65), _KNOBS
    ),
    'medium_again': Setting(
        'experiments/sweeps/knobs.py:difficulty=medium', range(60, 65), _KNOBS
    ),
    'easy_again': Setting(
        'experiments/sweeps/estimators.py:variant=easy', range(5, 10)
    ),
}


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How responses are drawn; temperature 0 is greedy, one response a problem."""

    temperature: float
    top_p: float = 1.0

    def __str__(self) -> str:
        """Names it as the tables do."""
        if self.temperature == 0:
            return 'greedy'
        truncated = f', top_p {self.top_p:g}' if self.top_p < 1 else ''
        return f'temperature {self.temperature:g}{truncated}'


DECODINGS = (
    *(Decoding(x) for x in (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)),
    Decoding(1.0, top_p=0.95),
)


def main(
    *,
    setting: str,
    workdir: str | None = None,
    arms: str = ','.join(ARMS),
    results: str = 'experiments/results',
) -> None:
    """Makes the missing evaluations of finished runs; writes rows, table, figure."""
    if setting not in SETTINGS:
        raise InputError(f'--setting={setting} must be one of {[*SETTINGS]}')
    names = tuple(arms.split(','))
    if unknown := {*names} - {*ARMS}:
        raise InputError(f'--arms: {sorted(unknown)} must be some of {[*ARMS]}')
    path = pathlib.Path(results) / f'decoding_{setting}.jsonl.gz'
    rows = read_rows(path) if path.exists() else []
    if workdir is not None:
        place = pathlib.Path(workdir)
        for row in missing_rows(SETTINGS[setting], place, rows, arms=names):
            rows.append(row)
            atomic_write_bytes(path, compress_rows(rows))
    if 'pass_at_1' not in {row['arm'] for row in rows}:
        raise InputError(f'{path} lacks rows of pass_at_1: name its runs by --workdir')
    text = '\n\n'.join(table(rows, measure) for measure in MEASURES) + '\n'
    atomic_write_text(path.with_name(f'decoding_{setting}.md'), text)
    atomic_write_bytes(path.with_name(f'decoding_{setting}.png'), draw(rows, setting))
    atomic_write_text(path.with_name('decoding.md'), summary(path.parent))
    print(text, end='')


def missing_rows(
    setting: Setting,
    workdir: pathlib.Path,
    rows: Sequence[Row],
    *,
    arms: Sequence[str] = ARMS,
) -> Iterator[Row]:
    """Yields the rows of the finished runs in ``workdir`` that ``rows`` lacks."""
    keys = {_key(row) for row in rows}
    sweep, estimators = setting.load(), setting.estimators
    runs = runs_of(sweep, workdir, sweep.seeds)
    for job in open_runs([x for x in runs if estimators.get(x.arm) in arms], sweep):
        if not directories.is_done(job):
            continue
        who = {'arm': estimators[job.run.arm], 'seed': job.run.seed}
        missing = [
            (decoding, split)
            for decoding in DECODINGS
            for split in SPLITS
            if _key({**who, 'split': split, 'decoding': str(decoding)}) not in keys
        ]
        for evaluation in _evaluate(job.run.directory, missing):
            yield {**who, **evaluation}


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ('arm', 'seed', 'split', 'decoding'))


def _evaluate(
    directory: pathlib.Path, pairs: Sequence[tuple[Decoding, str]]
) -> Iterator[Row]:
    """Yields a row for each way of decoding and split."""
    if not pairs:
        return
    config, step = saved_config.run_config(directory), find_step(directory)
    keep_programs(directory)
    params = None
    for decoding, group in itertools.groupby(pairs, key=operator.itemgetter(0)):
        setup = make_setup(_decoded_by(config, decoding))
        with jax.set_mesh(setup.mesh):
            if params is None:
                shapes = policies.param_shapes(setup.policy, setup.mesh)
                params = restore_params(directory, shapes, step=step)[0]
            evaluate = setup.at(step).evaluate()
            for _, split in group:
                batches = setup.evaluation_batches(split, setup.problems(split))
                values, _ = evaluate(params, batches, split=split, step=step)
                measured = {x: float(f'{values[x]:.6g}') for x in _measured(values)}
                yield {'split': split, 'decoding': str(decoding), **measured}


def _decoded_by(config: ExperimentConfig, decoding: Decoding) -> ExperimentConfig:
    # All greedy responses are alike.
    number = 1 if decoding.temperature == 0 else config.eval.num_responses
    changes = {**dataclasses.asdict(decoding), 'num_responses': number}
    return dataclasses.replace(config, eval=dataclasses.replace(config.eval, **changes))


def _measured(values: Mapping[str, float]) -> list[str]:
    prefixes = ('pass_at_', 'maj_at_', 'entropy')
    ends = ('_low', '_high')
    return [x for x in values if x.startswith(prefixes) and not x.endswith(ends)]


def values_of(
    rows: Sequence[Row], measure: str, split: str
) -> dict[str, dict[str, np.ndarray]]:
    """Returns arm -> decoding -> ``[S]`` of the seeds that all arms have."""
    cells: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        # A greedy response is the only one.
        value = row['pass_at_1' if row['decoding'] == 'greedy' else measure]
        if row['split'] == split:
            cells.setdefault((row['arm'], row['decoding']), {})[row['seed']] = value
    arms = [arm for arm in ARMS if any(arm == name for name, _ in cells)]
    names = [str(decoding) for decoding in DECODINGS]
    complete = [cells.get((arm, name), {}) for arm in arms for name in names]
    seeds = sorted(set.intersection(*(set(of_seed) for of_seed in complete)))
    if not seeds:
        raise InputError(f'no seed has all ways of decoding on {split} of {arms}')
    return {
        arm: {
            name: np.array([cells[arm, name][seed] for seed in seeds]) for name in names
        }
        for arm in arms
    }


@dataclasses.dataclass(frozen=True)
class Measured:
    """A measure of one setting's policies.

    Attributes:
        test: arm -> decoding -> ``[S]`` on the test split.
        best: arm -> the decoding with the highest mean on the validation split.
    """

    test: Mapping[str, Mapping[str, np.ndarray]]
    best: Mapping[str, str]

    def at_best(self, arm: str) -> np.ndarray:
        """Returns the values ``[S]`` of an arm at the decoding that is best for it."""
        return self.test[arm][self.best[arm]]

    @property
    def num_seeds(self) -> int:
        """Returns the number of seeds, S."""
        return len(self.at_best('pass_at_1'))


def measure_of(rows: Sequence[Row], measure: str) -> Measured:
    """Reads a measure and chooses the best temperatures, without truncation."""
    validation, test = (values_of(rows, measure, split) for split in SPLITS)
    names = [str(decoding) for decoding in DECODINGS if decoding.top_p == 1]
    best = {
        arm: max(names, key=lambda name: values[name].mean())
        for arm, values in validation.items()
    }
    return Measured(test, best)


def _names(measure: str) -> list[str]:
    """Names the ways of decoding; greedy, with one response, has only Pass@1."""
    return [str(x) for x in DECODINGS if x.temperature > 0 or measure == 'pass_at_1']


def table(rows: Sequence[Row], measure: str) -> str:
    """Returns the table of a measure: rows of decodings, columns of estimators."""
    measured = measure_of(rows, measure)
    test, best = measured.test, measured.best
    base, base_at_best = test['pass_at_1'], measured.at_best('pass_at_1')
    other_arms = [arm for arm in test if arm != 'pass_at_1']
    lines = []
    for name in _names(measure):
        differences = [difference(test[arm][name], base[name]) for arm in other_arms]
        cells = [f'{base[name].mean():.3f}', *map(format_difference, differences)]
        lines.append([name, *cells])
    at_best = [difference(measured.at_best(arm), base_at_best) for arm in other_arms]
    lines.append(
        [
            'best on validation',
            f'{base_at_best.mean():.3f} ({best["pass_at_1"]})',
            *(
                f'{format_difference(interval)} ({best[arm]})'
                for arm, interval in zip(other_arms, at_best, strict=True)
            ),
        ]
    )
    changes = [
        difference(
            measured.at_best(arm) - base_at_best,
            test[arm]['temperature 1'] - base['temperature 1'],
        )
        for arm in other_arms
    ]
    lines.append(
        ['change from temperature 1 to best', '', *map(format_difference, changes)]
    )
    head = f'{MEASURES[measure]}, test split, {measured.num_seeds} seeds'
    return '\n'.join(markdown_table([head, *(f'`{arm}`' for arm in test)], lines))


def summary(results: pathlib.Path) -> str:
    """Returns the tables of Pass@4 Training: a column per setting with results."""
    settings = {}
    for name in SETTINGS:
        path = results / f'decoding_{name}.jsonl.gz'
        rows = read_rows(path) if path.exists() else []
        if {'pass_at_1', 'pass_at_k'} <= {row['arm'] for row in rows}:
            settings[name] = rows
    return '\n\n'.join(_tabulate(settings, x) for x in _SUMMARY) + '\n'


def _tabulate(settings: Mapping[str, Sequence[Row]], measure: str) -> str:
    """Returns the summary's table of a measure."""
    lines = [[name] for name in _names(measure)]
    last = ['best on validation']
    heads = []
    for setting, rows in settings.items():
        measured = measure_of(rows, measure)
        of_1, of_k = (measured.test[arm] for arm in ('pass_at_1', 'pass_at_k'))
        for line in lines:
            change = difference(of_k[line[0]], of_1[line[0]])
            line.append(format_difference(change))
        best_1, best_k = (measured.at_best(arm) for arm in ('pass_at_1', 'pass_at_k'))
        last.append(format_difference(difference(best_k, best_1)))
        heads.append(f'{_title(setting)}, {measured.num_seeds} seeds')
    head = f'Pass@4 minus Pass@1 Training: {MEASURES[measure]}'
    return '\n'.join(markdown_table([head, *heads], [*lines, last]))


def _title(setting: str) -> str:
    return setting.replace('_', ', ')


def draw(rows: Sequence[Row], setting: str) -> bytes:
    """Draws Pass@32 against Pass@1 of each estimator, a line over temperatures."""
    first, many = (
        values_of(rows, name, 'test') for name in ('pass_at_1', 'pass_at_32')
    )
    sampled = [x for x in DECODINGS if x.temperature > 0 and x.top_p == 1]

    def means(values: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.array([values[str(decoding)].mean() for decoding in sampled])

    names = [f'{decoding.temperature:g}' for decoding in sampled]
    return draw_fronts(
        {arm: Front(names, means(first[arm]), means(many[arm])) for arm in first},
        title=f'Pass@1 and Pass@32 by temperature: {_title(setting)}',
    )


if __name__ == '__main__':
    cli.run(main)

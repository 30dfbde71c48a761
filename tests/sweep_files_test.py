"""The sweeps of ``experiments/sweeps``: runs that would start, and results."""

import collections
import json
import pathlib

import pytest

from passk_jax.cli import config_file
from passk_jax.sweeps import Sweep, results
from passk_jax.sweeps.commands import runs_of
from passk_jax.sweeps.opening import Job, open_runs
from passk_jax.sweeps.rows import read_rows
from tests import tiny

# File -> the arguments that it takes.
FILES = {
    'adapters': ('',),
    'estimators': (
        *('', 'variant=easy', 'variant=medium', 'variant=matched'),
        *('variant=baselines', 'variant=baselines_easy', 'variant=matched_means'),
    ),
    'f_grpo': ('difficulty=medium', 'difficulty=hard'),
    'families': ('',),
    'group_sizes': ('',),
    'horizon': ('', 'variant=rates'),
    'knobs': ('difficulty=medium', 'difficulty=hard'),
    'larger_k_runs': ('',),
    'maze_table': ('',),
    'new_mazes': tuple(f'mazes={x}' for x in range(1, 6)),
    'overview': ('',),
    'paper_ablations': ('',),
    'passk_vs_pass1': ('',),
    'perfect_mazes': ('',),
    'puzzles': ('', 'variant=estimators', 'variant=designs'),
    'rollouts': ('',),
    'scale': ('', 'variant=slow', 'variant=times_four'),
    'size_generalization': ('',),
    'smollm2': (
        *('', 'variant=estimators', 'variant=stages', 'variant=ablations'),
        *('variant=ablations_short', 'variant=families'),
    ),
    'smollm2_rates': ('',),
    'visual': ('task=counting', 'task=maze'),
    'warm_starts': tuple(f'steps={x}' for x in (100, 200, 400, 800)),
    'transfer': ('difficulty=easy', 'difficulty=medium', 'difficulty=hard'),
}
# Sweeps whose runs are not done: each leaves with its results.
PENDING = {
    ('smollm2', 'variant=ablations'),
    ('smollm2', 'variant=families'),
}
# One arm is blind from the start, and another has a second run.
OTHER_STARTS = {'visual': 3}
# What chooses a setting for another sweep has a seed of its own.
ONE_SEED = {('smollm2_rates', ''), ('horizon', 'variant=rates')}
SWEEPS = [
    (file, argument) for file, arguments in FILES.items() for argument in arguments
]


def loaded(file: str, argument: str) -> Sweep:
    path = f'experiments/sweeps/{file}.py' + (f':{argument}' if argument else '')
    return config_file.call(path, 'get_sweep', returns=Sweep)


def opened(file: str, argument: str, root: pathlib.Path) -> tuple[Sweep, list[Job]]:
    """The sweep, and the runs of its first seed."""
    sweep = loaded(file, argument)
    return sweep, open_runs(runs_of(sweep, root, sweep.seeds[:1]), sweep)


def test_every_file_is_here():
    directory = tiny.ROOT / 'experiments' / 'sweeps'
    assert {path.stem for path in directory.glob('*.py')} == FILES.keys()


def test_no_two_sweeps_write_to_one_name(monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    names = [loaded(*key).name for key in SWEEPS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(('file', 'argument'), SWEEPS)
def test_its_runs_would_start_and_differ(file, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    sweep, jobs = opened(file, argument, tmp_path)
    one = (file, argument) in ONE_SEED
    assert len(sweep.seeds) == 1 if one else len(sweep.seeds) >= 5
    # Two arms of one configuration would be compared with themselves.
    configs = [repr(job.config) for job in jobs]
    assert len(set(configs)) == len(configs)
    # Of one seed all begin with the same policy, but for those of OTHER_STARTS.
    assert len({job.warm_start for job in jobs}) == OTHER_STARTS.get(file, 1)


@pytest.mark.parametrize(('file', 'argument'), SWEEPS)
def test_the_table_is_that_of_the_rows(file, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    sweep = loaded(file, argument)
    directory = tiny.ROOT / 'experiments' / 'results'
    if (file, argument) in PENDING:
        assert not (directory / f'{sweep.name}.jsonl.gz').exists()
        pytest.skip('its runs are not done')
    rows = read_rows(directory / f'{sweep.name}.jsonl.gz')
    configs = json.loads((directory / f'{sweep.name}.configs.json').read_text())
    of_runs = collections.defaultdict(list)
    for row in rows:
        of_runs[row['run']].append(row)
    runs = runs_of(sweep, tmp_path, sorted({row['seed'] for row in rows}))
    jobs = [
        Job(
            run,
            configs[run.setting]['train']['steps'],
            *((sweep.split,), '', '', configs[run.setting], ()),
            saved_rows=tuple(of_runs.pop(run.name)),
        )
        for run in runs
    ]
    assert not of_runs
    table = (directory / f'{sweep.name}.md').read_text()
    assert table == results.markdown(sweep, jobs)

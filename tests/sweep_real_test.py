"""Sweeps of real runs, alone and killed."""

import functools
import pathlib
import subprocess
import sys

import pytest

from passk_jax.sweeps.rows import read_rows
from tests import tiny
from tests.sweeps.processes import until_done

REAL = """
from passk_jax.sweeps import Arm, Sweep

def get_sweep():
    config = 'tests/tiny.py'
    return Sweep(
        name='real',
        title='Real runs',
        arms=(
            Arm('one', 'Pass@1', config, {'advantage.name': 'pass_at_1'}),
            Arm('k', 'Pass@2', config, {'advantage.name': 'pass_at_k'}),
        ),
        baseline='one',
        seeds=(0, 1),
        measures={'pass_at_1': 'Pass@1', 'pass_at_4': 'Pass@4'},
        split='test',
        curves='validation',
    )
"""


@pytest.mark.slow
def test_real_runs_are_those_that_a_person_would_start(finished_run, tmp_path):
    """``finished_run`` is the run of arm ``k`` and seed 0, alone."""
    path = tmp_path / 'real.py'
    path.write_text(REAL)
    process = tiny.start(
        'sweep',
        f'--config={path}',
        f'--workdir={tmp_path / "runs"}',
        f'--results={tmp_path / "results"}',
    )
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    alone = tiny.contents(finished_run)
    assert tiny.contents(tmp_path / 'runs' / 'k_seed0') == alone
    logs = [path.read_text() for path in sorted((tmp_path / 'runs').glob('*.log'))]
    # Of each seed one made its warm start, and one read it.
    assert sum('warm start: read from' in log for log in logs) == len(logs) // 2 == 2
    table = (tmp_path / 'results' / 'real.md').read_text()
    assert out == table
    last = [tiny.metrics(tmp_path / 'runs' / f'k_seed{s}', 'test')[-1] for s in (0, 1)]
    values = [row['pass_at_1'] for row in last]
    assert f'{sum(values) / 2:.3f} ({values[0]:.3f} {values[1]:.3f})' in table
    assert len(read_rows(tmp_path / 'results' / 'real.jsonl.gz')) == 4 * (4 + 2)


FILES = ('real.jsonl.gz', 'real.md', 'real.png')


@pytest.mark.slow
def test_killed_twenty_times_its_end_is_that_of_an_uninterrupted_one(tmp_path):
    # Enough runs that twenty kills find some of them running.
    longer = REAL.replace('seeds=(0, 1)', 'seeds=range(6)')
    assert longer != REAL
    (tmp_path / 'real.py').write_text(longer)
    uninterrupted = tmp_path / 'whole'
    assert strike(uninterrupted, kills=0) == 0
    runs = sorted(path.name for path in (uninterrupted / 'runs').glob('*_seed?'))
    assert len(runs) == 12
    kills, sweeps = 0, 0
    # Where runs are fast one sweep may end before.
    while kills < 20:
        killed, sweeps = tmp_path / f'killed{sweeps}', sweeps + 1
        kills += strike(killed, kills=20 - kills)
        for name in FILES:
            same = [
                (directory / 'results' / name).read_bytes()
                for directory in (uninterrupted, killed)
            ]
            assert same[0] == same[1], name
        for run in runs:
            contents = [
                tiny.contents(directory / 'runs' / run)
                for directory in (uninterrupted, killed)
            ]
            assert contents[0] == contents[1], run
    assert sweeps <= 3


def strike(directory: pathlib.Path, *, kills: int) -> int:
    """Runs the sweep in ``directory``, kills it or its runs, and tells how often."""
    begin = functools.partial(start, directory.parent / 'real.py', directory)
    status, done = until_done(begin, kills=kills, pause=3.0, seconds=900)
    assert status == 0, (directory / 'said').read_text()
    return done


def start(sweep: pathlib.Path, directory: pathlib.Path) -> subprocess.Popen:
    """Starts a sweep whose runs and results are in ``directory``."""
    directory.mkdir(exist_ok=True)
    with (directory / 'said').open('a') as log:
        return subprocess.Popen(
            [
                *(sys.executable, '-m', 'passk_jax.sweep', f'--config={sweep}'),
                f'--workdir={directory / "runs"}',
                f'--results={directory / "results"}',
            ],
            cwd=tiny.ROOT,
            env=tiny.environment(),
            stdout=log,
            stderr=log,
        )

"""``python -m passk_jax.sweep`` as a person, a cluster and a power cut meet it.

Its runs are fakes of a few milliseconds; real ones are in sweep_real_test.py.
"""

import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from passk_jax import sweep
from passk_jax.errors import InputError
from passk_jax.runs.preemption import EXIT_PREEMPTED
from passk_jax.sweeps.rows import compress_rows, read_rows
from tests import tiny
from tests.sweeps import fakes
from tests.sweeps.processes import is_running, kill, until_done, wait_for_children

RUNS = ['pass_at_1_seed{}', 'pass_at_k_seed{}', 'pass_at_k_seed{}_then']


@pytest.fixture(scope='module')
def finished(tmp_path_factory) -> pathlib.Path:
    """A sweep of two seeds that nothing interrupted."""
    return fakes.finished(tmp_path_factory.mktemp('finished'))


def test_it_ends_with_a_row_for_each_evaluation(finished):
    rows = read_rows(finished / 'results' / 'fake.jsonl.gz')
    whose = [(row['run'], row['split'], row['step']) for row in rows]
    assert whose == [
        (name.format(seed), split, step)
        for seed in (0, 1)
        for name in RUNS
        for step in (0, 4)
        for split in ('validation', 'test')
    ]
    assert fakes.results(finished)['fake.png'].startswith(b'\x89PNG')
    assert fakes.results(finished)['fake.md'].decode() in fakes.output_of(finished)


def test_arms_are_shown_without_the_others_and_replace_no_table(
    finished, monkeypatch, capsys
):
    monkeypatch.chdir(tiny.ROOT)
    before = fakes.results(finished)
    paths = {name: str(finished / name) for name in ('runs', 'results')}
    paths = {'workdir': paths['runs'], 'results': paths['results']}
    sweep.main(config=str(finished / 'sweep.py'), **paths, arms='pass_at_k')
    table = capsys.readouterr().out
    assert 'PASS_AT_K' in table
    assert 'PASS_AT_1' not in table
    assert fakes.results(finished) == before
    with pytest.raises(InputError, match=r"arms: \['rloo'\] are none of the arms"):
        sweep.main(config=str(finished / 'sweep.py'), **paths, arms='pass_at_1,rloo')


def test_only_the_runs_of_the_arms_are_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tiny.ROOT)
    config = str(fakes.write_sweep(tmp_path))
    paths = {'workdir': str(tmp_path / 'runs'), 'results': str(tmp_path / 'results')}
    sweep.main(config=config, **paths, arms='pass_at_1', dry_run=True)
    printed = capsys.readouterr().out
    assert printed.count('passk_jax.train') == 2
    assert 'pass_at_k_seed' not in printed


def test_it_writes_a_csv_if_asked(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    directory = shutil.copytree(finished / 'results', tmp_path / 'results')
    paths = {'workdir': str(finished / 'runs'), 'results': str(directory)}
    sweep.main(config=str(finished / 'sweep.py'), **paths)
    assert not (directory / 'fake.csv').exists()
    sweep.main(config=str(finished / 'sweep.py'), **paths, csv=True)
    lines = (directory / 'fake.csv').read_text().splitlines()
    assert lines[0] == 'run,arm,seed,stage,split,step,pass_at_1,pass_at_4,reward'
    assert len(lines) == 1 + len(read_rows(directory / 'fake.jsonl.gz'))


def test_a_csv_that_cannot_be_written_is_an_error_before_any_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    fakes.write_sweep(tmp_path)
    (tmp_path / 'results' / 'fake.csv').mkdir(parents=True)
    paths = {name: str(tmp_path / name) for name in ('workdir', 'results')}
    with pytest.raises(OSError, match=r'fake\.csv'):
        sweep.main(config=str(tmp_path / 'sweep.py'), **paths, csv=True)
    assert not list(tmp_path.glob('workdir/*/metrics.jsonl'))


def test_runs_of_a_seed_share_a_warm_start(finished):
    warm_starts = [note for note in fakes.notes(finished) if note.startswith('made')]
    assert len(warm_starts) == 2
    for seed in (0, 1):
        for arm in ('pass_at_1', 'pass_at_k'):
            warm_start = finished / 'runs' / f'{arm}_seed{seed}' / 'warm_start' / '0'
            assert (warm_start / 'policy').read_text() == str(seed)


def test_a_seed_that_is_added_later_runs_alone(finished, tmp_path):
    fakes.write_sweep(tmp_path, seeds=(0,))
    assert fakes.run(tmp_path) == 0
    fakes.write_sweep(tmp_path)
    before = os.stat(tmp_path / 'runs' / 'pass_at_k_seed0' / 'metrics.jsonl')
    assert fakes.run(tmp_path) == 0
    after = os.stat(tmp_path / 'runs' / 'pass_at_k_seed0' / 'metrics.jsonl')
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert fakes.results(tmp_path) == fakes.results(finished)
    started = [x for x in fakes.output_of(tmp_path).splitlines() if 'started' in x]
    assert started.count('pass_at_k_seed0  started   0/4') == 1


def test_a_run_that_fails_is_reported_and_the_others_go_on(finished, tmp_path):
    fakes.write_sweep(tmp_path)
    assert fakes.run(tmp_path, {'FAKE_FAILS': 'pass_at_k_seed0'}) == 1
    output = fakes.output_of(tmp_path)
    assert 'pass_at_k_seed0 failed (exit status 3); the end of' in output
    assert '    one\n    it was the disk\n' in output
    assert output.count('pass_at_k_seed0  started') == 1
    assert "these are not done: ['pass_at_k_seed0', 'pass_at_k_seed0_then']" in output
    # Finished arms are kept, with all stages or not at all.
    rows = read_rows(tmp_path / 'results' / 'fake.jsonl.gz')
    assert {row['run'] for row in rows} == {RUNS[0].format(0)} | {
        name.format(1) for name in RUNS
    }
    assert not (tmp_path / 'results' / 'fake.md').exists()
    # The next call tries it again, and nothing else.
    assert fakes.run(tmp_path) == 0
    again = fakes.output_of(tmp_path)[len(output) :]
    assert again.count('  started') == 2
    assert fakes.results(tmp_path) == fakes.results(finished)


@pytest.mark.slow
def test_only_some_runs(finished, tmp_path):
    fakes.write_sweep(tmp_path)
    assert fakes.run(tmp_path, only='*_seed1*') == 0
    assert sorted(x.name for x in (tmp_path / 'runs').iterdir() if x.is_dir()) == [
        name.format(1) for name in RUNS
    ]
    assert not (tmp_path / 'results' / 'fake.md').exists()
    # The table is of the seeds that are there.
    assert fakes.run(tmp_path, seeds='1') == 0
    assert len(read_rows(tmp_path / 'results' / 'fake.jsonl.gz')) == 12
    assert (tmp_path / 'results' / 'fake.md').exists()
    # A later stage alone has nothing to go on from.
    assert fakes.run(tmp_path, only='pass_at_k_seed0_then') == 1
    assert fakes.run(tmp_path, seeds='0') == 0
    assert fakes.results(tmp_path) == fakes.results(finished)


def test_the_lines_of_a_dry_run_are_the_runs(finished, tmp_path, capsys, monkeypatch):
    """A shell that runs them leaves what the sweep leaves."""
    monkeypatch.chdir(tiny.ROOT)
    arguments = {
        'config': str(fakes.write_sweep(tmp_path)),
        'workdir': str(tmp_path / 'runs'),
        'results': str(tmp_path / 'results'),
    }
    assert sweep.main(**arguments, dry_run=True) == 0
    lines = capsys.readouterr().out
    assert len(lines.splitlines()) == 6
    assert not (tmp_path / 'runs').exists()
    # In place of Python: ``-m passk_jax.train`` is the fake.
    python = tmp_path / 'python'
    script = f'[ "$1 $2" = "-m passk_jax.train" ] && shift 2 && exec {sys.executable}'
    python.write_text(f'#!/bin/sh\n{script} {fakes.FAKE} "$@"\n')
    python.chmod(0o755)
    path = f'{tmp_path}:{os.environ["PATH"]}'
    subprocess.run(lines, shell=True, check=True, env=os.environ | {'PATH': path})
    assert sweep.main(**arguments, dry_run=True) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ('', 'nothing is missing: all 6 runs are done\n')
    assert fakes.run(tmp_path) == 0
    assert '  started' not in fakes.output_of(tmp_path)
    assert fakes.results(tmp_path) == fakes.results(finished)


def test_a_list_says_how_far_each_run_is(finished, capsys, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    fakes.write_sweep(finished, seeds=(0, 1, 2))
    arguments = {
        'config': str(finished / 'sweep.py'),
        'workdir': str(finished / 'runs'),
    }
    assert sweep.main(**arguments, list=True, only='pass_at_1*') == 0
    assert [x.split() for x in capsys.readouterr().out.splitlines()] == [
        ['pass_at_1_seed0', 'done', '4/4'],
        ['pass_at_1_seed1', 'done', '4/4'],
        ['pass_at_1_seed2', '0/4'],
    ]
    fakes.write_sweep(finished)


def test_runs_that_are_done_by_their_rows_alone_say_so(
    finished, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tiny.ROOT)
    arguments = {
        'config': str(finished / 'sweep.py'),
        'workdir': str(tmp_path),
        'results': str(finished / 'results'),
    }
    assert sweep.main(**arguments, dry_run=True) == 0
    out, err = capsys.readouterr()
    assert out == ''
    rows = finished / 'results' / 'fake.jsonl.gz'
    assert f'all 6 runs are done, 6 by their rows in {rows}; --results=DIR' in err
    assert sweep.main(**arguments, list=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(line.endswith('4/4, by its kept results') for line in lines)


def test_told_to_stop_it_stops_its_runs_and_says_so(tmp_path):
    fakes.write_sweep(tmp_path, steps=400)
    process = fakes.start(tmp_path, {'FAKE_SECONDS': '0.01'})
    wait_for_children(process.pid)
    os.kill(process.pid, signal.SIGTERM)
    process.join(30)
    assert process.exitcode == EXIT_PREEMPTED
    assert 'failed' not in fakes.output_of(tmp_path)
    assert fakes.output_of(tmp_path).count('started') <= len(os.sched_getaffinity(0))


@pytest.mark.slow
@pytest.mark.skipif(
    not pathlib.Path(f'/proc/{os.getpid()}/task/{os.getpid()}/children').exists(),
    reason='this system does not list the children of a process',
)
def test_killed_twenty_times_it_ends_with_the_table_of_an_uninterrupted_one(tmp_path):
    uninterrupted, kills, rounds = tmp_path / 'whole', 0, 0
    uninterrupted.mkdir()
    fakes.write_sweep(uninterrupted, steps=60)
    assert fakes.run(uninterrupted) == 0
    # A sweep may be done before it was killed so often; then there is another.
    while kills < 20:
        rounds += 1
        killed = tmp_path / f'killed_{rounds}'
        killed.mkdir()
        fakes.write_sweep(killed, steps=60)
        start = functools.partial(fakes.start, killed, {'FAKE_SECONDS': '0.01'})
        code, new = until_done(start, kills=20 - kills, pause=0.2, seconds=60)
        kills += new
        assert code == 0, fakes.output_of(killed)
        assert fakes.results(killed) == fakes.results(uninterrupted)
        assert len(fakes.notes(killed)) >= 2
        assert not [x for x in fakes.notes(killed) if x.startswith('doubled')]
        for path in sorted((uninterrupted / 'runs').glob('*_seed*/metrics.jsonl')):
            other = killed / path.relative_to(uninterrupted)
            assert other.read_bytes() == path.read_bytes()
    assert rounds < 10


def test_a_run_that_outlives_its_sweep_is_waited_for(finished, tmp_path):
    fakes.write_sweep(tmp_path)
    process = fakes.start(tmp_path, {'FAKE_SECONDS': '0.2'})
    (orphan, *_) = wait_for_children(process.pid)
    kill(process.pid)
    process.join()
    output = fakes.output_of(tmp_path)
    assert fakes.run(tmp_path) == 0
    assert not is_running(orphan)
    started = fakes.output_of(tmp_path)[len(output) :]
    for line in output.splitlines():
        assert line not in started
    assert not [note for note in fakes.notes(tmp_path) if note.startswith('doubled')]
    assert fakes.results(tmp_path) == fakes.results(finished)


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (("'pass_at_4': 'Pass@4'", "'pass_at_5': ''"), r"\['pass_at_5'\] are none of"),
        (
            ("'train.steps'", "'train.stepz'"),
            'pass_at_1_seed0: .*did you mean train.st',
        ),
        (("split='test'", "split='tset'"), "split='tset' is not evaluated"),
        (("baseline='pass_at_1'", "baseline='x'"), "baseline='x' is none of the arms"),
        (
            ("arm('pass_at_1'),", "arm('pass_at_1'), " * 2),
            r"arms: \['pass_at_1'\] more",
        ),
        (('tests/tiny.py', 'tests/absent.py'), 'absent.py: no such file'),
        (('def get_sweep', 'def get_sweeps'), r'it defines no get_sweep\(\)'),
        (
            ("'advantage.name': name", "'advantage.name': 'x'"),
            "run pass_at_1_seed0: .*'x'",
        ),
    ],
)
def test_a_bad_sweep_is_refused_before_any_run(change, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    path = fakes.write_sweep(tmp_path)
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    with pytest.raises(InputError, match=words):
        sweep.main(config=str(path), workdir=str(tmp_path / 'runs'))
    assert not (tmp_path / 'runs').exists()


@pytest.mark.parametrize(
    ('states', 'status'),
    [
        (('done', 'done'), 0),
        (('done', 'stopped', 'waiting'), EXIT_PREEMPTED),
        (('stopped', 'failed'), 1),
        (('done', 'waiting'), 1),
    ],
)
def test_the_exit_status_says_how_the_runs_ended(states, status):
    assert sweep._exit_status(dict(enumerate(states))) == status


def test_results_of_other_seeds_that_are_not_whole_are_refused_before_any_run(
    finished, tmp_path, monkeypatch
):
    monkeypatch.chdir(tiny.ROOT)
    monkeypatch.setattr(sweep.Runner, 'run', lambda self: pytest.fail('it runs'))
    shutil.copytree(finished / 'results', tmp_path / 'results')
    rows = tmp_path / 'results' / 'fake.jsonl.gz'
    # The last evaluation of seed 1, which this sweep does not list.
    rows.write_bytes(compress_rows(read_rows(rows)[:-1]))
    with pytest.raises(InputError, match='mend them, or take its rows out'):
        sweep.main(
            config=str(fakes.write_sweep(tmp_path, seeds=(0, 2))),
            workdir=str(tmp_path / 'runs'),
            results=str(tmp_path / 'results'),
        )


@pytest.mark.parametrize(
    ('flags', 'words'),
    [
        ({'seeds': '0,x'}, "seeds='0,x' must be whole numbers"),
        ({'seeds': '0,0'}, r'seeds: \[0\] more than once'),
        (
            {'only': 'x*'},
            r"only='x\*' is a pattern that matches none of the 6 runs: ",
        ),
        ({'jobs': 0}, 'jobs=0 must lie in'),
    ],
)
def test_a_bad_flag_is_refused(flags, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    with pytest.raises(InputError, match=words):
        sweep.main(config=str(fakes.write_sweep(tmp_path)), **flags)


def test_a_directory_of_another_experiment_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    path = fakes.write_sweep(tmp_path)
    workdir = tmp_path / 'runs' / 'pass_at_1_seed0'
    workdir.mkdir(parents=True)
    config = json.loads(tiny.config_lib.to_json(tiny.make_config()))
    config['loss']['clip_low'] = 0.1
    (workdir / 'config.json').write_text(json.dumps(config))
    (workdir / 'metrics.jsonl').write_text('')
    with pytest.raises(InputError, match=r'loss.clip_low: 0.1 there, 0.2 now'):
        sweep.main(config=str(path), workdir=str(tmp_path / 'runs'))

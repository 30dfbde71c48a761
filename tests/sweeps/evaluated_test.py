"""Whole evaluations, and runs of a seed that begin with one policy."""

import shutil

import pytest

from passk_jax.errors import InputError
from passk_jax.report.run_data import Row
from passk_jax.sweep import main
from passk_jax.sweeps import evaluated
from passk_jax.sweeps.rows import compress_rows, read_rows
from tests import tiny
from tests.sweeps import fakes
from tests.sweeps.directories_test import make_job

ENDS = [(split, step) for step in (0, 4) for split in ('validation', 'test')]


def rows_of(value: float, ends=ENDS) -> list[dict]:
    return [{'split': s, 'step': n, 'pass_at_1': value} for s, n in ends]


def test_what_is_lacking_is_said(tmp_path):
    job = make_job(tmp_path)
    assert not evaluated.lacking(job, rows_of(0.1, [*ENDS, ('validation', 2)]))
    for place, (split, step) in enumerate(ENDS):
        words = f'evaluations of split {split!r} at step {step}'
        remaining = [end for end in ENDS if end != ENDS[place]]
        assert evaluated.lacking(job, rows_of(0.1, remaining)) == f'0 {words}'
        twice = [*ENDS, ENDS[place]]
        assert evaluated.lacking(job, rows_of(0.1, twice)) == f'2 {words}'


def test_runs_of_a_seed_that_begin_with_different_policies_are_no_pair(tmp_path):
    a, b = (make_job(tmp_path, f'{name}_seed0', arm=name) for name in 'ab')
    other = make_job(tmp_path, 'a_seed1', seed=1)
    rows = {a.name: rows_of(0.1), b.name: rows_of(0.1), other.name: rows_of(0.7)}
    evaluated.check_same_start(b, rows, [a, b, other])
    # Only the first evaluation counts.
    rows[b.name][-1]['pass_at_1'] = 0.5
    evaluated.check_same_start(b, rows, [a, b, other])
    rows[b.name][1]['pass_at_1'] = 0.2
    words = (
        r"run b_seed0 begins with pass_at_1=0\.2000 on split 'test', and a_seed0 with "
        r'0\.1000: they do not have one warm start, .*--seeds'
    )
    with pytest.raises(InputError, match=words):
        evaluated.check_same_start(b, rows, [a, b, other])


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    return fakes.finished(tmp_path_factory.mktemp('finished'))


def test_an_arm_added_on_another_machine_is_not_kept(finished, tmp_path):
    path = fakes.write_sweep(tmp_path)
    shutil.copytree(finished / 'results', tmp_path / 'results')
    before = (tmp_path / 'results' / 'fake.jsonl.gz').read_bytes()
    arm = "arm('rloo'),\n            arm('pass_at_1')"
    path.write_text(path.read_text().replace("arm('pass_at_1')", arm, 1))
    assert fakes.run(tmp_path, {'FAKE_MACHINE': 'other'}) == 1
    output = fakes.output_of(tmp_path)
    assert 'rloo_seed0: its results could not be kept: run rloo_seed0 begins' in output
    assert (tmp_path / 'results' / 'fake.jsonl.gz').read_bytes() == before
    assert 'RLOO' not in (tmp_path / 'results' / 'fake.md').read_text()
    shutil.rmtree(tmp_path / 'runs')
    assert fakes.run(tmp_path) == 0


def change(rows: list[Row], case: str) -> list[Row]:
    """The last row lost, or twice, or the first of a test."""
    first = next(i for i, row in enumerate(rows) if row['split'] == 'test')
    changed = {'last lost': rows[:-1], 'last twice': [*rows, rows[-1]]}
    return changed.get(case, rows[:first] + rows[first + 1 :])


@pytest.mark.parametrize('case', ['last lost', 'last twice', 'first lost'])
def test_results_that_lack_an_evaluation_are_refused_or_made_whole(
    case, finished, tmp_path, monkeypatch
):
    config = fakes.write_sweep(tmp_path, seeds=(0, 1, 2))
    shutil.copytree(finished / 'results', tmp_path / 'results')
    path = tmp_path / 'results' / 'fake.jsonl.gz'
    path.write_bytes(compress_rows(change(read_rows(path), case)))
    paths = {name: str(tmp_path / name) for name in ('results', 'runs')}
    monkeypatch.chdir(tiny.ROOT)
    with pytest.raises(InputError, match='mend them, or take its rows out'):
        main(config=str(config), results=paths['results'], workdir=paths['runs'])
    # Where the runs are, they have it.
    fakes.write_sweep(tmp_path)
    shutil.copytree(finished / 'runs', tmp_path / 'runs')
    assert fakes.run(tmp_path) == 0
    assert fakes.results(tmp_path) == fakes.results(finished)

import csv
import io
import math

import numpy as np
import pytest

from passk_jax.errors import InputError
from passk_jax.evaluation.metrics import paired_interval
from passk_jax.sweeps import Arm, results
from passk_jax.sweeps.rows import compress_rows, read_rows
from tests.sweeps.declarations_test import make_sweep
from tests.sweeps.directories_test import make_job, write_rows

# By arm and seed, at step 0 and at the end.
VALUES = {('a', 0): (0.1, 0.3), ('a', 1): (0.2, 0.5), ('b', 0): (0.1, 0.6)}
VALUES |= {('b', 1): (0.2, 0.7)}


def make_jobs(root):
    """Runs of two arms and two seeds; arm b has a later stage, which ends it."""
    jobs = []
    for (arm, seed), (first, last) in VALUES.items():
        name = f'{arm}_seed{seed}'
        stages = [(name, '', first, last)]
        if arm == 'b':
            stages = [(name, '', first, 0.9), (f'{name}_then', name, 0.9, last)]
        for stage, previous, *pair in stages:
            whose = {'arm': arm, 'seed': seed, 'previous': previous}
            ends = previous or arm == 'a'
            job = make_job(root, stage, last=bool(ends), **whose)
            for step, value in zip((0, 4), pair, strict=True):
                for split, factor in (('test', 1), ('validation', 0.1)):
                    row = {'step': step, 'stage': 0, 'split': split}
                    write_rows(job, row | {'pass_at_1': factor * value})
            write_rows(job, {'step': 0, 'split': 'train', 'pass_at_1': 7.0})
            jobs.append(job)
    return jobs


def test_a_row_for_each_run_and_evaluation(tmp_path):
    jobs = make_jobs(tmp_path)
    write_rows(jobs[0], {'step': 5, 'stage': 0, 'split': 'test', 'entropy': 1.5})
    rows = results.tidy_rows(jobs)
    assert len(rows) == 4 * len(jobs) + 1
    assert rows[0] == {
        **{'run': 'a_seed0', 'arm': 'a', 'seed': 0},
        **{'stage': 0, 'split': 'test', 'step': 0, 'pass_at_1': 0.1},
    }
    path = tmp_path / 'rows.jsonl.gz'
    path.write_bytes(compress_rows(rows))
    assert read_rows(path) == rows
    table = list(csv.DictReader(io.StringIO(results.as_csv(rows))))
    assert [row['run'] for row in table] == [row['run'] for row in rows]
    head = ['run', 'arm', 'seed', 'stage', 'split', 'step', 'entropy', 'pass_at_1']
    assert list(table[0]) == head
    assert table[0]['entropy'] == ''
    assert float(table[0]['pass_at_1']) == 0.1


def test_a_row_has_the_processor_that_its_run_began_on(tmp_path):
    job = make_jobs(tmp_path)[0]
    for text in ('{"revision": "a"}', '[]', '{'):
        (job.run.directory / 'git.json').write_text(text)
        assert all('processor' not in row for row in results.tidy_rows([job]))
    (job.run.directory / 'git.json').write_text('{"processor": "Z80"}')
    rows = results.tidy_rows([job])
    assert {row['processor'] for row in rows} == {'Z80'}
    head = results.as_csv(rows).splitlines()[0]
    assert head == 'run,arm,seed,processor,stage,split,step,pass_at_1'


def test_the_table_compares_seed_by_seed(tmp_path):
    lines = results.markdown(make_sweep(), make_jobs(tmp_path)).splitlines()
    mean, low, high = paired_interval(np.array([0.6, 0.7]), np.array([0.3, 0.5]))
    difference = f'{mean:+.3f} [{low:+.3f}, {high:+.3f}]'
    assert lines[:3] == [
        '| test split | before RL | A | B | difference [95 %] |',
        '| --- | --- | --- | --- | --- |',
        '| Pass@1 | 0.150 | 0.400 (0.300 0.500) | 0.650 (0.600 0.700) '
        f'| {difference} |',
    ]
    assert lines[6] == '| test split | Pass@1 |'
    # From the first evaluation of the first stage to the last one of the last.
    of_b = paired_interval(np.array([0.6, 0.7]), np.array([0.1, 0.2]))
    assert lines[9] == '| B | {:+.3f} [{:+.3f}, {:+.3f}] |'.format(*of_b)


def test_an_evaluation_that_is_there_twice_or_not_at_all_is_named(tmp_path):
    """After a merge of results, or in a directory that somebody edited."""
    jobs = make_jobs(tmp_path)
    write_rows(jobs[0], {'step': 4, 'split': 'test', 'pass_at_1': 0.3})
    words = r"a_seed0 has 2 evaluations of split 'test' at step 4"
    with pytest.raises(InputError, match=words):
        results.markdown(make_sweep(), jobs)
    (jobs[0].run.directory / 'metrics.jsonl').unlink()
    with pytest.raises(InputError, match=r'a_seed0 has 0 .* at step 0'):
        results.markdown(make_sweep(), jobs)


def test_with_more_arms_each_difference_has_its_arm(tmp_path):
    arms = (*make_sweep().arms, Arm('c', 'C', 'tests/tiny.py'))
    jobs = make_jobs(tmp_path)
    for seed in (0, 1):
        job = make_job(tmp_path, f'c_seed{seed}', arm='c', seed=seed)
        for step in (0, 4):
            write_rows(job, {'step': step, 'split': 'test', 'pass_at_1': 0.1})
        jobs.append(job)
    head = results.markdown(make_sweep(arms=arms, baseline='b'), jobs).splitlines()[0]
    assert head == (
        '| test split | before RL | B | A | C '
        '| A, difference [95 %] | C, difference [95 %] |'
    )


def test_many_arms_have_a_row_each(tmp_path):
    arms = [*make_sweep().arms]
    jobs = make_jobs(tmp_path)
    for name, last in (('c', 0.5), ('d', 0.7)):
        arms.append(Arm(name, name.upper(), 'tests/tiny.py'))
        for seed in (0, 1):
            job = make_job(tmp_path, f'{name}_seed{seed}', arm=name, seed=seed)
            for step, value in ((0, 0.1), (4, last + seed / 10)):
                row = {'step': step, 'split': 'test', 'pass_at_1': value}
                write_rows(job, row)
            jobs.append(job)
    sweep = make_sweep(arms=tuple(arms), baseline='b')
    lines = results.markdown(sweep, jobs).splitlines()

    def less(values):
        pair = paired_interval(np.array(values), np.array([0.6, 0.7]))
        return '{:+.3f} [{:+.3f}, {:+.3f}]'.format(*pair)

    assert lines[:7] == [
        '| test split | Pass@1 |',
        '| --- | --- |',
        '| before RL | 0.150 |',
        '| B | 0.650 |',
        f'| A | 0.400, {less([0.3, 0.5])} |',
        f'| C | 0.550, {less([0.5, 0.6])} |',
        f'| D | 0.750, {less([0.7, 0.8])} |',
    ]


def test_contrasts_are_compared_besides(tmp_path):
    sweep = make_sweep(contrasts=(('b', 'a'),))
    lines = results.markdown(sweep, make_jobs(tmp_path)).splitlines()
    want = paired_interval(np.array([0.6, 0.7]), np.array([0.3, 0.5]))
    assert lines[-1] == '| B minus A | {:+.3f} [{:+.3f}, {:+.3f}] |'.format(*want)


def test_what_is_undefined_is_said_to_be(tmp_path):
    measures = {'pass_at_1': 'Pass@1', 'entropy': 'entropy'}
    text = results.markdown(make_sweep(measures=measures), make_jobs(tmp_path))
    row = next(line for line in text.splitlines() if line.startswith('| entropy'))
    assert row == '| entropy | undefined | undefined | undefined | undefined |'
    # Of one of two seeds.
    assert results._mean(np.array([0.5, math.nan])) == 'undefined (0.500 undefined)'


def test_one_seed_has_no_interval():
    one = np.array([0.5]), np.array([0.25])
    assert results.paired(*one) == '+0.250'
    assert results.paired(one[0], np.array([math.nan])) == 'undefined'


@pytest.mark.parametrize('first', [True, False])
def test_values_are_of_the_first_or_the_last_evaluation(first, tmp_path):
    values = results.values(make_sweep(), make_jobs(tmp_path), first=first)
    for arm in 'ab':
        expected = [VALUES[arm, seed][0 if first else 1] for seed in (0, 1)]
        assert values[arm]['pass_at_1'].tolist() == expected

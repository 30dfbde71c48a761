"""``benchmarks/faults/``: what it draws, what its comparison notices, its page."""

import json
import random
import shutil

import pytest
from jax import numpy as jnp

from benchmarks.faults import announced_train, page, striking
from benchmarks.faults import campaign as faults
from passk_jax.runs import arrays
from tests import tiny

LAST = 5


@pytest.mark.parametrize('processes', [1, 2])
def test_the_seed_draws_the_faults(processes):
    drawn = faults.draw(125, 0, processes)
    assert len(drawn) == {1: 75, 2: 50}[processes]
    assert drawn == faults.draw(125, 0, processes)
    assert drawn != faults.draw(125, 1, processes)
    kinds = {fault.kind for fault in drawn}
    assert kinds == striking.KINDS.keys() - ({'kill all'} if processes == 1 else set())
    assert {fault.moment for fault in drawn} == {*striking.MOMENTS}
    assert {f.process for f in drawn} == (
        {'0'} if processes == 1 else {'0', '1', 'all'}
    )
    more = faults.draw(300, 0, processes)
    assert more[: len(drawn)] == drawn


def test_what_missed_is_tried_again_but_not_for_ever():
    drawn = faults.draw(6, 0, 1)

    def row(struck, missed, processes=1):
        struck_faults = [{'index': index} for index in struck]
        return {'processes': processes, 'struck': struck_faults, 'missed': missed}

    rows = [row([1], [0]), row([2], [], processes=2)]
    assert faults.still_to_strike(rows, 1, drawn) == [2, 3, 0]
    assert faults.still_to_strike([*rows, *[row([], [0])] * 2], 1, drawn) == [2, 3]


def test_threads_share_the_work_and_what_missed_comes_again(tmp_path):
    drawn = {p: faults.draw(25, 0, p) for p in (1, 2)}
    record = tmp_path / 'results' / 'faults.jsonl'
    work, shares = faults.Work(record, drawn, seed=0, has_disk=True), []
    while (share := work.take()) is not None:
        shares.append(share)
    all_indices = [(p, index) for p, chosen in shares for index, _ in chosen]
    assert sorted(all_indices) == [(p, i) for p in drawn for i in range(len(drawn[p]))]
    for processes, chosen in shares:
        assert all(fault is drawn[processes][index] for index, fault in chosen)
        late = [fault.moment not in ('start', 'warm start') for _, fault in chosen]
        assert late == sorted(late)
    (processes, chosen), *_ = shares
    indices = [index for index, _ in chosen]
    work.finish(a_row(processes, indices[1:], indices[:1]))
    assert work.take() == (processes, [(indices[0], drawn[processes][indices[0]])])
    assert work.take() is None


def test_other_seeds_and_disks_that_are_not_there_count_for_nothing(tmp_path):
    drawn = {1: faults.draw(75, 0, 1), 2: []}
    assert any(fault.kind == 'full disk' for fault in drawn[1])
    record = tmp_path / 'results' / 'faults.jsonl'
    every = [*range(len(drawn[1]))]
    faults.Work(record, drawn, seed=0, has_disk=True).finish(a_row(1, every, []))
    assert faults.Work(record, drawn, seed=0, has_disk=True).take() is None
    work, indices = faults.Work(record, drawn, seed=1, has_disk=False), []
    while (share := work.take()) is not None:
        indices += [index for index, _ in share[1]]
    remaining = [i for i in every if drawn[1][i].kind != 'full disk']
    assert sorted(indices) == remaining


def test_half_a_line_of_the_record_swallows_no_other(tmp_path):
    record = tmp_path / 'results' / 'faults.jsonl'
    record.parent.mkdir()
    record.write_text('{"run": "run_1", "processes": 1, "str')
    work = faults.Work(record, {1: [], 2: []}, seed=0, has_disk=True)
    work.finish(a_row(1, [0], []))
    work.finish(a_row(2, [1], []))
    assert [row['processes'] for row in faults.read(record)] == [1, 2]


def a_row(processes, struck, missed):
    place = {'moment': 'step', 'process': '0', 'step': 3, 'half_written': [2]}
    return {
        'run': f'run_{processes}',
        'processes': processes,
        'struck': [place | {'index': index, 'kind': 'kill'} for index in struck],
        'missed': missed,
        'restarts': 2,
        'computed_again': 4,
        'equal': True,
        'differences': [],
        'revision': 'abcdefghi',
        'seed': 0,
        'date': '2026-11-23T09:00:00+00:00',
    }


@pytest.fixture
def copy(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / 'run')


def test_a_run_equals_its_copy(copy, finished_run):
    assert not faults.differences(copy, finished_run, last=LAST)
    assert faults.differences(copy, finished_run, last=6) == ['no checkpoint 6']


def test_a_step_that_is_lost_or_there_twice_is_noticed(copy, finished_run):
    path = copy / 'metrics.jsonl'
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(''.join(lines[:-2]))
    lost = faults.differences(copy, finished_run, last=LAST)
    assert lost == ['metrics.jsonl']
    train = next(i for i, line in enumerate(lines) if '"train"' in line)
    for changed, steps in (
        (lines[:train] + lines[train + 1 :], [1, 2, 3, 4]),
        (lines[: train + 1] + lines[train:], [0, 0, 1, 2, 3, 4]),
    ):
        path.write_text(''.join(changed))
        differing = faults.differences(copy, finished_run, last=LAST)
        assert differing == [f'steps {steps}', 'metrics.jsonl']


def test_a_lost_or_changed_record_is_noticed(copy, finished_run):
    (copy / 'rollouts' / 'step_00000002.jsonl').unlink()
    evaluation = copy / 'evaluation' / 'test_step_00000005.jsonl'
    evaluation.write_text(evaluation.read_text() + '\n')
    assert faults.differences(copy, finished_run, last=LAST) == [
        'evaluation/test_step_00000005.jsonl',
        'rollouts/step_00000002.jsonl',
    ]


def test_a_changed_parameter_is_noticed(copy, finished_run):
    path = copy / 'checkpoints' / str(LAST)
    saved = {item.name: {} for item in path.iterdir() if item.is_dir()}
    for name, array in tiny.saved_arrays(copy, LAST).items():
        item, _, key = name.partition('/')
        saved[item][key] = jnp.asarray(array)
    name = sorted(saved['params'])[0]
    saved['params'][name] = saved['params'][name].at[0].add(1e-6)
    commit = (path / 'commit.json').read_bytes()
    shutil.rmtree(path)
    arrays.start_writing(path, saved)()
    (path / 'commit.json').write_bytes(commit)
    changed = faults.differences(copy, finished_run, last=LAST)
    assert changed == [f'params/{name}']


@pytest.mark.parametrize('kind', ['truncate', 'flip', 'damage commit'])
def test_one_file_of_a_checkpoint_is_harmed(kind, copy, finished_run):
    for seed in range(5):
        path = striking.harm(copy / 'checkpoints' / '5', kind, random.Random(seed))
        before = (finished_run / path.relative_to(copy)).read_bytes()
        assert (path.name == 'commit.json') == (kind == 'damage commit')
        after = path.read_bytes()
        assert after != before
        assert (len(after) < len(before)) == (kind == 'truncate')
        path.write_bytes(before)


def test_the_page_counts_kills_and_names_what_differs():
    def row(name, differences, *kinds):
        record = a_row(1, range(len(kinds)), [])
        for fault, kind in zip(record['struck'], kinds, strict=True):
            fault['kind'] = kind
        return record | {
            'run': name,
            'equal': not differences,
            'differences': differences,
        }

    rows = [row('run_a', [], 'kill', 'pause'), row('run_b', ['steps [1]'], 'flip')]
    text = page.page(rows)
    assert '**2 kills** (SIGKILL or SIGTERM) among 3 faults in 2 runs' in text
    assert '**1 of 2 runs ended equal**. 4 restarts; 8 steps' in text
    assert '| run_b | flip at 3 | 2 | 4 | abcdefg | no: steps [1] |' in text
    assert '| SIGKILL | 1 | step | 1 | 3 | 1 | 1 of 1 |' in text
    assert 'Commit abcdefg, 2026-11-23, seed 0' in text
    assert 'No disk was filled' in text


def test_the_announced_verification_is_that_of_the_trainer(tmp_path, monkeypatch):
    def verify(sampled, *, step, begin_phase=None):
        assert (tmp_path / 'verifying-0').exists()
        return sampled, step, begin_phase

    monkeypatch.setenv('FAULTS_MARKS', str(tmp_path))
    monkeypatch.setattr(announced_train, '_verify', verify)
    called = announced_train.announced('texts', step=3, begin_phase=print)
    assert called == ('texts', 3, print)
    assert (tmp_path / 'steps-0').read_text() == '3\n'
    assert not (tmp_path / 'verifying-0').exists()


@pytest.mark.slow
def test_three_faults_change_nothing(tmp_path):
    results = tmp_path / 'results'
    assert faults.main(faults=3, workdir=str(tmp_path), results=str(results)) == 0
    rows = faults.read(results / 'faults.jsonl')
    assert sum(len(row['struck']) for row in rows) == 3
    assert sum(row['restarts'] for row in rows) >= 2
    assert (results / 'README.md').exists()
    assert not [*tmp_path.glob('run_*')]


def test_where_nothing_is_missing_only_the_page_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, 'make_reference', lambda *_: pytest.fail('it runs'))
    results = tmp_path / 'results'
    results.mkdir(parents=True)
    drawn = {p: faults.draw(3, 0, p) for p in (1, 2)}
    rows = [a_row(p, [*range(len(choices))], []) for p, choices in drawn.items()]
    lines = ''.join(json.dumps(row) + '\n' for row in rows)
    (results / 'faults.jsonl').write_text(lines)
    options = {'workdir': str(tmp_path / 'runs'), 'results': str(results)}
    assert faults.main(faults=3, **options) == 0
    assert (results / 'README.md').exists()


def test_nonsense_is_refused(tmp_path):
    for wrong in ({'faults': 0}, {'jobs': 0}):
        with pytest.raises(ValueError, match='must be at least'):
            faults.main(**wrong, workdir=str(tmp_path))

"""``experiments/safe_answers.py`` on evaluations whose answers are known."""

import json
import shutil
import types

import numpy as np
import pytest

from experiments import safe_answers
from passk_jax.errors import InputError
from passk_jax.evaluation.metrics import paired_interval
from passk_jax.sweeps import Arm, Sweep

SHARES = {('a', 0): 2, ('a', 1): 3, ('b', 0): 1, ('b', 1): 0, ('c', 0): 4}


def make_sweep():
    arms = tuple(Arm(name, name.upper(), 'tests/tiny.py') for name in 'abc')
    settings = {'measures': {'pass_at_1': 'Pass@1'}, 'split': 'test', 'curves': 'test'}
    return Sweep('mine', 'mine', arms, 'a', (0, 1, 2), **settings)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A run for each of ``SHARES``, which gives that many of eight answers as 'no'."""

    def run_config(directory):
        seed = int(directory.name[-1])
        return types.SimpleNamespace(seed=seed, train=types.SimpleNamespace(steps=4))

    monkeypatch.setattr(safe_answers, 'run_config', run_config)
    for (arm, seed), times in SHARES.items():
        folder = tmp_path / 'runs' / f'{arm}_seed{seed}' / 'evaluation'
        folder.mkdir(parents=True)
        # Without an answer, and otherwise each another one.
        answers = ['no'] * times + ['', '', *(f'x{i}' for i in range(6 - times))]
        problems = [
            _problem(2, 'sudoku', ['12', '12', '21', ''], right={'21'}),
            _problem(0, 'puzzle', answers[::2], right={'no'}),
            _problem(1, 'puzzle', answers[1::2], right={'x1'}),
        ]
        text = ''.join(json.dumps(problem) + '\n' for problem in problems)
        (folder / 'test_step_00000004.jsonl').write_text(text)
        (folder / 'test_step_00000000.jsonl').write_text('')
    return tmp_path / 'runs'


def _problem(problem_id, category, parsed, *, right):
    return {
        **{'problem_id': problem_id, 'category': category, 'n': len(parsed)},
        **{'parsed': parsed, 'correct': [answer in right for answer in parsed]},
    }


def test_the_commonest_answer_its_share_and_how_often_it_is_right(runs):
    sudoku, puzzle = safe_answers.count(runs / 'a_seed1', arm='a', split='test')
    assert puzzle == {
        **{'arm': 'a', 'seed': 1, 'category': 'puzzle', 'answer': 'no'},
        # Given to both problems, and right for the first.
        **{'share': 3 / 8, 'right': 0.5},
    }
    assert (sudoku['answer'], sudoku['share'], sudoku['right']) == ('12', 0.5, 0.0)


def test_a_run_that_has_not_ended_is_refused(runs):
    (runs / 'a_seed1/evaluation/test_step_00000004.jsonl').unlink()
    with pytest.raises(InputError, match='has no evaluation/test_step_00000004'):
        safe_answers.count(runs / 'a_seed1', arm='a', split='test')


def test_the_table_is_of_the_seeds_that_all_arms_have(runs):
    rows = [
        row
        for arm, seed in SHARES
        for row in safe_answers.count(runs / f'{arm}_seed{seed}', arm=arm, split='test')
    ]
    lines = safe_answers.table(make_sweep(), rows).splitlines()
    assert lines[0] == '| share of the commonest answer | puzzle | sudoku |'
    # One seed has no interval.
    assert lines[2:5] == [
        '| A | 0.250 | 0.500 |',
        '| B | 0.125 | 0.500 |',
        '| C | 0.500 | 0.500 |',
    ]
    assert lines[-1] == 'Seeds [0].'
    lines = safe_answers.table(
        make_sweep(), [row for row in rows if row['arm'] != 'c']
    ).splitlines()
    mean, low, high = paired_interval(np.array([1, 1]) / 8, np.array([2, 3]) / 8)
    assert lines[3].startswith(f'| B | 0.125, {mean:+.3f} [{low:+.3f}, {high:+.3f}] |')
    assert lines[-1] == 'Seeds [0, 1].'


def test_it_writes_what_it_counts_and_needs_the_runs_but_once(runs, monkeypatch):
    monkeypatch.setattr(safe_answers.config_file, 'call', lambda *_, **__: make_sweep())
    results = runs.parent
    with pytest.raises(InputError, match='has no results: give --workdir'):
        safe_answers.main(results=str(results))
    safe_answers.main(workdir=str(runs), results=str(results))
    lines = (results / 'mine_safe_answers.jsonl').read_text().splitlines()
    assert len(lines) == 2 * len(SHARES)
    table = (results / 'mine_safe_answers.md').read_text()
    # In the order of the file, not of the evaluations.
    safe_answers.main(results=str(results))
    assert (results / 'mine_safe_answers.md').read_text() == table
    # Again, of fewer runs: the others' lines stay.
    for name in ('b_seed0', 'c_seed0'):
        shutil.rmtree(runs / name)
    safe_answers.main(workdir=str(runs), results=str(results))
    saved = (results / 'mine_safe_answers.jsonl').read_text().splitlines()
    assert saved == lines
    with pytest.raises(InputError, match=r'nothing.* has no run of experiments'):
        safe_answers.main(workdir=str(runs / 'nothing'), results=str(results))


def test_where_nobody_answers_no_answer_is_safe(runs):
    path = runs / 'a_seed0' / 'evaluation' / 'test_step_00000004.jsonl'
    path.write_text(json.dumps(_problem(0, 'puzzle', ['', '', 'x', 'x'], right={})))
    (row,) = safe_answers.count(runs / 'a_seed0', arm='a', split='test')
    assert (row['answer'], row['share']) == ('x', 0.5)
    path.write_text(json.dumps(_problem(0, 'puzzle', [''] * 4, right={})))
    (row,) = safe_answers.count(runs / 'a_seed0', arm='a', split='test')
    assert (row['answer'], row['share'], row['right']) == ('', 0.0, 0.0)


def counted(*keys):
    return [
        {'arm': arm, 'seed': seed, 'category': category, 'share': 0.5}
        for arm, seed, category in keys
    ]


@pytest.mark.parametrize(
    ('keys', 'words'),
    [
        ([('b', 0, 'x'), ('c', 0, 'x')], "no table has the baseline 'a'"),
        ([('a', 0, 'x'), ('b', 1, 'x')], "no table has the baseline 'a' beside other"),
        ([('z', 0, 'x')], "no table has the baseline 'a'"),
        (
            [('a', 0, 'x'), ('a', 0, 'y'), ('b', 0, 'x')],
            r"no counts of \[\('b', 0, 'y'\)\]: count these runs again",
        ),
    ],
)
def test_what_is_missing_is_no_zero(keys, words):
    with pytest.raises(InputError, match=words):
        safe_answers.table(make_sweep(), counted(*keys))

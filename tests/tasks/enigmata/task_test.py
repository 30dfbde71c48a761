import json
import pathlib

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.tasks.abilities import Alphabet, Demonstrations
from passk_jax.tasks.enigmata import task as enigmata
from passk_jax.tasks.enigmata.on_arrays import batch
from passk_jax.tasks.enigmata.table import PUZZLES

_PARAMS = {
    'puzzles': ('sudoku2', 'star_battle'),
    'levels': ('easy', 'hard'),
    'train_count': 6,
    'validation_count': 0,
    'test_count': 3,
    'seed': 0,
    'prompt': 'bare',
}


def _task(**changes):
    return tasks.make_task('enigmata', _PARAMS | changes)


def test_a_source_gives_puzzle_after_puzzle_and_level_after_level():
    source = _task().source('train', data_dir='')
    assert [problem.id for problem in source] == list(range(24))
    assert [p.category for p in source] == ['sudoku2'] * 12 + ['star_battle'] * 12
    assert [p.data['level'] for p in source[:12]] == ['easy'] * 6 + ['hard'] * 6
    question = PUZZLES['sudoku2'].question(source[0].data)
    assert source[0].prompt == f'sudoku2\n{question}\n'


def test_a_problem_is_the_same_in_every_prompt():
    sources = (
        _task(prompt=prompt).source('test', data_dir='')
        for prompt in ('bare', 'instruct')
    )
    first, second = (
        [enigmata.EnigmataTask.content_hash(p) for p in problems]
        for problems in sources
    )
    assert first == second
    assert len({*first}) == len(first)


def test_a_puzzle_gives_the_same_problems_beside_any_other():
    both = _task().source('test', data_dir='')
    alone = _task(puzzles=('star_battle',)).source('test', data_dir='')
    assert [p.data for p in both[6:]] == [p.data for p in alone]


@pytest.mark.parametrize('prompt', enigmata.PROMPTS)
def test_demonstrations_of_every_puzzle_are_right_and_in_the_alphabet(prompt):
    task = _task(
        puzzles=tuple(PUZZLES), train_count=1, test_count=0, levels=('easy',),
        prompt=prompt,
    )  # fmt: skip
    assert isinstance(task, Alphabet)
    assert isinstance(task, Demonstrations)
    assert len(set(task.alphabet)) == len(task.alphabet)
    problems = task.source('train', data_dir='')
    assert [p.category for p in problems] == list(PUZZLES)
    for problem in problems:
        rng = np.random.default_rng(0)
        answer = task.demonstration(problem, kind='solution', rng=rng)
        assert task.verdict(problem, answer).correct
        assert set(problem.prompt + answer) <= set(task.alphabet)


def test_the_instructions_hold_the_rules_the_problem_and_the_place_of_the_answer():
    for problem in _task(prompt='instruct').source('test', data_dir=''):
        puzzle = PUZZLES[problem.category]
        assert problem.prompt.startswith(puzzle.rules)
        assert puzzle.question(problem.data) in problem.prompt
        place = '<begin_board>' if puzzle.board else 'code block (```)'
        assert place in problem.prompt.rpartition('step by step')[2]


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'puzzles': ('sudoku3',)}, r"puzzles: 'sudoku3' is none of \['sudoku2'"),
        ({'puzzles': ()}, r'puzzles=\(\) must name at least one'),
        ({'puzzles': ('sudoku', 'sudoku')}, 'at least one, each once'),
        ({'levels': ('extreme',)}, "levels: 'extreme' is none of .*'hard'"),
        ({'levels': ()}, 'must name at least one'),
        ({'train_count': -1}, 'train_count=-1 must lie in'),
        ({'seed': 0.5}, 'seed=0.5 must be of type int'),
        ({'prompt': 'poem'}, "prompt='poem' must be one of .*'instruct'"),
    ],
)
def test_impossible_parameters_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        _task(**changes)


def test_an_unknown_or_empty_split_is_an_error():
    with pytest.raises(ValueError, match="split 'dev' is none of"):
        _task().source('dev', data_dir='')
    with pytest.raises(ValueError, match=r'empty: validation_count=0'):
        _task().source('validation', data_dir='')


@pytest.fixture
def folio(tmp_path):
    """The directory of FOLIO's two files, with sixty problems of one premise each."""
    (tmp_path / 'folio').mkdir()
    for name, first in (('train', 0), ('validation', 40)):
        records = [
            {'premises': [f'{i} is odd.'], 'conclusion': 'So.', 'label': 'Unknown'}
            for i in range(first, first + (40 if name == 'train' else 20))
        ]
        lines = ''.join(json.dumps(record) + '\n' for record in records)
        (tmp_path / f'folio/folio-{name}.jsonl').write_text(lines)
    return str(tmp_path)


def test_puzzles_of_files_stand_beside_those_with_a_generator(folio):
    task = _task(puzzles=('FOLIO', 'sudoku2'), levels=('easy',), train_count=25)
    train, test = (task.source(s, data_dir=folio) for s in ('train', 'test'))
    assert [p.category for p in train] == ['FOLIO'] * 25 + ['sudoku2'] * 25
    assert [p.category for p in test] == ['FOLIO'] * 3 + ['sudoku2'] * 3
    assert [p.id for p in train] == list(range(50))
    assert {p.data['puzzle'] for p in test[:3]} == {'FOLIO'}
    for problem in (train[0], test[0]):
        assert problem.prompt == f'FOLIO\n{problem.data["question"]}\n'
        rng = np.random.default_rng(0)
        answer = task.demonstration(problem, kind='solution', rng=rng)
        assert task.verdict(problem, answer).correct
    other_seed = _task(puzzles=('FOLIO',), levels=('easy',), seed=9)
    assert other_seed.source('test', data_dir=folio) == test[:3]


def test_a_missing_file_says_where_to_get_it(tmp_path):
    task = _task(puzzles=('checkmate_in_one',), levels=('medium',))
    message = r"checkmate_in_one reads '.*task\.json', which is absent: .*Apache-2.0"
    with pytest.raises(ValueError, match=message):
        task.source('train', data_dir=str(tmp_path))


def test_a_split_without_problems_of_the_levels_is_an_error(folio):
    hard = {'premises': ['A.'] * 7, 'conclusion': 'So.', 'label': 'True'}
    file = pathlib.Path(folio) / 'folio/folio-validation.jsonl'
    file.write_text(json.dumps(hard))
    task = _task(puzzles=('FOLIO',), levels=('easy',))
    assert len(task.source('train', data_dir=folio)) == 6
    with pytest.raises(
        ValueError, match=r"no puzzle of \('FOLIO',\) has test problems"
    ):
        task.source('test', data_dir=folio)


def test_an_unknown_demonstration_names_the_choices():
    problem = _task().source('test', data_dir='')[0]
    with pytest.raises(ValueError, match=r"'guess' is none of .*'solution'"):
        _task().demonstration(problem, kind='guess', rng=np.random.default_rng(0))


_RECORD = {
    'task': 'sudoku2',
    'prompt': 'Solve it.',
    'meta': {
        'question': [[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 0]],
        'answer': [[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]],
        'difficulty_level': 'easy',
    },
}


def test_a_record_is_read_with_its_own_prompt():
    problem = enigmata.EnigmataTask.parse_problem(_RECORD)
    assert (problem.prompt, problem.category) == ('Solve it.', 'sudoku2')
    assert problem.data['level'] == 'easy'
    response = '```\n1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1\n```'
    assert enigmata.EnigmataTask.verdict(problem, response).correct
    assert enigmata.EnigmataTask.verdict(problem, response, official=True).correct


@pytest.mark.parametrize(
    ('record', 'message'),
    [
        ('1 2 3 4', 'as an object, not as text'),
        ({}, 'malformed record: KeyError'),
        (_RECORD | {'task': 'chess'}, "puzzle 'chess' is none of"),
        (_RECORD | {'task': ['sudoku']}, 'is none of'),
        (_RECORD | {'meta': '{'}, 'malformed record: JSONDecodeError'),
        (_RECORD | {'meta': '[' * 100_000}, 'malformed record'),
        (_RECORD | {'meta': 3}, 'meta is not an object'),
        (_RECORD | {'meta': {'question': [[1]], 'answer': [[1]]}}, 'not 4 rows'),
        (_RECORD | {'meta': {'answer': 1}}, "KeyError: 'question'"),
    ],
)
def test_a_malformed_record_is_an_error(record, message):
    with pytest.raises(ValueError, match=message):
        enigmata.EnigmataTask.parse_problem(record)


def test_many_responses_to_slant_are_judged_on_arrays(monkeypatch):
    task = _task(puzzles=('sudoku2', 'slant'), test_count=2, levels=('easy',))
    problems = task.source('test', data_dir='')[::-1]
    right = [PUZZLES[p.category].response(p.data['answer']) for p in problems]
    responses = [[text, text.replace('1', '2', 1), ''] for text in right]
    judged = []

    def verify(puzzle, *arguments):
        judged.append((puzzle.name, len(arguments[-1])))
        return batch_verify(puzzle, *arguments)

    batch_verify = batch.verify
    monkeypatch.setattr(batch, 'verify', verify)
    few = task.verify(problems, responses)
    assert not judged
    monkeypatch.setattr(enigmata, 'MANY', 6)
    many = task.verify(problems, responses)
    assert judged == [('slant', 6)]
    for verdicts in (few, many):
        assert verdicts.correct.tolist() == [[True, False, False]] * 4
        assert verdicts.rewards.tolist() == [[1, 0, 0]] * 4
    assert many.parsed == few.parsed
    monkeypatch.setattr(enigmata, 'MANY', 7)
    task.verify(problems, responses)
    assert len(judged) == 1

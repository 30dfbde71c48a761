import time

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.tasks.maze import rule
from passk_jax.types import Problem

_PARAMS = {
    'generator': 'percolation',
    'wall_probability': 0.35,
    'min_path': 3,
    'max_path': 10,
    'train_sizes': (4, 5),
    'train_counts': (20, 200),
    'validation_sizes': (),
    'validation_counts': (),
    'test_sizes': (5,),
    'test_counts': (30,),
    'seed': 0,
    'prompt': 'bare',
}


def _task(**changes):
    return tasks.make_task('maze', _PARAMS | changes)


@pytest.fixture(scope='module')
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp('data'))


def test_a_source_gives_problems_by_place(data_dir):
    source = _task().source('train', data_dir=data_dir)
    assert len(source) == 220
    assert [problem.id for problem in source] == list(range(220))
    assert source[-1] == source[219]
    assert source[:7] == [source[i] for i in range(7)]
    assert (source[0].category, source[219].category) == ('4x4', '5x5')
    problem = source[50]
    assert problem.prompt == problem.data['maze'] + '\n'
    assert len(problem.prompt) == 30


def test_a_maze_is_the_same_in_every_prompt(data_dir):
    sources = (
        _task(prompt=prompt).source('test', data_dir=data_dir)
        for prompt in ('bare', 'instruct')
    )
    first, second = (
        [_task().content_hash(p) for p in problems] for problems in sources
    )
    assert first == second
    assert len({*first}) == 30


def test_lists_count_as_tuples(data_dir):
    task = _task(train_sizes=[4, 5], train_counts=[20, 200])
    assert task == _task()


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        (
            {'generator': 'kruskal'},
            "generator='kruskal' must be one of .*'percolation'",
        ),
        ({'prompt': 'poem'}, "prompt='poem' must be one of .*'bare', 'instruct'"),
        ({'wall_probability': 1.0}, r'wall_probability=1.0 must lie in \[0, 1\)'),
        ({'wall_probability': float('nan')}, 'wall_probability=nan must be finite'),
        ({'wall_probability': '0.3'}, "wall_probability='0.3'"),
        ({'min_path': -1}, 'task.params.min_path=-1 must lie in'),
        ({'max_path': 2}, 'max_path=2 is less than'),
        ({'seed': 1.5}, 'task.params.seed=1.5 must be of type int'),
        ({'seed': True}, 'seed=True must be of type int'),
        ({'train_sizes': 5}, 'train_sizes=5 must be a tuple'),
        ({'train_sizes': (4, '5')}, r"train_sizes\[1\]='5' must be of type int"),
        ({'train_counts': (20, True)}, r'train_counts\[1\]=True must be of type int'),
        ({'train_counts': (20, -1)}, r'train_counts=\(20, -1\): a count is negative'),
        ({'train_counts': (20,)}, 'a count for each'),
        ({'train_sizes': (5, 5)}, 'every size once'),
        ({'test_sizes': (1,)}, '1 is too small'),
        ({'min_path': 16, 'max_path': 0}, '4 is too small for a path of 16'),
        ({'generator': 'wilson'}, 'odd and at least 5, not 4'),
        ({'generator': 'wilson', 'train_sizes': (3, 5)}, 'odd and at least 5, not 3'),
        (
            {
                'generator': 'wilson',
                'train_sizes': (9, 7),
                'train_counts': (1, 9_969),
                'test_sizes': (7,),
            },
            '9999 perfect mazes of size 7, but only 192 exist',
        ),
        ({'sead': 1}, 'unknown key task.params.sead; did you mean task.params.seed'),
        ({'colour': 'red'}, 'unknown key task.params.colour'),
    ],
)
def test_impossible_parameters_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        _task(**changes)


def test_a_missing_parameter_is_named():
    params = {k: v for k, v in _PARAMS.items() if k != 'seed'}
    with pytest.raises(ValueError, match=r"missing keys \['task.params.seed'\]"):
        tasks.make_task('maze', params)


def test_an_unknown_or_empty_split_is_an_error(data_dir):
    with pytest.raises(ValueError, match="split 'dev' is none of"):
        _task().source('dev', data_dir=data_dir)
    with pytest.raises(ValueError, match="'validation' of the maze task is empty"):
        _task().source('validation', data_dir=data_dir)
    with pytest.raises(ValueError, match="'test' of the maze task is empty"):
        _task(test_counts=(0,)).source('test', data_dir=data_dir)


def test_the_batch_of_verdicts_equals_one_verdict_at_a_time(data_dir):
    task = _task()
    problems = task.source('train', data_dir=data_dir)[:40]
    rng = np.random.default_rng(0)
    responses = [
        [
            task.demonstration(problem, kind='shortest_path', rng=rng),
            task.demonstration(problem, kind='ignore_walls', rng=rng),
            'no idea',
            '',
        ]
        for problem in problems
    ]
    verdicts = task.verify(problems, responses)
    assert verdicts.correct.dtype == bool
    assert verdicts.rewards.dtype == np.float32
    assert verdicts.correct[:, 0].all()
    assert 0 < verdicts.correct[:, 1].sum() < 40
    np.testing.assert_array_equal(verdicts.rewards, verdicts.correct)
    for p, problem in enumerate(problems):
        for n, response in enumerate(responses[p]):
            one = task.verdict(problem, response)
            assert one.correct == verdicts.correct[p, n]
            assert one.parsed == verdicts.parsed[p][n]


def test_512_responses_are_verified_in_no_time(data_dir):
    task = _task()
    problems = task.source('train', data_dir=data_dir)[20:52]
    responses = [['UDLRUDLRUDL'] * 16 for _ in problems]
    task.verify(problems, responses)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        task.verify(problems, responses)
        seconds.append(time.perf_counter() - start)
    # About 1 ms on one core; the margin is for a busy machine.
    assert min(seconds) < 0.01


@pytest.mark.parametrize('prompt', ['bare', 'instruct'])
def test_the_alphabet_holds_every_prompt_and_demonstration(prompt, data_dir):
    task = _task(prompt=prompt)
    assert len(set(task.alphabet)) == len(task.alphabet)
    rng = np.random.default_rng(0)
    used = set()
    for problem in task.source('test', data_dir=data_dir):
        answer = task.demonstration(problem, kind='shortest_path', rng=rng)
        used |= set(problem.prompt + answer)
    assert used == set(task.alphabet)


def test_the_instructions_say_what_the_verifier_checks(data_dir):
    task = _task(prompt='instruct')
    problem = task.source('test', data_dir=data_dir)[0]
    assert problem.data['maze'] in problem.prompt
    assert '`*` is a wall, `.` is free' in problem.prompt
    assert r'\boxed{}' in problem.prompt
    answer = task.demonstration(
        problem, kind='shortest_path', rng=np.random.default_rng(0)
    )
    assert answer.startswith(r'\boxed{')
    assert task.verdict(problem, answer).correct


def test_an_unknown_demonstration_names_the_choices(data_dir):
    problem = _task().source('test', data_dir=data_dir)[0]
    with pytest.raises(ValueError, match="'shortest_path', 'ignore_walls'"):
        _task().demonstration(problem, kind='longest', rng=np.random.default_rng(0))


def test_answers_must_fit_the_response():
    _task().check_answerable(11)
    with pytest.raises(ValueError, match='too small for answers of 10 moves'):
        _task().check_answerable(10)
    _task(prompt='instruct').check_answerable(1)
    wilson = {
        'generator': 'wilson',
        'train_sizes': (7, 9),
        'test_sizes': (7,),
        'max_path': 0,
    }
    _task(**wilson).check_answerable(13)
    with pytest.raises(ValueError, match='12 moves'):
        _task(**wilson).check_answerable(12)


def test_a_problem_is_parsed_from_its_text():
    problem = _task().parse_problem('S.\n.E\n')
    assert problem == Problem(0, 'S.\n.E\n', {'maze': 'S.\n.E'}, '2x2')
    with pytest.raises(ValueError, match='malformed maze'):
        _task().parse_problem('S.')
    with pytest.raises(ValueError, match='as text, not as a record'):
        _task().parse_problem({'maze': 'S.\n.E'})
    assert rule.verdict(problem.data['maze'], 'RD').correct

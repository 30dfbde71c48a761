import json

import numpy as np
import pytest

from passk_jax import score, tasks
from passk_jax.tasks.arc.task import ArcTask
from tests.tasks.arc import toy


def make_task(**changes):
    return tasks.make_task('arc', toy.PARAMS | changes)


def source(directory, split, **changes):
    return make_task(**changes).source(split, data_dir=str(directory))


def test_every_test_of_a_task_is_a_problem(tmp_path):
    toy.write(tmp_path)
    problems = source(tmp_path, 'test')
    assert [(p.id, p.data['task'], p.data['test_index']) for p in problems] == [
        (0, '00001388', 0),
        (1, '00001388', 1),
        (2, '00001389', 0),
        (3, '0000138a', 0),
    ]
    assert {p.category for p in problems} == {'evaluation'}
    assert problems[1].prompt.endswith('3 4\n\nInput:\n9 9\n1 0\nOutput:\n')
    assert problems[1].data['output'] == [[0, 0], [2, 1]]


def test_the_instructions_hold_examples_and_test_and_no_answer(tmp_path):
    toy.write(tmp_path)
    bare, instruct = (source(tmp_path, 'test', prompt=p) for p in ('bare', 'instruct'))
    for one, other in zip(bare, instruct, strict=True):
        examples, _, test = one.prompt.rpartition('\n\nInput:\n')
        assert f'\n\n{examples}\n\n' in other.prompt
        assert f'\n{test.removesuffix("Output:" + chr(10))}\n' in other.prompt
        assert other.prompt.count('Output:') == 2


def test_a_problem_is_the_same_in_every_prompt_and_with_every_test(tmp_path):
    toy.write(tmp_path)
    bare, instruct = (source(tmp_path, 'test', prompt=p) for p in ('bare', 'instruct'))
    first, second = ([ArcTask.content_hash(p) for p in x] for x in (bare, instruct))
    assert first == second
    assert first[0] == first[1]
    assert len({*first}) == 3


def test_training_tasks_are_shared_out_by_their_content(tmp_path):
    toy.write(tmp_path, training=60)
    splits = [source(tmp_path, s, validation_percent=30) for s in ArcTask.splits]
    names = [{p.data['task'] for p in split} for split in splits]
    assert len(names[0] | names[1]) == 60
    assert not names[0] & names[1]
    assert 8 < len(names[1]) < 30
    # A task alone goes where it went among the others.
    toy.write(tmp_path, training=30)
    fewer = source(tmp_path, 'validation', validation_percent=30)
    assert {p.data['task'] for p in fewer} <= names[1]


def test_a_task_of_the_evaluation_set_is_not_trained_on(tmp_path, caplog):
    toy.write(tmp_path)
    copy = {'copy': toy.record(7)}
    (tmp_path / 'evaluation.json').write_text(json.dumps(copy))
    names = [p.data['task'] for p in source(tmp_path, 'train')]
    assert len(names) == 12
    assert '00000007' not in names
    assert 'left out 1 training tasks' in caplog.text
    assert len(source(tmp_path, 'test')) == 1


def test_problems_that_are_too_long_are_counted(tmp_path, caplog):
    toy.write(tmp_path)
    length = len(source(tmp_path, 'test')[0].prompt)
    assert len(source(tmp_path, 'test', max_characters=length)) == 4
    assert 'left out' not in caplog.text
    tasks_of_file = json.loads((tmp_path / 'evaluation.json').read_text())
    tasks_of_file['long'] = toy.record(1)
    tasks_of_file['long']['train'] *= 2
    (tmp_path / 'evaluation.json').write_text(json.dumps(tasks_of_file))
    problems = source(tmp_path, 'test', max_characters=length)
    assert [p.id for p in problems] == [0, 1, 2, 3]
    assert 'left out 1 of 5 evaluation problems with more than' in caplog.text
    with pytest.raises(ValueError, match="split 'test' of the arc task is empty"):
        source(tmp_path, 'test', max_characters=1)


def test_a_split_must_be_known_and_not_empty(tmp_path):
    toy.write(tmp_path)
    with pytest.raises(ValueError, match=r"'dev' is none of \['train', 'valid"):
        source(tmp_path, 'dev')
    with pytest.raises(ValueError, match=r"'validation' .* empty: .*percent=0"):
        source(tmp_path, 'validation')


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'training': ''}, 'training=.* must not be empty'),
        ({'validation_percent': 101}, r'must lie in \[0, 100\]'),
        ({'max_characters': -1}, 'must lie in'),
        ({'prompt': 'poem'}, "prompt='poem' must be one of"),
    ],
)
def test_impossible_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_task(**changes)


@pytest.mark.parametrize(
    ('response', 'error'),
    [
        ('so\n```\n0 0\n1 1\n```', None),
        ('```\n1\n```\nno:\n```text\n0,0\n1,1\n```.', None),
        ('```\n[[0, 0],\n [1, 1]]\n```', None),
        (r'\boxed{[[0,0],[1,1]]}', None),
        # Usual spellings.
        ('```\n[0, 0]\n[1, 1]\n```', None),
        ('```\n[[0 0]\n [1 1]]\n```', None),
        ('```\n00\n11\n```', None),
        ('```\n| 0 | 0 |\n|---|---|\n| 1 | 1 |\n```', None),
        # A program or a word is no grid, but a part of one is.
        ('```\n0 0\n1 1\n```\n```python\nprint(1)\n```', None),
        ('```\n0 0\n1 1\n```\nso\n```\nDone.\n```', None),
        ('```\n0 0\n1 1\n```\nno:\n```\n0 0\n```', 'a grid of 1 x 2, not 2 x 2'),
        ('```\nnothing\n```', "'nothing' is not a digit"),
        ('0 0\n1 1', 'no grid in a code block or a box'),
        ('```\n0 0\n1 1\n```\nno:\n```\n0 0\n1 2\n```', '1 cells differ'),
        ('```\n0 0 1 1\n```', 'a grid of 1 x 4, not 2 x 2'),
        ('```\n0 0\n1\n```', 'a row of 1 cells below one of 2'),
        ('```\n0 0\n1 x\n```', "'x' is not a digit"),
        ('', 'no grid in a code block or a box'),
    ],
)
def test_the_whole_grid_must_be_right(response, error):
    problem = ArcTask.parse_problem(toy.record(1))
    verdict = ArcTask.verdict(problem, response)
    assert (verdict.error, verdict.correct) == (error, error is None)
    assert ArcTask.official_verdict(problem, response) == verdict


def test_a_long_answer_is_not_kept_whole():
    problem = ArcTask.parse_problem(toy.record(1))
    verdict = ArcTask.verdict(problem, '```\n' + '1 ' * 50_000 + '\n```')
    assert verdict.error == 'a grid of more than 10000 characters'
    assert len(verdict.parsed) < 5000


def test_demonstrations_are_right(tmp_path):
    toy.write(tmp_path)
    task, rng = make_task(), np.random.default_rng(0)
    for problem in source(tmp_path, 'train'):
        response = task.demonstration(problem, kind='solution', rng=rng)
        assert task.verdict(problem, response).correct
        assert set(problem.prompt + response) <= set(task.alphabet)
    with pytest.raises(ValueError, match=r"'guess' is none of .*'solution'"):
        task.demonstration(problem, kind='guess', rng=rng)


def test_score_reads_the_records_of_the_benchmark():
    one, two = toy.record(1), toy.record(1, tests=2)
    records = [one, two | {'test_index': 1}, two, two | {'test_index': 2}, 'S.E']
    records += [one | {'test_index': True}]
    response = '```\n0 0\n2 1\n```'
    lines = [
        json.dumps({'problem': record, 'response': response}).encode()
        for record in records
    ]
    results = list(score.score_lines(lines, task=ArcTask))
    assert [result['correct'] for result, _ in results] == [False, True] + [False] * 4
    assert [result['error'] for result, malformed in results if malformed] == [
        'field test_index must name one of 2 tests',
        'test_index=2 must lie in [0, 2)',
        "give ARC's record as an object, not as text",
        'test_index=True must lie in [0, 1)',
    ]


def test_the_benchmark_is_read_as_it_is(shared_dir, caplog):
    folder = shared_dir / 'data' / 'arc_agi_1'
    train, test = (source(folder, split) for split in ('train', 'test'))
    assert (len(train), len(test)) == (415, 419)
    assert "left out 1 training tasks that the evaluation set has: ['40853293']" in (
        caplog.text
    )
    lengths = np.array([len(p.prompt) for p in test])
    assert (lengths > 8000).sum() == 28
    assert len(source(folder, 'test', max_characters=8000)) == 419 - 28
    task, rng = make_task(), np.random.default_rng(0)
    for problem in (*train, *test):
        response = task.demonstration(problem, kind='solution', rng=rng)
        assert task.verdict(problem, response).correct
        output = problem.data['output']
        nested = f'```\n{json.dumps(output)}\n```'
        assert task.verdict(problem, nested).correct
        other = [[(cell + 1) % 10 for cell in output[0]], *output[1:]]
        wrong = f'```\n{json.dumps(other)}\n```'
        assert task.verdict(problem, wrong).error == f'{len(output[0])} cells differ'

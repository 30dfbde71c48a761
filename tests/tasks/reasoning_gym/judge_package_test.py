"""The package's own scorers: right answers, near misses and exploits of every set."""

import importlib.util

import pytest

from passk_jax import tasks
from passk_jax.tasks.reasoning_gym import judge, problems
from passk_jax.tasks.reasoning_gym.table import SCORED
from tests.tasks.payloads import PAYLOADS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec('reasoning_gym') is None,
        reason='needs reasoning-gym, an optional extra',
    ),
]

COUNT = 50
# Where the same answer twice is the answer, or may be.
REPEATABLE = ('knights_knaves', 'sokoban')
EXPLOITS = (
    *('', '-', '.', 'nan', '-inf', '1e999', '[]', '{}', '[[]]', '""', 'null', 'None'),
    *('x' * 100_000, '9' * 100_000, '[' * 100_000, '1 ' * 50_000, '\n' * 100_000),
)


@pytest.fixture(scope='module', params=SCORED)
def items(request):
    """Problems of a set."""
    params = {'sets': {request.param: {}}, 'seed': 11, 'train_count': 0}
    params |= {'validation_count': 0, 'test_count': COUNT}
    source = tasks.make_task('reasoning_gym', params).source('test', data_dir='')
    assert {problem.category for problem in source} == {request.param}
    return source


def verdicts(items, answers):
    responses = [f'so <answer>{answer}</answer>' for answer in answers]
    return judge.judge([problem.data for problem in items], responses)


def near_miss(problem):
    """The stored answer with its first letter or digit replaced by the next one."""
    answer = problem.data['answer']
    if problem.category == 'sokoban':
        # An unknown move is none, but nothing is solved before the last.
        return answer[:-1]
    place = next(i for i, character in enumerate(answer) if character.isalnum())
    new = {'9': '0', 'z': 'a', 'Z': 'A'}.get(answer[place], chr(ord(answer[place]) + 1))
    return answer[:place] + new + answer[place + 1 :]


def test_the_stored_answer_is_right(items):
    answers = [problem.data['answer'] for problem in items]
    assert all(verdict.correct for verdict in verdicts(items, answers))


def test_near_misses_are_wrong(items):
    answers = [near_miss(problem) for problem in items]
    assert not any(verdict.correct for verdict in verdicts(items, answers))
    if items[0].category not in REPEATABLE:
        twice = ['\n'.join([problem.data['answer']] * 2) for problem in items]
        assert not any(verdict.correct for verdict in verdicts(items, twice))


def test_exploits_are_wrong_and_run_nothing(items, tmp_path):
    canary = tmp_path / 'canary'
    payloads = [payload.replace('{path}', str(canary)) for payload in PAYLOADS]
    for answer in (*EXPLOITS, *payloads):
        judged = verdicts(items[:5], [answer] * 5)
        assert not any(verdict.correct for verdict in judged), answer[:50]
        assert not any('too' in verdict.error for verdict in judged), answer[:50]
    assert not canary.exists()


def test_what_is_kept_of_an_item_is_what_its_scorer_reads(items):
    name = items[0].category
    package = problems.load_package()
    dataset = package.create_dataset(name, seed=5, size=20)
    score = package.get_score_answer_fn(name)
    for i in range(20):
        if not dataset[i]['answer']:
            continue
        item = problems.item_of(name, dataset[i])
        for answer in (item['answer'], item['answer'] + ' 1', '1'):
            try:
                expected = score(answer, dataset[i])
            except ValueError:
                continue
            assert score(answer, item) == expected

"""100,000 damaged responses to every task; pictured_test.py has those of pictures."""

import random
import resource
import time
from collections.abc import Sequence

import pytest

from passk_jax import tasks
from passk_jax.tasks.enigmata.table import ALL_PUZZLES
from passk_jax.verifiers import mathematics
from tests.tasks.arc import toy as arc
from tests.tasks.enigmata.judge import problem_of
from tests.tasks.korbench import toy as korbench
from tests.tasks.math import toy as math

pytestmark = pytest.mark.slow

_COUNT = 100_000
_MOST_SECONDS = 1.0
_MOST_BYTES = 200 << 20
_FRAGMENTS = (
    *('```', '\n', '[', ']', '(', ')', ',', '->', '"', "'", ' ', '0', '1', '-1', '.'),
    *('9' * 30, '+', '*', '/', '**', '^', '!', '_', '=', '<', '{', '}', '[[', ']]'),
    *('X', 'U', 'R11', 'RD', 'NO', 'null', 'nan', 'inf', '1e999', '\\', '\\frac'),
    *('\\sqrt', r'\boxed{', '$', '%', '\x00', '\ud800', '²', '٣', '１', '𝔸', '\u2028'),
    *('<begin_board>', '<end_board>', 'cannot form 24', 'Answer: ', 'not exist'),
    *('__import__("os").getpid()', '9**9**9', 'lambda: 0', ';' * 100, '1 ' * 100),
)  # fmt: skip


def mutations(rights: Sequence[str], *, seed: str) -> list[str]:
    """Right responses with up to six cuts, repeats and foreign pieces each."""
    rng, texts = random.Random(seed), []
    for _ in range(_COUNT):
        text = rng.choice(rights)
        for _ in range(rng.randint(1, 6)):
            start = rng.randint(0, len(text))
            end = start + rng.choice((0, 0, 1, 2, 9))
            piece = rng.choice((*_FRAGMENTS, '', text[start:end] * 2))
            text = text[:start] + piece + text[end:]
        texts.append(text)
    return texts


def check(verdicts) -> int:
    """How many are right; a wrong one has a reason."""
    assert all((verdict.error is None) == verdict.correct for verdict in verdicts)
    return sum(verdict.correct for verdict in verdicts)


def check_all(judges, rights: Sequence[str], *, seed: str) -> None:
    """Judges each text by each rule, in time and without keeping its memory.

    The first rule is the strict one. The benchmark's own may refuse what is right.
    """
    texts = mutations(rights, seed=seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rights_found = []
    for judge_one in judges:
        slowest, right = 0.0, 0
        for text in texts:
            start = time.process_time()
            right += check([judge_one(text)])
            slowest = max(slowest, time.process_time() - start)
        assert slowest < _MOST_SECONDS
        rights_found.append(right)
    # Some cuts are harmless, and most are not.
    assert rights_found[0] > 0
    assert max(rights_found) < _COUNT / 2
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < _MOST_BYTES


@pytest.mark.parametrize('name', ALL_PUZZLES)
def test_no_response_to_a_puzzle_breaks_its_rules(name):
    puzzle = ALL_PUZZLES[name]
    data = problem_of(puzzle, 1)
    judges = [
        lambda text, official=official: puzzle.verdict(data, text, official=official)
        for official in (False, True)
    ]
    check_all(judges, [puzzle.response(data['answer'])], seed=name)


def test_no_response_to_a_maze_breaks_its_rule():
    task = tasks.task_class('maze')
    problem = task.parse_problem('S..\n.*.\n..E')
    rights = ['RRDD', 'DDRR', r'So \boxed{RRDD}.']
    check_all([lambda text: task.verdict(problem, text)], rights, seed='maze')


def test_no_response_to_arc_breaks_its_rule():
    task = tasks.task_class('arc')
    problem = task.parse_problem(arc.record(1))
    rows = '\n'.join(' '.join(map(str, row)) for row in problem.data['output'])
    rights = [f'```\n{rows}\n```', rf'\boxed{{{rows}}}']
    check_all([lambda text: task.verdict(problem, text)], rights, seed='arc')


@pytest.mark.parametrize('category', korbench.PROBLEMS)
def test_no_response_to_korbench_breaks_its_rules(category):
    """All at once, because a worker judges some."""
    task = tasks.task_class('korbench')
    _, question, answer = korbench.PROBLEMS[category]
    record = {'idx': '1', 'question': question, 'answer': answer, 'rule_id': '10'}
    problem = task.parse_problem(record | {'question_type': category})
    texts = mutations([answer, f'So {answer} it is.'], seed=category)
    before = time.monotonic()
    verdicts = tasks.make_task('korbench', korbench.PARAMS).verify([problem], [texts])
    assert 0 < verdicts.correct.sum() < _COUNT / 2
    assert check([task.official_verdict(problem, text) for text in texts]) > 0
    assert time.monotonic() - before < 900


def test_no_answer_in_mathematics_breaks_its_rule():
    """All at once, because a worker judges many."""
    golds = [record['answer'] for record in math.RECORDS['train']] + ['204', '(1,2)']
    before = time.monotonic()
    for gold in golds:
        rights = [rf'So \boxed{{{gold}}}.', rf'\boxed{{1}} or \boxed{{ {gold} }}']
        texts = mutations(rights, seed=gold)[: _COUNT // len(golds)]
        right = check(mathematics.judge([gold] * len(texts), texts))
        assert 0 < right < len(texts) / 2
    assert time.monotonic() - before < 1800

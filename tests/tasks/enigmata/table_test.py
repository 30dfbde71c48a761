"""What holds for every puzzle; each file of puzzles also has tests of its own rules."""

import collections
import functools
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import splits
from passk_jax.tasks.enigmata.puzzle import LEVELS
from passk_jax.tasks.enigmata.table import ALL_PUZZLES, FILE_PUZZLES, PUZZLES
from passk_jax.tasks.enigmata.task import EnigmataTask
from tests.slow import slow_values
from tests.tasks.enigmata.judge import FILE_DATA, LONG, TEXTS, problem_of

# The folder of Enigmata's problems and its official verdicts, beside the checkout.
_ENIGMATA = 'data/enigmata'

# Responses whose official verdict ours does not reproduce, and why: none so far.
DISAGREEMENTS: dict[tuple[str, str], str] = {}
# Derived answers that the strict rule refuses, and why: the stored answers themselves
# break the rule on intermediate results, stop short of the landmark, light a bulb
# through a numbered cell, close a loop, lack mines that several numbers force together,
# or come from a heuristic.
REFUSED = {
    'countdown-6': '4/3 is not a positive integer',
    'countdown-12': '11/2 is not a positive integer',
    'countdown-25': '-4 is not a positive integer',
    'countdown-31': '-6 is not a positive integer',
    'countdown-36': '-1 is not a positive integer',
    'natural_language_navigation-13': 'not a way to a nearest landmark of that kind',
    'natural_language_navigation-28': 'not a way to a nearest landmark of that kind',
    'light_up-7': 'a bulb lights another',
    'light_up-25': 'a bulb lights another',
    'car_painting-1': '5 switches, not 4',
    'car_painting-3': '4 switches, not 3',
    'car_painting-16': '7 switches, not 6',
    'car_painting-18': '4 switches, not 3',
    'car_painting-21': '10 switches, not 9',
    'car_painting-25': '8 switches, not 7',
    'car_painting-30': '12 switches, not 11',
    'car_painting-34': '10 switches, not 9',
    'car_painting-39': '16 switches, not 14',
    'car_painting-40': '16 switches, not 14',
    'car_painting-42': '12 switches, not 11',
}
_LOOPS = (
    0, 1, 3, 4, 6, 9, 10, 12, 13, 15, 18, 19, 21, 22, 25, 27, 28, 30, 31, 33, 34, 36,
    37, 39, 40, 42, 43,
)  # fmt: skip
_MISSED = (
    0, 1, 6, 7, 9, 10, 12, 13, 16, 21, 22, 24, 25, 27, 28, 31, 33, 34, 36, 37, 39, 40,
    43,
)  # fmt: skip
REFUSED |= {f'slant-{i}': 'diagonals form a closed loop' for i in _LOOPS}
REFUSED |= {f'minesweeper-{i}': 'a forced mine is missing' for i in _MISSED}

# The answer is the last table of a response, so that a later block without a table
# changes nothing.
LAST_TABLE = ('zebra_logic',)
# Puzzles for which Enigmata has no generator, so that there are no records here.
WITHOUT_RECORDS = ('knights_and_knaves',)

_COUNT = 200


@pytest.fixture(params=PUZZLES)
def puzzle(request):
    return PUZZLES[request.param]


@pytest.fixture(params=ALL_PUZZLES)
def any_puzzle(request):
    """A puzzle that makes its problems or reads them from files."""
    return ALL_PUZZLES[request.param]


@pytest.fixture(params=[name for name in PUZZLES if name not in WITHOUT_RECORDS])
def recorded(request):
    """A puzzle with real records and official verdicts."""
    return PUZZLES[request.param]


def _generate(puzzle):
    counts = {'test': _COUNT, 'validation': 0, 'train': 0}
    by_split = splits.generate_splits(
        puzzle, levels=LEVELS, counts=counts, seed=0, upto='test'
    )
    return by_split['test']


# The same for all tests of a puzzle.
_problems = functools.cache(_generate)


def test_a_row_is_named_after_its_puzzle(any_puzzle):
    assert any_puzzle.name in ALL_PUZZLES
    assert any_puzzle.category in (
        *('Arithmetic', 'Crypto', 'Graph', 'Grid'),
        *('Logic', 'Search', 'Sequential'),
    )
    assert 'Answer: ' in any_puzzle.rules
    assert (any_puzzle.rules + any_puzzle.name).replace('\n', '').isprintable()
    assert any_puzzle.rules.isascii()


@pytest.mark.parametrize(
    'puzzle',
    slow_values(PUZZLES, quick=PUZZLES.keys() - {'minesweeper', 'zebra_logic'}),
    indirect=True,
)
def test_problems_are_the_same_twice_all_different_and_solved(puzzle):
    problems = _problems(puzzle)
    assert problems == _generate(puzzle)
    assert json.loads(json.dumps(problems)) == problems
    assert len(problems) == len(LEVELS) * _COUNT
    questions = [puzzle.question(data) for data in problems]
    assert len(set(questions)) == len(questions)
    for data, question in zip(problems, questions, strict=True):
        assert (question + data['answer']).replace('\n', '').isprintable()
        assert question.isascii()
        verdict = puzzle.verdict(data, puzzle.response(data['answer']), official=False)
        assert verdict.error is None, (data, verdict)
        assert (verdict.correct, verdict.parsed) == (True, data['answer'])


@pytest.mark.parametrize('name', FILE_PUZZLES)
def test_a_problem_of_a_file_has_a_right_answer_and_says_where_it_is_from(name):
    puzzle, data = FILE_PUZZLES[name], FILE_DATA[name]
    response = puzzle.response(data['answer'])
    for official in (False, True):
        verdict = puzzle.verdict(data, response, official=official)
        assert (verdict.correct, verdict.parsed) == (True, data['answer'])
        half = puzzle.response(data['answer'][: len(data['answer']) // 2])
        assert not puzzle.verdict(data, half, official=official).correct
    assert 'http' in puzzle.origin
    assert puzzle.files


def test_another_seed_gives_other_problems(puzzle):
    first, second = ([puzzle.generate(Draws(seed), 2) for _ in 'ab'] for seed in (0, 1))
    assert first[0] == first[1]
    assert first != second


def test_the_answer_to_another_problem_is_seldom_right(puzzle):
    problems = _problems(puzzle)
    pairs = zip(problems, problems[1:] + problems[:1], strict=True)
    right = sum(
        puzzle.verdict(a, puzzle.response(b['answer']), official=False).correct
        for a, b in pairs
        if a['answer'] != b['answer']
    )
    assert right < 0.2 * len(problems)


def test_every_part_of_an_answer_counts(puzzle):
    """An answer without its last line or second half is wrong, and so is none."""
    for data in _problems(puzzle)[:: _COUNT // 10]:
        answer = data['answer']
        for wrong in ('', 'nothing', '0', answer[: len(answer) // 2]):
            verdict = puzzle.verdict(data, puzzle.response(wrong), official=False)
            assert not verdict.correct, (data, wrong)
            assert verdict.error


def _items(shared_dir, name):
    path = shared_dir / _ENIGMATA / 'items' / f'{name}.jsonl'
    items = [json.loads(line) for line in path.read_text().splitlines()]
    return {item['id']: EnigmataTask.parse_problem(item) for item in items}


def _labelled(shared_dir, name):
    return _all_labelled(shared_dir / _ENIGMATA / 'official_verdicts.jsonl')[name]


@functools.cache
def _all_labelled(path: pathlib.Path):
    cases = collections.defaultdict(list)
    for line in path.read_text().splitlines():
        case = json.loads(line)
        cases[case['id'].rpartition('-')[0]].append(case)
    return cases


def test_every_official_verdict_is_reproduced(recorded, shared_dir):
    problems = _items(shared_dir, recorded.name)
    cases = _labelled(shared_dir, recorded.name)
    assert len(cases) >= 60
    for case in cases:
        problem = problems[case['id']]
        verdict = EnigmataTask.verdict(problem, case['response'], official=True)
        agrees = verdict.correct == bool(case['official'])
        assert agrees == ((case['id'], case['kind']) not in DISAGREEMENTS), (
            case,
            verdict.error,
        )


def test_derived_answers_are_right_by_the_rules(recorded, shared_dir):
    problems = _items(shared_dir, recorded.name)
    right = ['derived_correct', 'wrong_block_then_correct']
    if recorded.name in LAST_TABLE:
        right.append('correct_then_wrong_block')
    for case in _labelled(shared_dir, recorded.name):
        if case['kind'] in right:
            verdict = EnigmataTask.verdict(problems[case['id']], case['response'])
            error = REFUSED.get(case['id'])
            assert verdict.error == error, (case, verdict)
        elif case['kind'] != 'other_items_answer':
            assert not EnigmataTask.verdict(
                problems[case['id']], case['response']
            ).correct


def test_a_published_record_reads_the_same(recorded, shared_dir):
    """The published files keep meta as JSON text and call the puzzle task_name."""
    path = shared_dir / _ENIGMATA / 'items' / f'{recorded.name}.jsonl'
    item = json.loads(path.read_text().splitlines()[0])
    published = {
        'task_name': item['task'],
        'prompt': item['prompt'],
        'answer': json.dumps(item['answer']),
        'meta': json.dumps(item['meta']),
    }
    assert EnigmataTask.parse_problem(published) == EnigmataTask.parse_problem(item)
    for cut in ('question', 'answer', 'input_sequence', 'current_board', 'colors', 'K'):
        meta = {key: value for key, value in item['meta'].items() if key != cut}
        for bad in (meta, meta | {cut: 7}, meta | {cut: [[1], 'x', None]}):
            try:
                problem = EnigmataTask.parse_problem(item | {'meta': bad})
            except ValueError:
                continue
            EnigmataTask.verdict(problem, recorded.response('1 2'))


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=TEXTS, place=st.integers(0, 200), cut=st.integers(0, 5))
def test_no_response_makes_a_verdict_raise(any_puzzle, text, place, cut):
    for level in range(len(LEVELS)):
        data = problem_of(any_puzzle, level)
        answer = data['answer']
        mutated = answer[:place] + text + answer[place + cut :]
        for response in (text, any_puzzle.response(text), any_puzzle.response(mutated)):
            for official in (False, True):
                verdict = any_puzzle.verdict(data, response, official=official)
                assert (verdict.error is None) == verdict.correct


@pytest.mark.parametrize(
    'any_puzzle', slow_values(ALL_PUZZLES, quick=[*ALL_PUZZLES][::3]), indirect=True
)
def test_long_responses_take_no_time(any_puzzle):
    data = problem_of(any_puzzle, 2)
    for text in LONG:
        short = text[:9_000]
        for response in (text, any_puzzle.response(text), any_puzzle.response(short)):
            for official in (False, True):
                start = time.process_time()
                verdict = any_puzzle.verdict(data, response, official=official)
                # Milliseconds of the processor, which others may use meanwhile.
                assert time.process_time() - start < 1
                assert not verdict.correct


def test_no_answer_runs_as_code(any_puzzle, tmp_path):
    """Nine texts that an evaluation would run; each would leave a file."""
    file = tmp_path / 'ran'
    touch = f'__import__("pathlib").Path({str(file)!r}).touch()'
    payloads = [
        touch,
        f'[{touch}]',
        f'[({touch}, 1)]',
        f'({touch} or 24)',
        f'24 if {touch} is None else 0',
        f'[x for x in [{touch}]]',
        f'["Pop()", {touch}]',
        f'(lambda: {touch})()',
        f'{{{touch}}}',
    ]
    data = problem_of(any_puzzle, 0)
    for payload in payloads:
        for official in (False, True):
            verdict = any_puzzle.verdict(
                data, any_puzzle.response(payload), official=official
            )
            assert not verdict.correct
    assert not file.exists()
    eval(touch)
    assert file.exists()


_DIGESTS = """
import hashlib
from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.table import PUZZLES
for name, puzzle in PUZZLES.items():
    data = [puzzle.generate(Draws(0, i), i % 3) for i in range(60)]
    print(name, hashlib.sha256(repr(data).encode()).hexdigest())
"""


@pytest.mark.slow
def test_problems_are_the_same_in_every_process():
    """Whatever the order of the sets of texts in it."""

    def digests(hash_seed):
        return subprocess.run(
            [sys.executable, '-c', _DIGESTS],
            env=os.environ | {'PYTHONHASHSEED': hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    first = digests('1')
    assert len(first.splitlines()) == len(PUZZLES)
    assert first == digests('2')

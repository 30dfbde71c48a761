import itertools
import json
import re

import pytest

from passk_jax.tasks.enigmata.task import EnigmataTask
from passk_jax.tasks.enigmata.zebra_logic import ZEBRA_LOGIC
from tests.tasks.enigmata.judge import drawn, error_of

_DATA = {
    'rows': {'Job': ['nurse', 'pilot', 'sailor'], 'Pet': ['Cat', 'dog', 'goat']},
    'clues': [
        'Pet:dog is between Job:nurse and Job:sailor',
        'Job:pilot == Pet:dog',
        'Job:sailor is on the right of Pet:dog',
        'Pet:Cat is on the far right',
    ],
    'answer': '| Job | nurse | pilot | sailor |\n| Pet | goat | dog | Cat |',
}
_JOBS, _PETS = _DATA['answer'].split('\n')

# Clue -> whether it holds, by the columns of what it names.
_MEANINGS = {
    r'(\S+) == (\S+)': lambda a, b, width: a == b,
    r'(\S+) is on the left of (\S+)': lambda a, b, width: b - a == 1,
    r'(\S+) is on the right of (\S+)': lambda a, b, width: a - b == 1,
    r'(\S+) is between (\S+) and (\S+)': lambda a, b, c, width: (
        [b, a, c] in ([a - 1, a, a + 1], [a + 1, a, a - 1])
    ),
    r'(\S+) is on the far left': lambda a, width: a == 0,
    r'(\S+) is on the far right': lambda a, width: a == width - 1,
    r'(\S+) is in the middle': lambda a, width: 2 * a == width - 1,
}


def _solutions(rows, clues):
    """Every solution, by trying the orders of one row after the other."""
    width = len(next(iter(rows.values())))
    parsed = []
    for clue in clues:
        (match,) = [(re.fullmatch(f, clue), m) for f, m in _MEANINGS.items()
                    if re.fullmatch(f, clue)]  # fmt: skip
        parsed.append((match[0].groups(), match[1]))
    solutions = [{}]
    for name, values in rows.items():
        orders = [
            {f'{name}:{value}': place for place, value in enumerate(order)}
            for order in itertools.permutations(values)
        ]
        solutions = [
            places
            for places in (
                solution | order for solution in solutions for order in orders
            )
            if all(
                holds(*(places[name] for name in names), width)
                for names, holds in parsed
                if all(name in places for name in names)
            )
        ]
    return solutions


@pytest.mark.parametrize('level', range(3))
def test_clues_have_one_solution_and_each_is_needed(level):
    for data in drawn(ZEBRA_LOGIC, level, count=8):
        assert {len(values) for values in data['rows'].values()} == {level + 2}
        assert len(data['rows']) == 4
        assert len(_solutions(data['rows'], data['clues'])) == 1
        for clue in data['clues']:
            remaining = [x for x in data['clues'] if x != clue]
            assert len(_solutions(data['rows'], remaining)) > 1


def test_every_kind_of_clue_occurs():
    problems = drawn(ZEBRA_LOGIC, 1)
    clues = [clue for data in problems for clue in data['clues']]
    for form in _MEANINGS:
        assert any(re.fullmatch(form, clue) for clue in clues), form


def test_the_solution_of_a_record_is_unique(shared_dir):
    path = shared_dir / 'data/enigmata/items/zebra_logic.jsonl'
    for line in path.read_text().splitlines()[::3]:
        data = EnigmataTask.parse_problem(json.loads(line)).data
        assert len(_solutions(data['rows'], data['clues'])) == 1
        assert error_of(ZEBRA_LOGIC, data, data['answer']) is None


_ORDER = 'not the rows of the puzzle in their order'
_MISSING = 'a row of the stored answer is missing'
_EVERY_TABLE = '\n'.join(
    f'| {name} | {" | ".join(order)} |'
    for name, values in _DATA['rows'].items()
    for order in itertools.permutations(values)
)


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        (f'{_JOBS}\n{_PETS}', None, None),
        (f'{_JOBS}\n   |PET|  goat|DOG | cat |', None, None),
        (f'{_PETS}\n{_JOBS}', _ORDER, None),
        (f'| | 1 | 2 | 3 |\n{_JOBS}\n{_PETS}', _ORDER, None),
        # A table that lists every row there can be.
        (_EVERY_TABLE, _ORDER, None),
        (_JOBS, _ORDER, _MISSING),
        (f'{_JOBS}\n{_JOBS}', _ORDER, _MISSING),
        (f'{_JOBS}\n| Pet | dog | dog | cat |',
         'not the values of row Pet, each once', _MISSING),
        (f'{_JOBS}\n| Pet | goat | dog |',
         'not the values of row Pet, each once', _MISSING),
        (f'{_JOBS}\n| Pet | dog | goat | cat |',
         'this clue does not hold: Pet:dog is between Job:nurse and Job:sailor',
         _MISSING),
        (f'{_JOBS}\n| Pet | cat | dog | goat |',
         'this clue does not hold: Pet:Cat is on the far right', _MISSING),
        (f'{_JOBS}\n\u0020||', _ORDER, _MISSING),
        ('nurse goat', 'no answer', 'no answer'),
    ],
)  # fmt: skip
def test_the_table_is_that_of_the_puzzle_and_meets_the_clues(answer, error, official):
    assert error_of(ZEBRA_LOGIC, _DATA, answer) == error
    assert error_of(ZEBRA_LOGIC, _DATA, answer, official=True) == official


def test_the_last_table_counts_wherever_it_stands():
    wrong = _DATA | {'answer': ''}
    for response in (
        f'So:\n{_JOBS}\n{_PETS}',
        f'{_JOBS}\n{_PETS}\n```\nnothing\n```',
        f'{_PETS}\n{_JOBS}\n\nNo:\n\n{_JOBS}\n\n{_PETS}\nDone.',
    ):
        assert ZEBRA_LOGIC.verdict(wrong, response, official=False).correct
    response = f'{_JOBS}\n{_PETS}\nNo:\n{_PETS}\n{_JOBS}'
    assert not ZEBRA_LOGIC.verdict(wrong, response, official=False).correct


def test_a_question_reads_as_its_own_data():
    for data in [_DATA, *drawn(ZEBRA_LOGIC, 1, count=20)]:
        meta = {'question': ZEBRA_LOGIC.question(data) + '\nFill the following table'}
        record = {'meta': meta, 'answer': data['answer']}
        assert ZEBRA_LOGIC.read(record) == data


@pytest.mark.parametrize(
    ('old', 'new', 'error'),
    [
        ('goat', 'goat, rat', 'no rows of equally many values'),
        ('goat', 'dog', 'no rows of equally many values'),
        ('Pet:Cat', 'Pet:cow', "no 'Pet:cow' in the rows"),
        ('far right', 'far end', 'is of none of the kinds'),
    ],
)
def test_a_record_that_is_no_such_puzzle_is_an_error(old, new, error):
    text = ZEBRA_LOGIC.question(_DATA)
    assert old in text
    record = {'meta': {'question': text.replace(old, new)}, 'answer': _DATA['answer']}
    with pytest.raises(ValueError, match=error):
        ZEBRA_LOGIC.read(record)

"""Right answers in spellings that people and models use are right, by the strict rule.

The official rule is as before: other files compare it with the official verdicts.
"""

import contextlib
import re

import pytest

from passk_jax.tasks.enigmata.table import ALL_PUZZLES, PUZZLES
from tests.tasks.enigmata.grid_spellings import AROUND
from tests.tasks.enigmata.judge import FILE_DATA, drawn, error_of, problem_of
from tests.tasks.enigmata.spellings import FORMS, expressions

# A row of bold cells of a board is no row of stars.
NOT_READ = {
    ('star_battle', 'bold cells'),
    ('campsite', 'bold cells'),
}


@pytest.mark.parametrize('name', ALL_PUZZLES)
def test_usual_spellings_of_a_right_answer_are_right(name):
    puzzle = ALL_PUZZLES[name]
    refused = []
    for level in range(3):
        data = problem_of(puzzle, level)
        forms = AROUND | FORMS[name]
        if name == 'countdown':
            forms |= expressions(data['target'])
        for form, spell in forms.items():
            if (name, form) in NOT_READ:
                continue
            answer = spell(data['answer'])
            if error := error_of(puzzle, data, answer):
                refused.append((form, answer, error))
    assert not refused, '\n'.join(map(repr, refused))
    assert len(FORMS[name]) >= 8


def test_every_puzzle_has_forms():
    assert FORMS.keys() == ALL_PUZZLES.keys()
    assert all(data['answer'] for data in FILE_DATA.values())


def _wrong_answers(puzzle, data):
    """The answers to other problems, and this one cut, doubled or with a part moved."""
    answer = data['answer']
    answers = [problem_of(puzzle, level)['answer'] for level in range(3)]
    parts = re.split(r'(\s+|,|->)', answer)
    return [
        *(other for other in answers if other != answer),
        ''.join(parts[2:]),
        ''.join(parts[:-2]),
        f'{answer}\n{answer}',
        ''.join([*parts[2:], *parts[1:2], parts[0]]),
        answer.replace('1', '2', 1),
    ]


@pytest.mark.parametrize('name', ALL_PUZZLES)
def test_no_spelling_makes_a_wrong_answer_right(name):
    puzzle = ALL_PUZZLES[name]
    for level in range(3):
        data = problem_of(puzzle, level)
        for wrong in _wrong_answers(puzzle, data):
            if error_of(puzzle, data, wrong) is None:
                continue
            for form, spell in (AROUND | FORMS[name]).items():
                with contextlib.suppress(ValueError, SyntaxError, KeyError, IndexError):
                    answer = spell(wrong)
                    # Some forms write every answer anew, which may mend it.
                    if answer.strip(' |,') != spell(data['answer']).strip(' |,'):
                        assert error_of(puzzle, data, answer), (form, answer)


@pytest.mark.parametrize(
    ('name', 'form', 'error'),
    [
        ('sudoku', 'commas', 'is not an integer'),
        ('slant', 'diagonals', 'is not an integer'),
        ('star_battle', 'stars', 'not the stored answer'),
        ('kakurasu', 'no list', 'no list in brackets'),
        ('twiddle', 'a list', 'no pairs joined by ->'),
        ('car_painting', 'no list', 'no list in brackets'),
        ('stack_permutation', 'bare', 'no list in brackets'),
        ('nine_puzzle', 'small', 'is not a move'),
        ('eight_puzzle', 'small', 'no moves'),
        ('crypto_KKA', 'small', 'not the stored answer'),
        ('FOLIO', 'small', 'not the stored answer'),
        ('game24', 'equal', "'=' does not belong in an expression"),
        ('zebra_logic', 'bold names', 'a row of the stored answer is missing'),
        ('tic_tac_toe', 'small', 'a cell is not "X", "O" or ""'),
        ('full_crosswords', 'JSON', 'other words across'),
        ('checkmate_in_one', 'no mark', 'another move'),
    ],
)
def test_the_official_rule_reads_no_more_than_it_did(name, form, error):
    puzzle = ALL_PUZZLES[name]
    datas = drawn(puzzle, 1, 12) if name in PUZZLES else [FILE_DATA[name]]
    pairs = [
        (data, FORMS[name][form](data['answer']))
        for data in datas
        if not puzzle.none or puzzle.none not in data['answer']
    ]
    errors = [
        error_of(puzzle, data, answer, official=True)
        for data, answer in pairs
        if answer != data['answer']
    ]
    assert errors
    assert all(message and error in message for message in errors), errors

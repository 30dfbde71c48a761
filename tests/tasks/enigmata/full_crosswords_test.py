import json

import pytest

from passk_jax.tasks.enigmata.full_crosswords import FULL_CROSSWORDS
from tests.tasks.enigmata.judge import error_of

_WORDS = {'across': ['CAT', 'TEN'], 'down': ['CUT', 'TIN']}
_DATA = {'question': '_ _ _', 'answer': 'across: CAT, TEN\ndown: CUT, TIN'}
_NONE = {'question': '_ _ _', 'answer': 'No valid solution exists'}


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('across: CAT, TEN\ndown: CUT, TIN', None, None),
        ('Down: c u t,tin\n\n ACROSS: Cat , Ten', None, None),
        ('across: CAT\ndown: CUT, TEN', 'other words across', 'other words across'),
        ('across: CAT, TEN\ndown: CUT', 'other words down', 'other words down'),
        ('across: CAT, TEN\ndown: CUT, TIN, TIN', 'other words down',
         'other words down'),
        ('across: CAT, TEN', 'not two lines', 'other words down'),
        ('across: CAT, TEN\nacross: CAT, TEN', 'other words down', 'other words down'),
        # Officially the last line of each kind counts.
        ('across: DOG\nacross: CAT, TEN\ndown: CUT, TIN', 'not two lines', None),
        ('So:\nacross: CAT, TEN\ndown: CUT, TIN', None, None),
        ('"No valid solution"', 'there is a solution', 'there is a solution'),
        ('No valid solution', 'there is a solution', 'other words across'),
    ],
)  # fmt: skip
def test_the_stored_words_are_right(answer, error, official):
    assert error_of(FULL_CROSSWORDS, _DATA, answer) == error
    assert error_of(FULL_CROSSWORDS, _DATA, answer, official=True) == official


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('"No valid solution exists"', None, None),
        ('no valid solution', None, 'no solution'),
        # Officially any sentence in quotes.
        ('"CAT"', 'no solution', None),
        ('across: CAT, TEN\ndown: CUT, TIN', 'no solution', 'no solution'),
    ],
)
def test_there_may_be_no_solution(answer, error, official):
    assert error_of(FULL_CROSSWORDS, _NONE, answer) == error
    assert error_of(FULL_CROSSWORDS, _NONE, answer, official=True) == official


@pytest.mark.parametrize('answer', [_WORDS, json.dumps(_WORDS)])
def test_a_record_of_enigmata_has_words_or_their_text(answer):
    record = {'meta': {'question': '_ _ _'}, 'answer': answer}
    assert FULL_CROSSWORDS.read(record) == _DATA


def test_a_record_may_deny_solutions_and_must_say_something():
    record = {'meta': {'question': '_ _ _'}, 'answer': _NONE['answer']}
    assert FULL_CROSSWORDS.read(record) == _NONE
    text = _DATA['answer']
    for answer, error in ((text, ValueError), ({'across': ['CAT']}, KeyError)):
        with pytest.raises(error):
            FULL_CROSSWORDS.read(record | {'answer': answer})


def test_the_file_has_records_of_enigmata(tmp_path):
    meta = {'question': '_ _ _', 'answer': _WORDS, 'difficulty_level': 'easy'}
    record = {
        'task_name': 'full_crosswords',
        'answer': json.dumps(_WORDS),
        'meta': json.dumps(meta),
    }
    file = tmp_path / 'full_crosswords.jsonl'
    file.write_text(json.dumps(record))
    (problem,) = FULL_CROSSWORDS.problems(file)
    assert (problem.level, problem.data) == ('easy', _DATA)
    file.write_text(json.dumps(record | {'meta': meta | {'difficulty_level': 'x'}}))
    with pytest.raises(ValueError, match="level 'x' is none of"):
        list(FULL_CROSSWORDS.problems(file))

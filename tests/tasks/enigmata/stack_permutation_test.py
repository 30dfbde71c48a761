import itertools

import pytest

from passk_jax.tasks.enigmata import stack_permutation
from passk_jax.tasks.enigmata.stack_permutation import STACK_PERMUTATION
from tests.tasks.enigmata.judge import drawn, error_of

_NONE = '"The output sequence is not a valid stack permutation."'
_DATA = {'input': [1, 2, 3], 'output': [2, 1, 3], 'answer': ''}


@pytest.mark.parametrize(
    ('answer', 'error'),
    [
        ('["Push(1)", "Push(2)", "Pop()", "Pop()", "Push(3)", "Pop()"]', None),
        ("['Push(1)', 'Push(2)', 'Pop()', 'Pop()', 'Push(3)', 'Pop()']", None),
        ('["Push(1)", "Pop()"]', 'another output'),
        (
            '["Push(1)", "Push(2)", "Push(3)", "Pop()", "Pop()", "Pop()"]',
            'another output',
        ),
        ('["Push(2)", "Pop()"]', 'operation 1 pushes another number'),
        ('["Push(1)", "Pop()", "Pop()"]', 'operation 3 pops from an empty stack'),
        (
            '["Push(1)", "Push(2)", "Push(3)", "Push(4)"]',
            'operation 4 pushes another number',
        ),
        ('["Push(1)", "put"]', 'operation 2 is neither Push(number) nor Pop()'),
        ('[]', 'another output'),
        (_NONE, 'it is possible'),
        ('open("/tmp/x", "w")', 'no list in brackets'),
        ('[open("/tmp/x", "w")]', 'item 1 is malformed'),
    ],
)
def test_the_operations_must_make_the_output(answer, error):
    assert error_of(STACK_PERMUTATION, _DATA, answer) == error
    assert error_of(STACK_PERMUTATION, _DATA, answer, official=True) == error


def test_impossible_outputs_are_those_with_the_pattern_312():
    """Knuth, The Art of Computer Programming, volume 1, exercise 2.2.1-5."""
    numbers = [1, 2, 3, 4, 5]
    possible = 0
    for output in itertools.permutations(numbers):
        pattern = any(b < c < a for a, b, c in itertools.combinations(output, 3))
        operations = stack_permutation._operations(numbers, list(output))
        assert (operations is None) == pattern
        possible += operations is not None
    # The fifth Catalan number.
    assert possible == 42


def test_impossible_can_be_right():
    data = _DATA | {'output': [3, 1, 2]}
    assert error_of(STACK_PERMUTATION, data, _NONE) is None
    pushes = '["Push(1)", "Push(2)", "Push(3)", "Pop()", "Pop()", "Pop()"]'
    assert error_of(STACK_PERMUTATION, data, pushes) == 'another output'


def test_levels_have_their_lengths_and_both_verdicts():
    for level, lengths in enumerate(({4, 5}, {6, 7}, {8, 9})):
        problems = drawn(STACK_PERMUTATION, level)
        assert {len(data['input']) for data in problems} == lengths
        impossible = sum(data['answer'] == _NONE for data in problems)
        assert 15 < impossible < 60

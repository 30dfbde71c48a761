import itertools
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passk_jax.verifiers import expressions
from passk_jax.verifiers.answers import Wrong

_TREES = st.recursive(
    st.integers(0, 20).map(str),
    lambda tree: st.one_of(
        tree.map('({})'.format),
        st.tuples(tree, st.sampled_from(['+', '-', '*', '/', ' - ']), tree).map(
            ''.join
        ),
    ),
    max_leaves=8,
)


def _by_python(text):
    """Evaluates a generated text by ``eval``, with every number a Fraction."""
    exact = ''.join(
        f'Fraction({"".join(group)})' if is_digit else ''.join(group)
        for is_digit, group in itertools.groupby(text, str.isdigit)
    )
    return eval(exact, {'Fraction': Fraction})


@given(_TREES)
def test_values_are_those_of_python(text):
    try:
        expected = _by_python(text)
    except ZeroDivisionError:
        with pytest.raises(Wrong, match='a division by zero'):
            expressions.evaluate(text)
        return
    assert expressions.evaluate(text).result == expected


def test_numbers_and_steps_come_in_order():
    value = expressions.evaluate('(7 - 11/2)*10 * 2')
    assert value.result == 30
    assert value.numbers == (7, 11, 2, 10, 2)
    assert value.steps == (Fraction(11, 2), Fraction(3, 2), 15, 30)


def test_numbers_may_round_as_those_of_python_do():
    text = '8/(3-8/3)'
    assert expressions.evaluate(text).result == 24
    assert expressions.evaluate(text, number=int).result == 8 / (3 - 8 / 3) != 24
    with pytest.raises(OverflowError):
        expressions.evaluate('*'.join(['999999'] * 57) + '/1', number=int)


@pytest.mark.parametrize(
    ('text', 'error'),
    [
        ('', 'no number at the end'),
        ('()', r'no number before \)'),
        ('1 2', 'no operator before 2'),
        ('2(3)', r'no operator before \('),
        ('(1)(2)', r'no operator before \('),
        ('1+', 'no number at the end'),
        ('-1', 'no number before -'),
        ('1--1', 'no number before -'),
        ('2**3', r'no number before \*'),
        ('5//2', 'no number before /'),
        ('(1', 'a parenthesis is not closed'),
        ('1)', 'a parenthesis too many'),
        ('1/(2-2)', 'a division by zero'),
        ('1.5', "'.' does not belong"),
        ('1e9', "'e' does not belong"),
        ('1_0', "'_' does not belong"),
        ('٣', 'does not belong'),
        ('²', 'does not belong'),
        ('1 = 1', "'=' does not belong"),
        ('1234567', "'1' does not belong"),
        ('__import__("os")', "'_' does not belong"),
        ('1+' * 200 + '1', 'more than 400 characters'),
        ('1+1\x00', 'does not belong'),
    ],
)
def test_anything_else_is_wrong(text, error):
    with pytest.raises(Wrong, match=error):
        expressions.evaluate(text)


def test_the_largest_numbers_take_no_time():
    start = time.perf_counter()
    expressions.evaluate('*'.join(['999999'] * 57))
    expressions.evaluate('+'.join(['1/999983'] * 44))
    expressions.evaluate('(' * 199 + '1' + ')' * 199)
    assert time.perf_counter() - start < 0.1


def test_expressions_are_found_or_proved_absent():
    by_numbers = {}
    for numbers in itertools.combinations_with_replacement(range(1, 5), 4):
        text = by_numbers[numbers] = expressions.find(numbers, 24)
        if text:
            value = expressions.evaluate(text)
            assert (value.result, sorted(value.numbers)) == (24, sorted(numbers))
    assert by_numbers[1, 1, 1, 1] is None
    assert by_numbers[1, 2, 3, 4]
    # Only with fractions.
    assert expressions.find((3, 3, 8, 8), 24)
    assert expressions.find((1, 1, 1, 2), 24) is None
    assert expressions.find((24,), 24) == '24'


@pytest.mark.slow
def test_1362_of_the_1820_hands_make_24():
    """The number that is known for cards from 1 to 13."""
    hands = itertools.combinations_with_replacement(range(1, 14), 4)
    assert sum(expressions.find(hand, 24) is not None for hand in hands) == 1362


def test_outer_parentheses_go():
    assert expressions.without_outer('(1+(2*3))') == '1+(2*3)'
    assert expressions.without_outer('24') == '24'

import doctest
from fractions import Fraction

import pytest

from passk_jax.verifiers import exact


def test_the_examples_of_the_docstrings_hold():
    result = doctest.testmod(exact)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(
    ('text', 'number'),
    [
        ('204', 204),
        ('-3', -3),
        ('+033', 33),
        ('204.', 204),
        ('.5', Fraction(1, 2)),
        ('-0.25', Fraction(-1, 4)),
        ('6/8', Fraction(3, 4)),
        ('-6/8', Fraction(-3, 4)),
        (r'\frac{3}{4}', Fraction(3, 4)),
        (r'-\dfrac{3}{4}', Fraction(-3, 4)),
        (r'\tfrac34', Fraction(3, 4)),
        (r'\frac{-3}4', Fraction(-3, 4)),
        ('9' * 40, int('9' * 40)),
        ('9' * 41, None),
        ('0.' + '3' * 41, None),
        ('1/0', None),
        (r'\frac{1}{0}', None),
        ('.', None),
        ('', None),
        ('-', None),
        ('1e3', None),
        ('1,000', None),
        ('٣', None),
        ('²', None),
        ('1_000', None),
        ('1 2', None),
        ('3\n4', None),
        ('0x10', None),
        ('nan', None),
    ],
)
def test_a_number_is_read_exactly_or_not_at_all(text, number):
    assert exact.rational(text) == number


@pytest.mark.parametrize(
    ('gold', 'answer', 'equal'),
    [
        ('204', ' 204 ', True),
        ('204', '$204$', True),
        ('204', '204.0', True),
        ('204', '205', False),
        ('9' * 30, '9' * 29 + '8', False),
        ('0.1', r'\frac{1}{10}', True),
        # math-verify rounds, so it decides these.
        ('1/3', '0.333333', None),
        ('1/3', '1/2', None),
        (r'\sqrt{2}', r'\sqrt{2}', True),
        (r'\sqrt{2}', r'\sqrt2', None),
        ('204', '', None),
        # Equal golds are equal, however long.
        ('x' * 1000, 'x' * 1000, True),
    ],
)
def test_equality_is_decided_where_it_can_be(gold, answer, equal):
    assert exact.equal(gold, answer) is equal


@pytest.mark.parametrize(
    ('answer', 'reason'),
    [
        ('1' * 513, '512 characters'),
        ('{' * 201 + '1' + '}' * 201, '200 braces'),
        ('1+' + '9' * 41, '40 digits'),
        ('100000000!', 'factorial'),
        ('(100000000)!', 'factorial'),
        ('((((9!)!)!)!)', 'factorial'),
        ('9^9^9', 'tower'),
        ('9^{9^9}', 'tower'),
        ('9 ^ { (9)^ 9}', 'tower'),
        ('9**9**9', 'tower'),
        ('1$ $204', 'dollar'),
    ],
)
def test_what_computer_algebra_should_not_see_is_refused(answer, reason):
    assert reason in exact.refusal(answer)


@pytest.mark.parametrize(
    'answer',
    [
        '1' * 40,
        '1000!',
        r'\$204',
        '2^{10}',
        r'e^{x^2}',
        r'\sum_{k=1}^{2^n} k',
        '2^3+3^2',
        '2^{3}3^{2}',
        r'10^{2n} \cdot 5^2',
    ],
)
def test_usual_answers_are_not_refused(answer):
    assert exact.refusal(answer) is None

import time
from fractions import Fraction

import pytest

from passk_jax.verifiers import exact
from passk_jax.verifiers.syntax import parse


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
        ('9' * 300, int('9' * 300)),
        ('9' * 5000, None),
        ('0.' + '3' * 41, Fraction(int('3' * 41), 10**41)),
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
        ('1+1', None),
    ],
)
def test_a_number_is_read_exactly_or_not_at_all(text, number):
    assert exact.rational(text) == number


@pytest.mark.parametrize(
    ('text', 'number'),
    [
        ('3^{3^3}', 7625597484987),
        ('2^{-3}', Fraction(1, 8)),
        ('5!', 120),
        (r'\binom{10}{3}', 120),
        (r'\sqrt{16}', 4),
        (r'\sqrt{\frac{4}{9}}', Fraction(2, 3)),
        (r'\sqrt[3]{27}', 3),
        ('8^{2/3}', 4),
        (r'\lfloor -0.5 \rfloor', -1),
        ('|-3|', 3),
        (r'\frac{1}{2}+\frac{1}{3}', Fraction(5, 6)),
        ('(-1)^{1000001}', -1),
        ('1^{1000000000}', 1),
        ('0^{5}', 0),
        ('0^0', None),
        (r'\sqrt2', None),
        (r'\sqrt{-4}', None),
        ('x', None),
        (r'\pi', None),
        ('1/0', None),
        ('0^{-1}', None),
        ('0.5!', None),
    ],
)
def test_an_expression_has_its_value(text, number):
    assert exact.value(parse(text)) == number


@pytest.mark.parametrize(
    'text',
    ['9^9^9', '2^{100000}', '100000!', r'\binom{100000}{5}', '10^{10^{10}}',
     '9^{-99999}',
     '*'.join(['99^{2000}'] * 60), '+'.join(['3^{8000}'] * 60)],
)  # fmt: skip
def test_what_is_too_large_is_refused_in_time(text):
    start = time.process_time()
    with pytest.raises(exact.TooLargeError):
        exact.value(parse(text))
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    ('gold', 'answer', 'equal'),
    [
        ('204', '204.0', True),
        ('204', '205', False),
        ('9' * 30, '9' * 29 + '8', False),
        ('0.1', r'\frac{1}{10}', True),
        ('1/19!', '1/20!', False),
        (r'\frac{1}{3^{2023}}', r'\frac{1}{3^{2024}}', False),
        ('10^{-18}', '10^{-19}', False),
        ('1/3', '0.333333', True),
        ('1/3', '0.3333333333', True),
        ('1/3', '0.3333', False),
        ('1/3', '0.333334', False),
        ('2/3', '0.666667', True),
        ('2/3', '0.666666', True),
        ('1/7', '0.142858', False),
        ('0.333333', '1/3', True),
        # With a finite decimal nothing is rounded.
        ('1/4', '0.2500001', False),
        ('204', '203.9999999', False),
        ('1000000', '1000000.5', False),
        ('3.14159', '3.141590', True),
        ('3.14159', '3.141592', False),
        # But a double is.
        ('0.3', '0.30000000000000004', True),
        ('0.3', '0.3000000000001', False),
        (r'\sqrt{2}', '1.414214', None),
        ('x', 'x', None),
        ('9^9^9', '1', None),
    ],
)
def test_numbers_are_equal_exactly_or_rounded(gold, answer, equal):
    assert exact.same(parse(gold), parse(answer)) is equal
    assert exact.same(parse(answer), parse(gold)) is equal

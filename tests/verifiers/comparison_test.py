"""Numbers, units, letters and words, by exact arithmetic; kinds_test.py has more."""

import pytest

from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.reading import read


@pytest.mark.parametrize(
    ('gold', 'answer', 'result'),
    [
        ('5', '5.0', True),
        ('5', '6', False),
        (r'\sqrt2', '2^{1/2}', None),
        (r'\int x', r'\int  x', True),
        (r'\int x', '5', None),
        # Units.
        (r'50\%', '50', True),
        (r'50\%', '0.5', True),
        ('50', '0.5', False),
        ('0.5', r'50\%', True),
        ('50', r'50\%', True),
        (r'50\%', '50 cm', False),
        ('5 cm', '5', True),
        ('5', '5 cm', True),
        ('5 cm', '50 mm', True),
        ('5 cm', '5 m', False),
        ('5 cm', '5 kg', False),
        (r'5\text{ m}', '5 kg', False),
        ('5 cm', r'5\text{ units}', True),
        ('7 hours', '7 h', True),
        ('7', '7m', True),
        ('7', '7t', None),
        ('7m', '7', None),
        ('7 hours', '7 x', False),
        ('5 million', '5000000', True),
        ('5 million', '5', False),
        (r'90^\circ', '90', True),
        # Digits in a base.
        ('57_8', '57_9', False),
        ('57_8', '57', False),
        ('47', '57_8', False),
        # Ratios and times.
        ('1:2', '2:4', True),
        ('1:2', '2:1', False),
        ('1:2', r'\frac12', True),
        (r'\frac12', '1:2', True),
        ('1:2:3', '2:4:6', True),
        ('4:30', '2:15', False),
        ('4:30 pm', '4:30', True),
        ('4:30 pm', '16:30', True),
        ('4:30 pm', '4:30 am', False),
        ('4:30', r'\frac{4}{30}', True),
        # Equations.
        ('5', 'x=5', True),
        ('5', 'a+b=5', True),
        ('5', '2+3=5', True),
        ('5', '4=5', False),
        ('15', r'x=15\approx 500', False),
        ('500', r'x=15\approx 500', False),
        ('5', '5=4', False),
        (r'\frac{22}{7}', r'\frac{22}{7}\approx 3.14', True),
        (r'\frac{22}{7}', r'\frac{22}{7}\approx 4', False),
        ('x=5', '5', True),
        ('a+b=5', '5', False),
        ('x=5', 'y=5', None),
        (r'0.5=50\%', '0.5', True),
        # Letters and words.
        ('C', 'C) 5', True),
        ('C', 'c', True),
        ('C', 'D', False),
        ('5', 'C) 5', True),
        ('5', 'C) 6', False),
        (r'\text{(C)}', '(C)', True),
        ('LQSX', 'XSQL', False),
        ('LQSX', 'lqsx', True),
        (r'\text{gh}', 'gh', True),
        ('gh', r'\text{gh}', True),
        ('even', 'neve', False),
        # A difference, or a number that a program wrote.
        ('2e-2', '0.02', True),
        ('2e-2', '2e-2', True),
        ('2e-2', '0.2', None),
    ],
)
def test_the_gold_decides_what_counts(gold, answer, result):
    assert equal(read(gold), read(answer), Exact()) is result

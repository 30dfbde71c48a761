# ruff: noqa: E501
"""Units; vocabulary.py has their table."""

from fractions import Fraction

import pytest

from passk_jax.verifiers import vocabulary
from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.reading import read
from passk_jax.verifiers.units import Unit, split_unit


@pytest.mark.parametrize(
    ('text', 'value', 'unit'),
    [
        (r'5 \text{ cm}', '5', Unit('length', Fraction(1, 100))),
        ('5cm', '5', Unit('length', Fraction(1, 100))),
        (
            r'12\sqrt{13}\text{ feet}',
            r'12\sqrt{13}',
            Unit('length', Fraction(381, 1250)),
        ),
        ('5 m', '5', Unit('length')),
        (r'5\text{ m}', '5', Unit('length')),
        (r'5\text{ cm}^2', '5', Unit('length^2', Fraction(1, 10**4))),
        (r'5\text{ square cm}', '5', Unit('length^2', Fraction(1, 10**4))),
        ('5平方厘米', '5', Unit('length^2', Fraction(1, 10**4))),
        ('5 km/h', '5', Unit('length/time', Fraction(5, 18))),
        (r'5\text{ miles per hour}', '5', Unit('length/time', Fraction(1397, 3125))),
        (r'5\% \text{ per year}', r'5\%', Unit('')),
        (r'5\text{ million dollars}', '5', Unit('dollars', Fraction(10**6))),
        ('5万', '5', Unit('', Fraction(10**4))),
        ('5 apples', '5', Unit('')),
        *[('5 more apples', '5', Unit('')), (r'5\text{ more apples}', '5', Unit(''))],
        ('12个', '12', Unit('')),
        (r'34\text{ sq. units}', '34', Unit('')),
        (r'5\text{ m}^5\text{ m}^5/\text{s}', '5', Unit('length^10/time')),
    ],
)
def test_a_unit_stands_behind_a_value(text, value, unit):
    assert split_unit(text) == (value, unit)


@pytest.mark.parametrize(
    'text',
    ['2t', '2s', '5m', '6ab', 'x cm', '2x cm', 'x+h', r'\sin(t)', '2 xyz', 'n(n+1)', 'v t',
     r'\frac{1}{2}h', r'5\text{ or more}', r'5\text{ or }6', 'cm', '5', '2 m/n', r'x\text{是}',
     '2 t', '3i', '5不', '2cannot', '5apples', '5abc', '5 of', r'5\text{ of}', r'5\text{ more than}', r'5\text{ more}'],
)  # fmt: skip
def test_a_letter_is_a_variable_and_a_conjunction_no_unit(text):
    assert split_unit(text) is None


@pytest.mark.parametrize(
    ('gold', 'answer', 'result'),
    [
        (r'\$5\text{M}', r'\$5 million', True),
        (r'\$5\text{M}', '5,000,000', True),
        (r'\$5\text{M}', r'\$5', False),
        ('5', r'\$5\text{M}', False),
        (r'\$2.5k', r'\$2,500', True),
        (r'\$3 bn', r'\$3B', True),
        (r'\$5M', '5M', True),
        (r'\$5, \$6', r'\text{US$5, US$6}', True),
        (r'\$5k', r'5\text{k}', True),
        ('20m', r'\$20m', True),
        (r'5\,\Omega', r'5\text{ ohms}', True),
        (r'5\text{ ohms}', 'R = 5 Ω', True),
        (r'\frac{10}{3}\text{ ohms}', r'\dfrac{10}{3}\,\Omega', True),
        (r'\frac{10}{3}\,\Omega', r'\dfrac{10}{3}\,\Omega', True),
        ('5', r'5\,\Omega', True),
        (r'5\text{ ohms}', r'5\text{ k}\Omega', False),
        (r'5000\text{ ohms}', r'5\text{ k}\Omega', True),
        (r'2\Omega', '2', False),
        (r'5\text{ cm up}', r'5\text{ cm downwards}', False),
        (r'5\text{ units to the left}', r'5\text{ units left}', True),
        (r'5\text{ units to the left}', r'5\text{ units to the right}', False),
        (r'5\% \text{ gain}', r'5\% \text{ loss}', False),
        (r'5\% \text{ gain}', r'5\% \text{ profit}', True),
        (r'5\% \text{ increase}', r'5\% \text{ drop}', False),
        (r'3\text{ days before}', r'3\text{ days later}', False),
        (r'3\text{ days before}', '3', True),
        (r'3\text{ cm}', r'3\text{ cm below}', False),
        (r'5\text{ m}', r'5\text{ to the m}', False),
    ],
)
def test_letters_of_scales_and_ohms_and_opposite_words(gold, answer, result):
    assert bool(equal(read(gold), read(answer), Exact())) is result


def test_no_name_of_a_unit_stands_for_two():
    names = [
        name
        for line in vocabulary.UNITS.replace('\n   ', '').strip().split('\n')
        for entry in line.partition(':')[2].split(',')
        for name in entry.split()[1:]
    ]
    assert len(names) == len(set(names))

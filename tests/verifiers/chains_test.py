"""Chains, by exact arithmetic alone; more_kinds.py has more."""

import pytest

from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.reading import read


@pytest.mark.parametrize(
    ('gold', 'answer', 'result'),
    [
        ('2.33', r'\frac73\approx2.33', True),
        ('2.33', r'x=\frac73=\frac{14}{6}\approx2.33', True),
        ('2.34', r'\frac73\approx2.34', False),
        ('2.66', r'\frac83\approx2.66', True),
        ('-2.66', r'-\frac83\approx-2.66', True),
        ('-2.67', r'-\frac83\approx-2.67', True),
        ('-2.65', r'-\frac83\approx-2.65', False),
        ('2.6', r'2.67\approx2.6', False),
        ('2.7', r'2.67\approx2.7', True),
        ('3', r'\frac83\approx3', True),
        ('3', r'2.67\approx3', False),
        (r'\frac83', r'\frac83\approx3\approx4', False),
        (r'\frac83', r'\frac83\approx266.7\%', True),
        (r'\frac83', r'\frac83\approx26.7\%', False),
        ('1234567', r'1234567\approx1.23\times10^6', True),
        ('1230000', r'1234567\approx1.23\times10^6', False),
        ('160\\text{ minutes}', r'\frac83\text{ hours}\approx160\text{ minutes}', True),
        ('3\\text{ h}', r'160\text{ min}\approx3\text{ h}', False),
        ('5', 'x=5=5.0', True),
        ('5', 'x=4=5', False),
        ('5', '4=x=5', False),
        ('5', '5=x=y=4', False),
        ('5', r'\sqrt{26}\approx5', None),
        ('5', 'x^2=5', True),
        ('5', 'f(2)=5', True),
        ('5', '2x=5', False),
        ('5', r'\frac{x}{2}=5', False),
        ('4y', '4y=4y', True),
        ('4y', '2z=4y', False),
        ('x+1', '0=x+1', None),
        ('x+1', 'y=x+1', True),
        ('x+1', '2y=x+1=x+1', False),
        (r'10\pi', r'2\pi r=10\pi', True),
        ('10', '2r=10', False),
        ('10', '2r=d=10', True),
        (r'5\%', r'x\%=5\%', True),
        ('(6,9)', '3v=(6,9)', True),
        ('[[1],[2]]', '-A=[[1],[2]]', True),
        ('3x', r'\sqrt{9x^2}=3x', True),
        ('x', '(x^2)^{0.5}=x', True),
        (r'\sin x', r'\sqrt{1-\cos^2 x}=\sin x', True),
        (r'\frac ca', r'e=\frac ca', True),
        (r'\frac12', r'e=\frac12', True),
        ('5', 'i=5', True),
        ('5', 'i=4=5', False),
        ('e', r'e\approx2.718', None),
    ],
)
def test_a_chain_is_worth_one_number(gold, answer, result):
    assert equal(read(gold), read(answer), Exact()) is result

r"""Sets of numbers in words, and all real numbers but some."""

import re
import time

import pytest

from passk_jax.verifiers import number_sets
from passk_jax.verifiers.normal_form import normal_form


@pytest.mark.parametrize(
    ('text', 'want'),
    [
        (r'\text{all real numbers } x', r'\mathbb{R}'),
        (r'\text{for every integer }n', r'\mathbb{Z}'),
        ('the set of all rational numbers', r'\mathbb{Q}'),
        ('all complex values of z', r'\mathbb{C}'),
        (r'\text{all real numbers except }x', r'\text{all real numbers except }x'),
        (r'x\in\mathbb{R},x\ge2', r'x\ge2'),
        (r'\text{all real }x>2', 'x>2'),
        (r'\mathbb{R}\setminus\{3,-1,2\}', '(-∞,-1)∪(-1,2)∪(2,3)∪(3,∞)'),
        (r'x\in\mathbb{R}-\{\frac{1}{2}\}', r'(-∞,\frac{1}{2})∪(\frac{1}{2},∞)'),
        (r'x\ne\pm2', '(-∞,-2)∪(-2,2)∪(2,∞)'),
        (r'x\ne1\text{ and }x\ne0', '(-∞,0)∪(0,1)∪(1,∞)'),
        # One number needs no order, and of these none is known.
        (r'x\ne1', r'x\ne1'),
        (r'\mathbb{R}\setminus\{\pi,e\}', r'\mathbb{R}\setminus\{\pi,e\}'),
        (r'x\ne1,y\ne2', r'x\ne1,y\ne2'),
        (r'x\ne1,a', r'x\ne1,a'),
        (r'x\ne1,000', r'x\ne1,000'),
        (r'x\ne nan,inf', r'x\ne nan,inf'),
        (r'\R\setminus\{k : k\in\mathbb{Z}\}', r'\R\setminus\{k : k\in\mathbb{Z}\}'),
        (r'\R\setminus\{\}', r'\R\setminus\{\}'),
        (r'\R\setminus\{2,2.0\}', '(-∞,2.0)∪(2.0,∞)'),
    ],
)
def test_one_set_has_one_form(text, want):
    form, expected = (normal_form(x).replace(' ', '') for x in (text, want))
    assert form == expected


@pytest.mark.parametrize('begin', [r'x\ne', r'\mathbb{R}\setminus\{', r'all real '])
@pytest.mark.parametrize('repeated', ['1 ', r'\ne', r'\text{ and }', 'x ', r'{\{'])
def test_long_texts_take_linear_time(begin, repeated):
    start = time.process_time()
    for pattern, replacement in number_sets.COMMANDS:
        re.sub(pattern, replacement, begin + repeated * 20_000 + '!')
    assert time.process_time() - start < 1.0

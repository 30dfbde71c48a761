# ruff: noqa: E501
"""Reading; forms.py has the table of forms."""

from fractions import Fraction

import pytest

from passk_jax.verifiers import forms
from passk_jax.verifiers.forms import (
    Based,
    Bracketed,
    Clock,
    Collection,
    Congruence,
    Equation,
    Expression,
    Inequality,
    Matrix,
    Option,
    Quantity,
    Ratio,
    Several,
    Union,
    Words,
)
from passk_jax.verifiers.reading import read
from passk_jax.verifiers.units import Unit

READ = {
    Expression: [
        '5', r'\frac12', '2x+1', '1,500', 'gh', 'abc', 'x', r'\text{two}', 'twelve', '24_{10}',
        'the answer is 5', r'\approx 3', '(5)', '{5}', 'pi/2', r'\mathbb{Z}', '1e6',
    ],
    Quantity: [
        r'50\%', '90°', '5 cm', r'\$5', '$5', '5€', '12个', r'5\text{ ways}', '50 percent',
        r'\$1.5\text{ million}', r'5\% \text{ per year}', r'480+480\sqrt{3}\text{ feet}',
    ],
    Based: ['66_8', '66_{8}', '(66)_8', r'\text{A5}_{11}', '-37_8', r'66_{\text{eight}}'],
    Bracketed: ['(1,2)', '[1,2)', ']1,2[', '(1,500)', r'x \in [1,2]', '(-∞, 3]',
                r'\mathbb{R}', 'all real numbers', r'x\in\R'],
    Congruence: ['3 (mod 7)', r'x\equiv3\pmod 7', r'x\equiv\pm1\ (\mathrm{mod}\ 8)'],
    Several: [
        '1,2', '1, 2 and 3', r'1\text{ or }2', '1;2', r'1\pm\sqrt2', 'A, B', '1、2',
        r'\text{red, blue}', 'x=1, y=2', 'x<1 or x>3', r'\text{A, D}',
    ],
    Collection: [r'\{1,2\}', r'\emptyset', '∅', r'\{\}', r'\{1\pm\sqrt5,-2\}'],
    Union: [r'(0,1)\cup(2,3)', '(0,1)∪(2,3)'],
    Ratio: ['1:2', '1:2:3', r'3\text{ to }4', '19:60', '3:1'],
    Clock: ['4:30', '05:00', r'4:51:06\text{ p.m.}', '4:30 pm', '12{:}30',
            r'\text{10 a.m.}', '10 AM'],
    Equation: ['x=5', 'a+b=5', 'y=2x+1', '0.56=56\\%', 'f(x)=2x', 'AB=9'],
    Inequality: ['x>3', r'1\le x<2', 'x≠2', r'\{x : x>3\}'],
    Matrix: [r'\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}', r'\begin{bmatrix}1\\2\end{bmatrix}'],
    Option: [
        'A', '(C)', r'\text{(C)}', 'C.', 'C) 5', 'E: a text', r'\textbf{(C)}\ 5', '**C**',
        'Option C', r'(\text{H})',
    ],
    Words: ['even', r'\text{even}', 'LQSX', '是', r'\text{是}', 'None', 'no', r'\text{October 30}',
            'no solution'],
}  # fmt: skip


@pytest.mark.parametrize(
    ('kind', 'text'), [(kind, text) for kind, texts in READ.items() for text in texts]
)
def test_an_answer_has_this_form(kind, text):
    assert type(read(text)) is kind


@pytest.mark.parametrize(
    ('text', 'form'),
    [
        ('66_8', Based('66', 8)),
        ('4:30 pm', Clock((4, 30), 'p')),
        ('C) 5', Option('C', '5')),
        ('No.', Words('no')),
        (r'\text{ Two  Lines. }', Words('two lines')),
        (r'\emptyset', Collection(())),
    ],
)
def test_a_form_has_these_parts(text, form):
    assert read(text) == form


def test_parts_are_read_as_the_whole_is():
    assert read('(1,½)').items == (read('1'), read(r'\frac{1}{2}'))
    assert read(r'\{1\pm2\}').items == (read('1+2'), read('1-2'))
    assert read(']1,2[') == read('(1,2)')
    assert read('5 million dollars').unit == Unit('dollars', Fraction(10**6))
    assert read(r'5\% \text{ per year}').unit == Unit('percent')


@pytest.mark.parametrize(
    ('text', 'is_read'),
    [
        ('(1,2)', True),
        (r'(1,\int x)', False),
        (r'\int x', False),
        (r'\begin{pmatrix} 1 \\ \int x \end{pmatrix}', False),
        (r'\int x\text{ cm}', False),
        (r'3 \pmod 7', True),
        (r'\int x \pmod 7', False),
        ('LQSX', True),
        ('4:30', True),
        ('x' * 600, False),
        ('[' * 30 + '1' + ']' * 30, False),
    ],
)
def test_a_form_is_read_if_all_its_parts_are(text, is_read):
    assert forms.is_read(read(text)) is is_read
    assert not is_read or not forms.is_deep(read(text))


@pytest.mark.parametrize(
    ('text', 'deep'),
    [
        ('9!!!!', True),
        ('9!', False),
        *((f'{part}2{"^2" * 99}', True) for part in ('', '1, ', 'x=')),
        (f'2{"^2" * 99}\\text{{ cm}}', True),
        (r'\int x', False),
        ('x' * 600, False),
    ],
)
def test_what_is_too_deep_is_not_read(text, deep):
    assert forms.is_deep(read(text)) is deep
    assert not (deep and forms.is_read(read(text)))

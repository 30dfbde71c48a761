import re

import pytest

from passk_jax.verifiers import splitting


def test_only_signs_outside_of_brackets_cut():
    text = r'(1,2),\{3,4\},\text{a,b},\begin{x}5,6\end{x},[7,8)'
    parts, signs = splitting.split_top(text, re.compile(','))
    assert parts == [
        '(1,2)',
        r'\{3,4\}',
        r'\text{a,b}',
        r'\begin{x}5,6\end{x}',
        '[7,8)',
    ]
    assert signs == [','] * 4
    assert splitting.split_top('x', re.compile(',')) == (['x'], [])


@pytest.mark.parametrize(
    ('text', 'bracketed', 'parts'),
    [
        ('1,2', False, ['1', '2']),
        ('1,500', False, ['1,500']),
        ('1,500', True, ['1', '500']),
        ('1,000', True, ['1,000']),
        ('1,500, 2,000', False, ['1,500', ' 2,000']),
        ('1,500, 2,000', True, ['1,500', ' 2,000']),
        ('1,500,2', False, ['1', '500', '2']),
        ('1,50', False, ['1', '50']),
        ('f(1,2)', False, ['f(1,2)']),
    ],
)
def test_a_comma_before_three_digits_may_be_part_of_a_number(text, bracketed, parts):
    assert splitting.split_commas(text, bracketed=bracketed) == parts


@pytest.mark.parametrize(
    ('text', 'outer'),
    [
        ('(1,2)', ('(', '1,2', ')')),
        ('[1,2)', ('[', '1,2', ')')),
        (']1,2[', (']', '1,2', '[')),
        (r'\{1\}', (r'\{', '1', r'\}')),
        ('(1)(2)', None),
        (r'\{1)', None),
        ('(', None),
        ('1', None),
        ('((1)', None),
    ],
)
def test_brackets_around_everything_are_told_from_others(text, outer):
    assert splitting.outer_brackets(text) == outer

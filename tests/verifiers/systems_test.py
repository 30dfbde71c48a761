"""Systems of equations, and piecewise functions."""

import time

import pytest

from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.forms import Several
from passk_jax.verifiers.normal_form import normal_form
from passk_jax.verifiers.reading import read


@pytest.mark.parametrize(
    'text',
    [
        r'\begin{cases} x=1 \\ y=2 \end{cases}',
        r'\begin{cases} x&=1, \\ y&=2. \end{cases}',
        r'\left\{\begin{aligned} x &= 1 \\ y &= 2 \end{aligned}\right.',
        r'\left\{\begin{array}{rcl} x & = & 1 \\ y & = & 2 \end{array}\right.',
        r'\left\{\begin{aligned} x&=1 \\ y&=2 \end{aligned}\right\}',
        r'\begin{array}{@{}l@{}} x=1\, \\ y=2 \end{array}',
    ],
)
def test_the_rows_of_a_system_are_a_list(text):
    assert normal_form(text) == 'x=1, y=2'


@pytest.mark.parametrize(
    'text',
    [
        r'\begin{aligned} S &= 2+3 \\ S &= 5 \end{aligned}',
        r'\begin{aligned} S &= 2+3 \\ &= 5 \end{aligned}',
        r'\begin{aligned} S_n &= n^2 \\ S_5 &= 25 \end{aligned}',
        r'\begin{array}{c} 1 \\ 2 \end{array}',
        r'\begin{array}{c} \sum_{i=1}^n x_i \\ \sum_{j=1}^m y_j \end{array}',
        r'\begin{cases} x & x>0 \\ 0 & x<0 \end{cases}',
    ],
)
def test_derivations_columns_and_piecewise_functions_are_no_systems(text):
    assert ', ' not in normal_form(text)


def piecewise(*rows):
    content = r' \\ '.join(rows)
    return rf'\begin{{cases}} {content} \end{{cases}}'


GOLD = piecewise(r'x+1 & \text{if } x>0', r'0 & \text{otherwise}')
PARITY = piecewise(r'2 & n \text{ is odd}', r'0 & n \text{ is even}')


@pytest.mark.parametrize(
    ('gold', 'answer', 'result'),
    [
        (GOLD, piecewise('x+1, & x>0', r'0, & \text{else.}'), True),
        (GOLD, piecewise(r'0 & \text{otherwise}', 'x+1 & 0<x'), True),
        (GOLD, piecewise(r'x+1 & \text{if $x>0$}', r'0 & \text{elsewhere}'), True),
        (GOLD, piecewise('x & x>0', r'0 & \text{otherwise}'), False),
        (GOLD, piecewise('x+1 & x>1', r'0 & \text{otherwise}'), False),
        (GOLD, piecewise('0 & x>0', r'x+1 & \text{otherwise}'), False),
        (GOLD, piecewise('x+1 & x>0'), False),
        (GOLD, 'x+1', False),
        (PARITY, piecewise(r'0 & \text{$n$ even}', r'2 & \text{if $n$ is odd}'), True),
        (PARITY, piecewise(r'0 & n \text{ odd}', r'2 & n \text{ even}'), False),
        (f'f(n)={PARITY}', PARITY, True),
        (PARITY, f'f(n)={PARITY}', True),
    ],
)
def test_pieces_match_in_any_order_and_their_conditions_with_them(gold, answer, result):
    assert bool(equal(read(gold), read(answer), Exact())) is result


def test_a_piecewise_function_has_a_value_and_a_condition_in_each_row():
    assert isinstance(read(GOLD), Several)
    assert read(piecewise(r'x & \text{if} & x>0')) == read(piecewise('x & x>0'))
    assert not isinstance(read(piecewise('x & x>0', '0 & x<0 & 1')), Several)
    assert not isinstance(read(piecewise('1 & 2', '3 & 4')), Several)


def test_the_time_is_linear_in_the_blanks():
    start = time.process_time()
    normal_form(rf'\begin{{cases}} a{" " * 4000}b \end{{cases}}')
    assert time.process_time() - start < 1

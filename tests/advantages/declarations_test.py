"""Parameters and inputs as they are declared."""

import math
import re

import pytest

from passk_jax.advantages import Parameter
from passk_jax.errors import InputError

SIZE = Parameter('size', 4, 'a size', low=1, high='N')
COUNT = Parameter('count', 0, 'a count', low=0)
SHARE = Parameter('share', 0.5, 'a share', low=0, high=1)
SLOPE = Parameter('slope', -1.5, 'a slope')
RATE = Parameter('rate', 2.0, 'a rate', above=0)
PARTS = Parameter('parts', (0.5, 1.0), 'some parts')
KIND = Parameter('kind', 'sum', 'a kind', choices=('sum', 'mean'))


@pytest.mark.parametrize(
    ('parameter', 'good', 'bad', 'words'),
    [
        (SIZE, (1, 8), (0, 9, -1), 'a whole number in [1, num_rollouts=8]'),
        (COUNT, (0, 10**9), (-1, 2.0), 'a whole number, 0 or more'),
        (SHARE, (0, 0.0, 1, 1.0), (-0.1, 1.1), 'a number in [0, 1]'),
        (SLOPE, (-1e30, 7), ('1', (1.0,)), 'a number'),
        (RATE, (1e-30, 7), (0, 0.0, -1.0), 'a number above 0'),
        (PARTS, ((), (1,), (0.5, -2.0)), (0.5, ('1',), (True,)), 'a tuple of numbers'),
        (KIND, ('sum', 'mean'), ('', 'max', 3), "one of ('sum', 'mean')"),
    ],
)
def test_values_are_checked_by_type_and_range(parameter, good, bad, words):
    for value in good:
        parameter.check(value, num_rollouts=8)
    for value in (*bad, True, None, math.nan, math.inf, [1]):
        with pytest.raises(InputError) as error:
            parameter.check(value, num_rollouts=8, section='advantage.')
        name = f'advantage.{parameter.name}'
        assert str(error.value) == f'{name}={value!r} must be {words}'


@pytest.mark.parametrize(('value', 'rounded'), [(1e300, 'infinite'), (-1e-50, '0')])
def test_a_value_that_float32_makes_another_is_refused(value, rounded):
    with pytest.raises(InputError, match=f'{re.escape(str(value))} is {rounded} in'):
        SLOPE.check(value, num_rollouts=8, section='advantage.')


def test_each_number_of_a_tuple_is_one_of_float32():
    with pytest.raises(InputError, match='parts=1e-50 is 0 in float32'):
        PARTS.check((1.0, 1e-50), num_rollouts=8)


def test_without_a_number_of_rollouts_the_bound_is_n():
    assert SIZE.allowed() == 'a whole number in [1, N]'
    SIZE.check(9, num_rollouts=None)
    with pytest.raises(InputError, match=r'size=0 must be a whole number in \[1, N\]'):
        SIZE.check(0, num_rollouts=None)

"""Parameters and inputs as they are declared, and what the table must hold."""

import inspect
import math
import re

import pytest

from passk_jax.advantages import ESTIMATORS, INPUTS, Parameter, all_parameters
from passk_jax.errors import InputError

SIZE = Parameter('size', 4, 'a size', low=1, high='N')
COUNT = Parameter('count', 0, 'a count', low=0)
SHARE = Parameter('share', 0.5, 'a share', low=0, high=1)
SLOPE = Parameter('slope', -1.5, 'a slope')
KIND = Parameter('kind', 'sum', 'a kind', choices=('sum', 'mean'))


@pytest.mark.parametrize(
    ('parameter', 'good', 'bad', 'words'),
    [
        (SIZE, (1, 8), (0, 9, -1), 'a whole number in [1, num_rollouts=8]'),
        (COUNT, (0, 10**9), (-1, 2.0), 'a whole number, 0 or more'),
        (SHARE, (0, 0.0, 1, 1.0), (-0.1, 1.1), 'a number in [0, 1]'),
        (SLOPE, (-1e30, 7), ('1', (1.0,)), 'a number'),
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


def test_without_a_number_of_rollouts_the_bound_is_n():
    assert SIZE.allowed() == 'a whole number in [1, N]'


@pytest.mark.parametrize('name', ESTIMATORS)
def test_a_row_is_whole(name):
    row = ESTIMATORS[name]
    assert row.reads
    assert set(row.reads) <= set(INPUTS)
    assert row.summary.endswith('.')
    for parameter in row.parameters:
        parameter.check(parameter.default, num_rollouts=4)
        assert parameter.doc
        # The names that the section and make_estimator have already.
        assert parameter.name not in ('name', 'num_rollouts', *INPUTS)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_a_row_is_what_its_function_takes_and_the_only_place_of_defaults(name):
    row = ESTIMATORS[name]
    keywords = getattr(row.compute, 'keywords', {})
    functions = [getattr(row.compute, 'func', row.compute), *keywords.values()]
    taken = {}
    for function in functions:
        taken |= inspect.signature(function).parameters
    names = {parameter.name for parameter in row.parameters}
    own = {each for each in taken if each not in ('params', 'num_rollouts', 'curve')}
    assert own - {'num_correct'} == {*row.reads, *names}
    assert all(taken[each].default is inspect.Parameter.empty for each in names)


def test_rows_that_share_a_name_share_the_parameter():
    declared = {parameter.name: parameter for parameter in all_parameters()}
    for row in ESTIMATORS.values():
        for parameter in row.parameters:
            assert parameter == declared[parameter.name]

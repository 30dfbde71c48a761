"""What each row of the table must hold."""

import inspect

import pytest

from passk_jax.advantages import ESTIMATORS, INPUTS, all_parameters


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

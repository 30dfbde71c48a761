"""What each row of the table must hold."""

import inspect
import itertools

import jax
import numpy as np
import pytest

from passk_jax.advantages import ESTIMATORS, INPUTS, Inputs, all_parameters


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
    parameters = {}
    for function in functions:
        parameters |= inspect.signature(function).parameters
    names = {parameter.name for parameter in row.parameters}
    shared = ('inputs', 'params', 'num_rollouts', 'curve', 'num_correct')
    assert parameters.keys() - {*shared} == names
    assert all(parameters[x].default is inspect.Parameter.empty for x in names)


class Recorded:
    """Inputs that note which of them are read."""

    def __init__(self, inputs: Inputs):
        self._inputs, self.reads = inputs, set()

    def __getattr__(self, name: str) -> jax.Array:
        self.reads.add(name)
        return getattr(self._inputs, name)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_a_row_reads_what_it_declares(name):
    row = ESTIMATORS[name]
    sizes = {'P': 2, 'N': 8, 'W': 10, 'C': 9}
    arrays = {
        name: np.ones([sizes[letter] for letter in x.shape.split()], x.dtype)
        for name, x in INPUTS.items()
        if name != 'key'
    }
    key = jax.random.split(jax.random.key(0), sizes['P'])
    choices = {
        parameter.name: parameter.choices or (parameter.default,)
        for parameter in row.parameters
    }
    reads = set()
    for values in itertools.product(*choices.values()):
        recorded = Recorded(Inputs(key=key, **arrays))
        row.compute(recorded, **dict(zip(choices, values, strict=True)))
        reads |= recorded.reads
    assert reads == {*row.reads}


def test_rows_that_share_a_name_share_the_parameter():
    declared = {parameter.name: parameter for parameter in all_parameters()}
    for row in ESTIMATORS.values():
        for parameter in row.parameters:
            assert parameter == declared[parameter.name]

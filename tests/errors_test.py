"""Callers of the library may catch Python's own classes."""

import pytest

from passk_jax.errors import InputError, NonFiniteError


def test_callers_of_the_library_may_catch_a_value_error():
    with pytest.raises(ValueError, match='k=9'):
        raise InputError('k=9 must lie in [1, 8]')


def test_callers_of_the_library_may_catch_a_floating_point_error():
    with pytest.raises(FloatingPointError, match='step 3'):
        raise NonFiniteError('the loss is nan at step 3')

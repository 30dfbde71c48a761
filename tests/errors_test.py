"""An error of the user's is a ValueError: callers may catch either."""

import pytest

from passk_jax.errors import InputError


def test_callers_of_the_library_may_catch_a_value_error():
    with pytest.raises(ValueError, match='k=9'):
        raise InputError('k=9 must lie in [1, 8]')

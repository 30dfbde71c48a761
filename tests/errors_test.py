"""Callers of the library may catch Python's own classes."""

import pytest

from passk_jax.errors import InputError, NonFiniteError, leave, prefixed


def test_callers_of_the_library_may_catch_a_value_error():
    with pytest.raises(ValueError, match='k=9'):
        raise InputError('k=9 must lie in [1, 8]')


def test_callers_of_the_library_may_catch_a_floating_point_error():
    with pytest.raises(FloatingPointError, match='step 3'):
        raise NonFiniteError('the loss is nan at step 3')


def fail(message):
    def step():
        messages.append(message)
        raise OSError(message)

    messages = []
    return step, messages


def test_every_step_of_leaving_is_taken_and_the_first_error_is_raised(caplog):
    steps = [fail('one'), fail('two')]
    with pytest.raises(OSError, match='one'):
        leave(None, *[step for step, _ in steps])
    assert [messages for _, messages in steps] == [['one'], ['two']]
    assert 'OSError: two' in caplog.text
    assert 'one' not in caplog.text


def test_what_fails_while_leaving_for_an_error_is_only_logged(caplog):
    step, messages = fail('one')
    leave(KeyError, step)
    assert messages == ['one']
    assert 'OSError: one' in caplog.text


def test_a_prefix_says_where_an_error_comes_from():
    with pytest.raises(InputError, match=r'^part one: bad$'), prefixed('part one'):
        raise ValueError('bad')
    with pytest.raises(InputError, match=r'^a: full$'), prefixed('a', OSError):
        raise OSError('full')
    for where, error in (('', ValueError), ('a', OSError)):
        with pytest.raises(error, match=r'^as it is$'), prefixed(where):
            raise error('as it is')

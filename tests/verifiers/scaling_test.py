from fractions import Fraction

from passk_jax.verifiers import exact, numeric
from passk_jax.verifiers.forms import Unread
from passk_jax.verifiers.reading import read
from passk_jax.verifiers.scaling import (
    convert_to_radians,
    has_pi,
    integer,
    quotient,
    times,
)


def test_values_are_multiplied_and_divided():
    assert exact.value(times(read(r'\frac12'), Fraction(4)).tree) == 2
    assert exact.value(quotient(integer(3), read('4')).tree) == Fraction(3, 4)
    assert numeric.same(
        convert_to_radians(read('90')).tree, read(r'\frac{\pi}{2}').tree
    )
    assert isinstance(times(read('even'), Fraction(2)), Unread)


def test_pi_is_seen():
    assert has_pi(read(r'\frac{\pi}{2}').tree)
    assert not has_pi(read('x').tree)

"""Values of trees, and the bits that their sums may lose."""

import mpmath
import pytest

from passk_jax.verifiers.evaluation import Evaluation, UndefinedError
from passk_jax.verifiers.syntax import parse


def evaluation(**point):
    real = bool(point)
    return Evaluation({x: mpmath.mpf(n) for x, n in point.items()}, str, None, real)


@pytest.mark.parametrize(
    ('text', 'value'),
    [('2+3', 5), (r'\sqrt{16}', 4), ('2^{10}', 1024), ('5!', 120), ('2x^2', 18)],
)
def test_a_tree_has_a_value_at_a_point(text, value):
    assert evaluation(x=3).value(parse(text)) == value


@pytest.mark.parametrize('text', [r'\frac10', '0^0', r'\infty', '9^{9^9}', '20000!'])
def test_some_trees_have_no_value(text):
    with pytest.raises(UndefinedError):
        evaluation().value(parse(text))


def test_real_values_alone_count_where_there_are_variables():
    assert evaluation().value(parse(r'\sqrt{-4}')) == mpmath.mpc(0, 2)
    with pytest.raises(UndefinedError):
        evaluation(x=-4).value(parse(r'\sqrt{x}'))


@pytest.mark.parametrize(
    ('text', 'bits'),
    [
        ('2^{100}+1', 100),
        ('2^{100}-2^{-100}', 200),
        (r'\frac{2^{100}}{3}', 0),
        ('1+1', 1),
        (r'\lfloor 2^{100}\rfloor', 101),
    ],
)
def test_sums_of_terms_far_apart_lose_bits(text, bits):
    values = evaluation()
    with mpmath.workdps(90):
        values.value(parse(text))
    assert values.bits == bits

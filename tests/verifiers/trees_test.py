from fractions import Fraction

from passk_jax.verifiers.trees import (
    Apply,
    Constant,
    Name,
    Number,
    names,
    negative,
    nodes,
)

TWO = Number(Fraction(2))


def test_the_negative_of_a_number_is_a_number():
    assert negative(Number(Fraction(1, 2), 1)) == Number(Fraction(-1, 2), 1)
    assert negative(Name('x')) == Apply('-', (Name('x'),))


def test_all_nodes_and_names_are_found():
    tree = Apply('+', (Apply('*', (TWO, Name('x'))), Constant('pi'), Name('y')))
    assert len(list(nodes(tree))) == 6
    assert names(tree) == {'x', 'y'}

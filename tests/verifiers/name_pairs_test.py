"""Names that may be of one value, and names that are of two."""

import pytest

from passk_jax.verifiers.name_pairs import may_name_one_thing


@pytest.mark.parametrize(
    ('name', 'other', 'expected'),
    [
        *[('x', 'X', True), ('Area ', 'A', True), ('f(x) ', 'f', True)],
        *[('x_1 ', 'x_{2} ', True), ('f(x)', 'y', True), ('P(A)', 'P( A )', True)],
        *[('S_n', 'S', True), ('A_{max}', r'A_{\max}', True), ('a_n', 'a(n)', True)],
        *[('x', 'y', False), ('a_n', 'a_{n+1}', False), ("f'(x)", 'f(x)', False)],
        *[('AB', 'AC', False), ('P(A)', 'P(B)', False), ('f(x)', 'f(t)', False)],
    ],
)
def test_names_of_one_value(name, other, expected):
    assert may_name_one_thing(name, other) == expected
    assert may_name_one_thing(other, name) == expected

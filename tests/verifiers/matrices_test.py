"""Reading matrices; kinds.py has more."""

import pytest

from passk_jax.verifiers.forms import Matrix
from passk_jax.verifiers.matrices import read_matrix
from passk_jax.verifiers.reading import read

COLUMN = r'\begin{pmatrix} 1 \\ 2 \end{pmatrix}'


@pytest.mark.parametrize(
    ('text', 'rows'),
    [
        (COLUMN, [['1'], ['2']]),
        (rf'{COLUMN}^T', [['1', '2']]),
        ('(1,2)^T', [['1'], ['2']]),
        (r'\begin{bmatrix}1&2\\3&4\end{bmatrix}', [['1', '2'], ['3', '4']]),
    ],
)
def test_a_matrix_has_rows(text, rows):
    expected = tuple(tuple(map(read, row)) for row in rows)
    assert read_matrix(text, read) == Matrix(expected)


def test_a_factor_is_multiplied_out():
    matrix = read_matrix(f'3{COLUMN}', read)
    assert [len(row) for row in matrix.items] == [1, 1]
    assert matrix.items[0][0].tree.arguments == (read('3').tree, read('1').tree)


@pytest.mark.parametrize('text', ['(1,2)', '5^T', f'1+{COLUMN}+1', '[1,2]'])
def test_other_texts_are_no_matrices(text):
    assert read_matrix(text, read) is None

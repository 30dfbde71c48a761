import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passk_jax.verifiers import grids
from passk_jax.verifiers.answers import Wrong

_GRIDS = st.integers(1, 30).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 9), min_size=width, max_size=width),
        min_size=1,
        max_size=30,
    )
)


@given(_GRIDS)
def test_a_grid_is_read_from_every_form(grid):
    text = grids.grid_text(grid)
    assert grids.check_grid(grid) == grid
    for form in (
        text,
        text.replace(' ', ','),
        text.replace(' ', ', '),
        f'\n {text}\n\n',
        json.dumps(grid),
        json.dumps(grid, indent=2),
    ):
        assert grids.read_grid(form) == grid


@pytest.mark.parametrize(
    ('text', 'error'),
    [
        ('', 'an empty grid'),
        (',', 'an empty grid'),
        ('1 2\n3', 'a row of 1 cells below one of 2'),
        ('12', "'12' is not a digit"),
        ('-1', "'-1' is not a digit"),
        ('1.0', 'is not a digit'),
        ('²', 'is not a digit'),
        ('٣', 'is not a digit'),
        ('x = 1', "'x' is not a digit"),
        ('[]', 'no list of lists of digits'),
        ('[[]]', 'no list of lists of digits'),
        ('[1, 2]', 'no list of lists'),
        ('[[1, 2], [3]]', 'a row of 1 cells below one of 2'),
        ('[[1 2]]', 'no comma between two cells'),
        ('[[12]]', 'no list of lists'),
        ('[[1]', 'no list of lists'),
        ('[[1]] [[2]]', 'no list of lists'),
        ("[[__import__('os')]]", 'no list of lists'),
        ('[' * 9000, 'no list of lists'),
        ('1\n' * 31, 'a grid of 31 x 1, beyond 30'),
        ('1 ' * 31, 'a grid of 1 x 31, beyond 30'),
        ('1 ' * 6000, 'more than 10000 characters'),
    ],
)
def test_anything_else_is_wrong(text, error):
    with pytest.raises(Wrong, match=error):
        grids.read_grid(text)


@pytest.mark.parametrize('text', ['1 ', '1\n', '[', '[[1],', '1' + ' ' * 99, ',', ' '])
def test_it_takes_linear_time(text):
    start = time.process_time()
    for _ in range(10):
        with pytest.raises(Wrong):
            grids.read_grid(text * (10_000 // len(text)))
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ('value', 'message'),
    [
        ('1', 'list of 1 to 30 rows'),
        ([], 'list of 1 to 30 rows'),
        ([[]], 'list of 1 to 30 cells'),
        ([[1]] * 31, 'list of 1 to 30 rows'),
        ([1], 'list of 1 to 30 cells'),
        ([[1], [1, 2]], 'different lengths'),
        ([[10]], 'a cell is not a digit'),
        ([[True]], 'a cell is not a digit'),
    ],
)
def test_a_malformed_grid_of_a_record_is_an_error(value, message):
    with pytest.raises(ValueError, match=message):
        grids.check_grid(value)


@pytest.mark.parametrize(
    'text',
    [
        *('1 2\n3 4', '1 2  \n3 4', '12\n34', '1,2\n3,4', '1|2\n3|4', '１ ２\n３ ４'),
        *('[1, 2]\n[3, 4]', '[[1 2]\n [3 4]]', '[[1, 2], [3, 4]]', 'Output:\n1 2\n3 4'),
        *('| 1 | 2 |\n|---|---|\n| 3 | 4 |', '(1, 2),\n(3, 4)', '{"a": [[1,2],[3,4]]}'),
        *('grid = [[1, 2], [3, 4]]', 'np.array([[1, 2],\n       [3, 4]])'),
        r'\begin{bmatrix}1 & 2 \\ 3 & 4\end{bmatrix}',
    ],
)
def test_a_grid_in_a_usual_spelling_is_read(text):
    assert grids.usual_grid(text) == '1 2\n3 4'
    assert grids.may_be_grid(text)


@pytest.mark.parametrize(
    'text', ['', '1 x\n2 3', '[[1]] [[2]]', '[[12]]', '1 -2', '1.5']
)
def test_what_is_no_grid_is_not_read(text):
    with pytest.raises(Wrong):
        grids.usual_grid(text)


def test_a_program_or_a_sentence_cannot_be_a_grid():
    for text in ('print(1)', 'Done.', 'def f(x):\n    return x', 'nothing', 'x = 1'):
        assert not grids.may_be_grid(text)
    # These try to be one.
    for text in ('1 2\n3', '[[1, 2], [3]]', '12 3\n4 5', ''):
        assert grids.may_be_grid(text)

"""Lists of named values; more_kinds.py has more."""

import pytest

from passk_jax.verifiers import named_values
from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.forms import Several
from passk_jax.verifiers.reading import read


def test_a_tuple_of_names_spreads_over_its_values():
    assert len(named_values.spread(read('(x,y)=(1,2)')).items) == 2
    for text in ('(x,y)=(1,2,3)', 'x=(1,2)', '(1,2)', '(1,2)=(1,2)'):
        assert named_values.spread(read(text)) == read(text)


@pytest.mark.parametrize(
    ('text', 'names'),
    [
        ('x=1, y=2', ['x', 'y']),
        ('AB=1, x=2', ['ab ', 'x']),
        ('x=1, x=2', []),
        ('x_1=1, x_2=2', []),
        ('x=1, 2', []),
        ('1, 2', []),
    ],
)
def test_items_have_different_names_or_none(text, names):
    assert named_values.names_of(read(text).items) == names


@pytest.mark.parametrize(
    ('text', 'order'),
    [('y=2, x=1', 'xy'), ('n=5, k=2', 'nk'), ('z=1, x=2', 'xz'), ('q=1, p=2', 'pq')],
)
def test_only_neighbours_in_the_alphabet_are_sorted(text, order):
    items = named_values.sort_by_name(read(text).items)
    assert ''.join(named_values.names_of(items)) == order


@pytest.mark.parametrize(
    'text',
    [
        'x=2, y=3 or x=3, y=2',
        r'x=2 \text{ and } y=3 \text{ or } x=3 \text{ and } y=2',
        r'x=2,y=3 \text{ and } x=3,y=2',
        'y=3, x=2; x=3, y=2',
        'x_1=2, y_1=3, x_2=3, y_2=2',
        '(x=2, y=3) or (x=3, y=2)',
        r'\{x=2, y=3\}, \{x=3, y=2\}',
        r'\begin{cases} x=2 \\ y=3 \end{cases} or \begin{cases} x=3 \\ y=2 \end{cases}',
    ],
)
def test_names_that_come_again_begin_another_solution(text):
    assert equal(read('(2,3),(3,2)'), read(text), Exact())
    assert equal(read(text), read('(3,2),(2,3)'), Exact())
    assert not equal(read('(2,3),(3,3)'), read(text), Exact())


@pytest.mark.parametrize(
    'text',
    [
        'x=2 or x=3',
        'x=2; y=3',
        'x=1; x=2; y=3; y=4',
        'x=1; y=2; x=3',
        'A=1; a=2',
        '1; 2',
    ],
)
def test_other_lists_have_no_solutions(text):
    assert not any(isinstance(item, Several) for item in read(text).items)


@pytest.mark.parametrize(
    ('gold', 'answer', 'result'),
    [
        ('x=1, y=2, x=3, y=4', 'x=1, x=3, y=2, y=4', True),
        ('x_1=1, y_1=2, x_2=3, y_2=4', 'x_1=1, x_2=3, y_1=2, y_2=4', True),
        ('x_1=1, y_1=2, x_2=3, y_2=4', 'x_1=3, y_1=4, x_2=1, y_2=2', False),
        ('(1,2,3,4)', 'x_1=1, y_1=2, x_2=3, y_2=4', True),
        ('(1,2)', '(y=2, x=1)', True),
        ('(1,2)', '(b=1, a=2)', True),
        ('(x=1, y=2)', '(y=2, x=1)', True),
    ],
)
def test_a_list_with_commas_is_flat_beside_another(gold, answer, result):
    assert equal(read(gold), read(answer), Exact()) is result

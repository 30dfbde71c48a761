"""Lists of named values; more_kinds.py has more."""

import pytest

from passk_jax.verifiers import named_values
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

import pytest

from passk_jax.verifiers import relations
from passk_jax.verifiers.reading import read


@pytest.mark.parametrize(
    ('text', 'name'),
    [
        ('x=5', 'x'),
        ('y=2x+1', 'y'),
        ('f(x)=2x', 'f(x) '),
        ('AB=9', 'ab '),
        (r'\angle ABC=90^\circ', r'\angle ABC '),
        ('(x,y)=(1,2)', 'x y'),
        ('K=8', 'K'),
        ('a+b=5', None),
        ('2x=10', None),
        ('5=x', None),
        ('x=x', None),
    ],
)
def test_a_left_side_may_be_a_name(text, name):
    assert relations.assigned(read(text)) == name


def test_a_chain_has_the_value_of_its_last_side():
    assert relations.value_of(read('x=2+3=5')) == read('5')
    assert relations.value_of(read('5=x')) == read('5')
    assert relations.numeric_sides(read(r'0.5=50\%'))
    assert not relations.numeric_sides(read('x=5'))


@pytest.mark.parametrize(
    ('text', 'same'),
    [
        ('x>3', r'(3,\infty)'),
        ('3<x', r'(3,\infty)'),
        (r'x\le 3', r'(-\infty,3]'),
        (r'3\ge x', r'(-\infty,3]'),
        (r'1\le x<2', '[1,2)'),
        (r'2>x\ge 1', '[1,2)'),
        (r'x\ne 0', r'(-\infty,0)\cup(0,\infty)'),
    ],
)
def test_an_inequality_is_an_interval_of_its_variable(text, same):
    name, interval = relations.interval(read(text))
    assert name == 'x'
    assert interval == read(same)


@pytest.mark.parametrize('text', ['x+y>3', '1<2', 'x<y', '1<x>0', '1<x<2<y', 'x^2>1'])
def test_other_inequalities_are_none(text):
    assert relations.interval(read(text)) is None

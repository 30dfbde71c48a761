import doctest

from passk_jax.report import arms


def test_the_example_of_a_table_is_its_result():
    assert doctest.testmod(arms).attempted == 1
    assert doctest.testmod(arms).failed == 0


def test_every_colour_is_another():
    assert len(set(arms.COLORS)) == len(arms.COLORS)

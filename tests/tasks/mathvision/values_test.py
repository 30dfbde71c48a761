import pytest

from passk_jax.tasks.mathvision import values


@pytest.mark.parametrize(
    ('gold', 'answer'),
    [
        ('$\\frac{1}{4}$'.strip('$'), '0.25'),
        ('\\sqrt{2018^{2}+2}', '2018'),
        ('6 \\pi', '6\\pi'),
        ('(3,-4)', '(\\frac{6}{2},-4)'),
        ('[1,\\infty]', '[1,\\infty]'),
    ],
)
def test_values_are_equal_in_two_decimals(gold, answer):
    assert values.equal(gold, answer)


def test_values_differ_in_the_second_decimal():
    assert not values.equal('1', '1.01')
    assert not values.equal('\\frac{1}{3}', '0.34')


def test_lists_differ_by_bracket_length_and_part():
    assert not values.equal('(1,2)', '(1,3)')
    assert not values.equal('(1,2)', '(1,2,3)')
    with pytest.raises(Exception):  # noqa: B017, PT011
        values.equal('(1,2)', '[1,2]')


@pytest.mark.parametrize('text', ['only0', '8kg', 'x', '10\\mathrm{~m}', '', '('])
def test_what_is_no_number_raises(text):
    with pytest.raises(Exception):  # noqa: B017, PT011
        values.equal('0', text)

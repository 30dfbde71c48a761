from fractions import Fraction

import pytest

from passk_jax.verifiers.tokens import UnreadableError, literal, repeating, tokens_of


def texts(text):
    return [token for _, token in tokens_of(text)][:-1]


@pytest.mark.parametrize(
    ('text', 'tokens'),
    [
        ('2x+1', ['2', 'x', '+', '1']),
        ('ab', ['a', 'b']),
        ('7*sin(pi)', ['7', '*', 'sin', '(', 'pi', ')']),
        ('2**3', ['2', '^', '3']),
        (r'\frac12', [r'\frac', '12']),
        ('1e6', ['1e6']),
        ('1.5e-7', ['1.5e-7']),
        ('1e-7', ['1e-7']),
        ('3e-05', ['3e-05']),
        ('2e-2', ['2', 'e', '-', '2']),
        ('2e^3', ['2', 'e', '^', '3']),
        ('1,500', ['1,500']),
        (r'0.\overline{36}', [r'0.\overline{36}']),
        (r'\text{ s }', [' s ']),
    ],
)
def test_a_text_has_these_tokens(text, tokens):
    assert texts(text) == tokens


@pytest.mark.parametrize('text', ['apples', 'pir', 'xsin', 'abcd', 'lnx'])
def test_names_in_a_run_of_letters_are_no_products(text):
    with pytest.raises(UnreadableError):
        tokens_of(text)


@pytest.mark.parametrize(
    ('token', 'value', 'places'),
    [
        ('1,500', 1500, None),
        ('033', 33, None),
        ('0.50', Fraction(1, 2), 2),
        ('.5', Fraction(1, 2), 1),
        ('5.', 5, None),
        ('1e6', 10**6, None),
        ('1.5e6', 1500000, None),
        ('1.5e-3', Fraction(3, 2000), 4),
    ],
)
def test_a_literal_has_a_value_and_places(token, value, places):
    number = literal(token)
    assert (number.value, number.places) == (value, places)


@pytest.mark.parametrize(
    ('token', 'value'),
    [
        (r'0.\overline{36}', Fraction(4, 11)),
        (r'0.1\overline6', Fraction(1, 6)),
        (r'.\bar{3}', Fraction(1, 3)),
        (r'0.\dot{1}2\dot{3}', Fraction(123, 999)),
        (r'0.1\dot6', Fraction(1, 6)),
        ('0.1(6)', Fraction(1, 6)),
        ('0.3636...', Fraction(4, 11)),
        (r'0.1666\ldots', Fraction(1, 6)),
        ('3.14159...', Fraction(314159, 100000)),
        ('0.33...', Fraction(33, 100)),
    ],
)
def test_a_repeating_decimal_has_its_value(token, value):
    assert repeating(token).value == value

import pytest

from passk_jax.verifiers.forms import Restricted
from passk_jax.verifiers.reading import read


@pytest.mark.parametrize(
    ('text', 'values'),
    [
        (r'2k+1, k\in\mathbb{Z}', 'Z'),
        (r'2k+1\ (k\in\mathbb{N})', 'N'),
        (r'2n-1, n > 0', 'N1'),
        (r'2n-1, n\in\mathbb{Z}^{+}', 'N1'),
        (r'2n\text{ for any nonnegative integer }n', 'N0'),
        (r'x^2+C, C\in\mathbb{R}', 'R'),
        (r'x^2+C\text{, where }C\text{ is a constant}', ''),
        (r'f(x)=2x\ \forall x', ''),
        (r'(t,2t), t\in\mathbb{R}', 'R'),
    ],
)
def test_the_values_of_a_letter_are_read(text, values):
    form = read(text)
    assert isinstance(form, Restricted)
    assert form.values == values


@pytest.mark.parametrize(
    'text',
    [
        r'5, k\in\mathbb{Z}',
        r'x+1, x>1',
        r'x+1, x\in\mathbb{R}^+',
        r'2k+1, k\in\mathbb{Z}, 5',
        r'(k, k\in\mathbb{Z})',
        r'k\in\mathbb{Z}',
    ],
)
def test_other_conditions_are_none(text):
    assert not isinstance(read(text), Restricted)

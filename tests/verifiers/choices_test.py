import pytest

from passk_jax.verifiers import choices
from passk_jax.verifiers.forms import Option


@pytest.mark.parametrize(
    ('text', 'option'),
    [
        (r'\text{(C)}', Option('C', '')),
        ('C: 12', Option('C', '12')),
        ('C) A and F', Option('C', 'A and F')),
        ('C) P(A)', Option('C', 'P(A)')),
        ('C) (A, B)', Option('C', '(A, B)')),
        ('C)D)', None),
        ('C. OR D', None),
        ('C) D', None),
        ('C) 5 or D', None),
        ('C) 5; D: 6', None),
        ('(A)(B)', None),
        ('(C)x', None),
        ('12', None),
    ],
)
def test_one_letter_and_its_text_are_read(text, option):
    assert choices.read_option(text) == option

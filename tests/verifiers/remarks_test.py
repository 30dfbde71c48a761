"""Remarks behind answers; more_kinds.py has more."""

import pytest

from passk_jax.verifiers.forms import Words
from passk_jax.verifiers.reading import read


@pytest.mark.parametrize(
    ('text', 'answer'),
    [
        (r'5\text{ at }x=1', '5'),
        (r'5\text{, attained when x = 1}', '5'),
        (r'y=5\ (\text{for }n=2)', 'y=5'),
        (r'5\text{ cm where }r=2', r'5\text{ cm}'),
        (r'(1,2)\text{ at }x=y=1', '(1,2)'),
        ('2x=10 => x=5', 'x=5'),
        (r'\sqrt2\ (\approx1.41)', r'\sqrt2\approx 1.41'),
        (r'\frac14\text{ (or }0.25)', r'\frac14=0.25'),
        (r'\frac14\ (25\%)', r'\frac14=25\%'),
    ],
)
def test_a_remark_goes_or_makes_a_chain(text, answer):
    assert read(text) == read(answer)


@pytest.mark.parametrize(
    'text', [r'7\text{ so }x=5', r'7\Rightarrow x=5', r'\text{not}=5', '7 then x=5']
)
def test_words_that_deny_or_deduce_make_no_answer(text):
    assert isinstance(read(text), Words)


@pytest.mark.parametrize('text', ['2 (3)', '3 sin x=5', r'\text{lcm}(1,5)=5'])
def test_other_brackets_and_words_stay(text):
    assert not isinstance(read(text), Words)
    assert read(text).source == text

import time

import pytest

from passk_jax.verifiers import formulas, mathematics


@pytest.mark.parametrize(
    ('text', 'answer'),
    [
        ('$5$ and $6$', r'5\text{ and }6'),
        (r'($\frac{1}{2}$, $6$)', r'(\frac{1}{2}, 6)'),
        (r'\(5\) cm.', r'5\text{ cm.}'),
        (r'\text{about $5$}', r'\text{about }5'),
        ('$5$,$600$', '5, 600'),
        ('$5$ m/s', r'5\text{ m/s}'),
        ('$90$°', '90°'),
    ],
)
def test_formulas_and_words_are_one_formula(text, answer):
    assert formulas.join_answer(text) == answer


@pytest.mark.parametrize(
    'text',
    [
        *('', 'yes', '5', '$5$', '$5', '5$', '$5$ cm$', '$5 and $6'),
        # Numbers would run together.
        *('$12$$5$', '$5$ $000$', '$5$.$5$', '1$5$', '.$5$', r'$5$\text{ }$000$'),
        *(r'2\text{$5$ cm}', r'\text{$5$}2', r'\text{1$0$}', '\0$5$ cm'),
        # The words make another number.
        *('$5$十', '$5$成', '$5$ M'),
        # Signs with a meaning in formulas.
        *('- $5$', '$5$!', "$5$'", '$5$^$2$', r'\text{not $\frac{1}{2}$}'),
    ],
)
def test_an_unclear_text_stays_as_it_is(text):
    assert formulas.join_answer(text) == text


@pytest.mark.parametrize(
    'text', ['$5$ cm{}', '$5${}cm', '$5$ cm{}$6$', '$5$ and{}$6$', '$5${}and $6$']
)
def test_a_run_of_blanks_takes_no_time(text):
    """A collapsed policy writes such runs, and nothing here has a deadline."""
    begun = time.process_time()
    for blank in ' \n':
        formulas.join_answer(text.format(blank * 4000))
        mathematics.judge(['7'], [rf'\boxed{{{text.format(blank * 4000)}}}'])
    assert time.process_time() - begun < 2

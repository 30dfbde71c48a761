import pytest

from passk_jax.verifiers import phrases


@pytest.mark.parametrize(
    ('text', 'date'),
    [
        (r'\text{June }20^{th}', 'jun 20'),
        ('20 Jun. 2024', 'jun 20 2024'),
        ('May 3, 1999', 'may 3 1999'),
        ('June', None),
        ('June 20 or 21', None),
        ('Junes 20', None),
    ],
)
def test_dates_have_one_spelling(text, date):
    assert phrases.date_of(text) == date


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        (r'\text{There are } 5', r'\text{There are '),
        ('the sum of all roots is: 5', 'the sum of all roots is: '),
        (r'\text{The wrong answer is } 5', None),
        (r'\text{There are no } 5', None),
        (r'\text{There are more than } 5', None),
        ('5', None),
    ],
)
def test_words_before_an_answer_are_found(text, words):
    match = phrases.introduction(text)
    assert (match and match[0]) == words

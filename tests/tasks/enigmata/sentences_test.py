import pytest

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import sentences


@pytest.mark.parametrize('length', [1, 10, 150])
def test_letters_are_capitals_without_j_and_as_many_as_asked_for(length):
    texts = [sentences.letters(Draws('letters', i), length) for i in range(40)]
    assert {len(text) for text in texts} == {length}
    letters = set(''.join(texts))
    assert all(letter.isascii() and letter.isupper() for letter in letters)
    assert 'J' not in letters
    assert len(set(texts)) > (4 if length == 1 else 35)


def test_words_pass_a_filter_and_are_no_more_than_needed():
    words = sentences.words(Draws(0), 100, accept=lambda word: len(word) % 2 == 0)
    assert {len(word) % 2 for word in words} == {0}
    assert 100 <= sentences.count_letters(words) < 100 + len(words[-1])


def test_texts_differ_and_every_letter_but_j_occurs():
    text = ''.join(sentences.letters(Draws(i), 200) for i in range(50))
    assert len(set(text)) == 25

"""The examples of textbooks and encyclopedias; the keys of each level."""

import collections
import itertools
import math

import pytest

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import ciphers

_GYBNQKURP = [[6, 24, 1], [13, 16, 10], [20, 17, 15]]


@pytest.mark.parametrize(
    ('cipher', 'key', 'text', 'encrypted'),
    [
        (ciphers.CAESAR, 3, 'VENIXYZ', 'YHQLABC'),
        (ciphers.AFFINE, [5, 8], 'AFFINECIPHER', 'IHHWVCSWFRCP'),
        (ciphers.ATBASH, [-1, 25], 'WIZARDA', 'DRAZIWZ'),
        (ciphers.SUBSTITUTION, 'ZEBRASCDFGHIJKLMNOPQTUVWXY',
         'FLEEATONCEWEAREDISCOVERED', 'SIAAZQLKBAVAZOARFPBLUAOAR'),
        (ciphers.VIGENERE, 'LEMON', 'ATTACKATDAWN', 'LXFOPVEFRNHR'),
        (ciphers.AUTOKEY, 'QUEENLY', 'ATTACKATDAWN', 'QNXEPVYTWTWP'),
        (ciphers.RAIL_FENCE, 3, 'WEAREDISCOVEREDFLEEATONCE',
         'WECRLTEERDSOEEFEAOCAIVDEN'),
        (ciphers.RAIL_FENCE, 2, 'ABCDE', 'ACEBD'),
        (ciphers.PLAYFAIR, 'PLAYFIREXM', 'HIDETHEGOLDINTHETREXESTUMP',
         'BMODZBXDNABEKUDMUIXMMOUVIF'),
        (ciphers.HILL, _GYBNQKURP, 'ACTCAT', 'POHFIN'),
    ],
)  # fmt: skip
def test_examples_of_textbooks(cipher, key, text, encrypted):
    assert cipher.encrypt(text, key) == encrypted


@pytest.mark.parametrize('text', ['BALLOON', 'BALOONS', 'SS', 'A'])
def test_playfair_adds_no_letters(text):
    assert not ciphers.has_pairs(text)
    with pytest.raises(ValueError, match='pairs of two different letters'):
        ciphers.playfair(text, 'KEY')


def test_keys_are_those_of_their_level():
    for level, number in enumerate((3, 4, 5)):
        for i in range(60):
            draws = Draws(level, i)
            keys = {c.name: c.draw(draws, level) for c in ciphers.CIPHERS}
            assert 1 <= keys['Caesar'] <= 25
            assert math.gcd(keys['affine'][0], 26) == 1
            assert keys['Atbash'] == [-1, 25]
            assert sorted(keys['substitution']) == list(ciphers.LETTERS)
            assert len(keys['Vigenere']) == len(keys['autokey']) == number
            assert keys['rail fence'] == level + 2
            assert len(set(keys['Playfair']) - {'J'}) == level + 6
            matrix = keys['Hill']
            assert len(matrix) == (2, 3, 3)[level]
            assert _invertible(matrix)


def _invertible(matrix):
    """Whether no combination of the columns vanishes modulo 2 or 13."""
    for prime in (2, 13):
        vectors = itertools.product(range(prime), repeat=len(matrix))
        for vector in vectors:
            image = [sum(a * b for a, b in zip(row, vector, strict=True)) % prime
                     for row in matrix]  # fmt: skip
            if any(vector) and not any(image):
                return False
    return True


def test_every_cipher_is_listed_once():
    names = collections.Counter(cipher.name for cipher in ciphers.CIPHERS)
    assert set(names.values()) == {1}
    assert len(names) == 9

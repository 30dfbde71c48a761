import itertools
from collections import Counter

import numpy as np
import pytest

from passk_jax.tasks.enigmata import ciphers
from passk_jax.tasks.enigmata.crypto import CRYPTO_KKA, CRYPTO_KPA
from tests.tasks.enigmata.judge import drawn, error_of

_NAMES = [cipher.name for cipher in ciphers.CIPHERS]


def _numbers(text):
    return np.array([ord(letter) - 65 for letter in text])


def _text(numbers):
    return ''.join(chr(65 + number % 26) for number in numbers)


def _by_parts(plaintext, encrypted, target, size):
    """What a table of blocks tells; nothing if it is no function or has gaps."""
    if len(plaintext) % size or len(target) % size:
        return
    blocks = [
        [text[i : i + size] for i in range(0, len(text), size)]
        for text in (plaintext, encrypted)
    ]
    table = {}
    for plain, cipher in zip(*blocks, strict=True):
        if table.setdefault(cipher, plain) != plain:
            return
    if len(set(table.values())) < len(table):
        return
    parts = [target[i : i + size] for i in range(0, len(target), size)]
    if all(part in table for part in parts):
        yield ''.join(table[part] for part in parts)


def _by_affine(plaintext, encrypted, target):
    plain, cipher, numbers = map(_numbers, (plaintext, encrypted, target))
    for a, b in itertools.product(
        [a for a in range(26) if a % 2 and a % 13], range(26)
    ):
        if ((a * plain + b - cipher) % 26 == 0).all():
            yield _text((numbers - b) * pow(a, -1, 26))


def _by_keystream(plaintext, encrypted, target):
    """Vigenere and autokey with any keyword of up to 12 letters."""
    plain, numbers = _numbers(plaintext), _numbers(target)
    stream = (_numbers(encrypted) - plain) % 26
    for length in range(1, 13):
        if (stream[length:] == stream[:-length]).all():
            yield _text(numbers - np.resize(stream[:length], len(numbers)))
        if (stream[length:] == plain[:-length]).all():
            letters = []
            keys = list(stream[:length])
            for number in numbers:
                letters.append((number - keys[len(letters)]) % 26)
                keys.append(letters[-1])
            yield _text(letters)


def _by_rails(plaintext, encrypted, target):
    for rails in range(2, 12):
        if ciphers.rail_fence(plaintext, rails) == encrypted:
            # The places of the letters, encrypted themselves.
            places = ciphers.rail_fence(''.join(map(chr, range(len(target)))), rails)
            yield ''.join(target[places.index(chr(i))] for i in range(len(target)))


def _by_matrix(plaintext, encrypted, target, size):
    if len(plaintext) % size or len(target) % size:
        return
    plain = _numbers(plaintext).reshape(-1, size)
    cipher = _numbers(encrypted).reshape(-1, size)
    vectors = np.array(list(itertools.product(range(26), repeat=size)))
    images = vectors @ plain[:8].T % 26
    options = [
        [v for v in vectors[(images == column[:8]).all(1)]
         if ((plain @ v - column) % 26 == 0).all()]
        for column in cipher.T
    ]  # fmt: skip
    for matrix in itertools.product(*options):
        pictures = vectors @ np.array(matrix).T % 26
        candidates = [
            vectors[(pictures == block).all(1)]
            for block in _numbers(target).reshape(-1, size)
        ]
        for blocks in itertools.product(*candidates):
            yield _text(np.concatenate(blocks))


def _decrypted(plaintext, encrypted, target):
    """Every plaintext that some key of one of the nine ciphers explains."""
    return {
        *_by_parts(plaintext, encrypted, target, 1),
        *_by_parts(plaintext, encrypted, target, 2),
        *_by_affine(plaintext, encrypted, target),
        *_by_keystream(plaintext, encrypted, target),
        *_by_rails(plaintext, encrypted, target),
        *_by_matrix(plaintext, encrypted, target, 2),
        *_by_matrix(plaintext, encrypted, target, 3),
    }


@pytest.mark.parametrize('level', range(3))
def test_the_known_plaintext_settles_the_other(level):
    for data in drawn(CRYPTO_KPA, level, count=40):
        texts = [line.rpartition(' ')[2] for line in data['question'].splitlines()]
        low, high = ((115, 155), (75, 105), (75, 105))[level]
        assert low <= len(texts[0]) <= high
        assert len(texts[2]) == len(data['answer']) >= 6
        assert _decrypted(*texts) == {data['answer']}


def test_every_cipher_occurs_with_its_lengths():
    for level, lengths in enumerate(
        (
            (10, 5, 15, 5, 5, 5, 5, 6, 4),
            (15, 10, 20, 10, 8, 10, 10, 10, 6),
            (20, 15, 25, 15, 12, 15, 15, 20, 9),
        )
    ):
        counts = Counter()
        for data in drawn(CRYPTO_KKA, level, count=200):
            ciphertext, cipher = data['question'].splitlines()
            name = cipher.removeprefix('Cipher: ').partition(',')[0]
            counts[name, len(data['answer'])] += 1
            assert len(ciphertext) == len('Ciphertext: ') + len(data['answer'])
        assert set(counts) == set(zip(_NAMES, lengths, strict=True))
        assert min(counts.values()) > 5


def test_a_problem_shows_the_key_that_made_it():
    """As Caesar's shift and the rails of a fence, undone by hand."""
    for data in drawn(CRYPTO_KKA, 0, count=60):
        ciphertext, cipher = data['question'].splitlines()
        text, key = ciphertext.split()[1], cipher.split()[-1]
        if 'Caesar' in cipher:
            assert _text(_numbers(text) - int(key)) == data['answer']
        if 'keyword' in cipher and 'Vigenere' in cipher:
            numbers = _numbers(text) - np.resize(_numbers(key), len(text))
            assert _text(numbers) == data['answer']
        if 'rail' in cipher:
            half = (len(text) + 1) // 2
            zigzag = itertools.zip_longest(text[:half], text[half:], fillvalue='')
            assert ''.join(itertools.chain(*zigzag)) == data['answer']


@pytest.mark.parametrize('puzzle', [CRYPTO_KKA, CRYPTO_KPA])
@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('LOVELETTER', None, None),
        ('loveletter', None, 'not the stored answer'),
        ('LOVE LETTER', None, 'not the stored answer'),
        ('LOVELETTERX', 'another answer', 'not the stored answer'),
        ('LOVELETTE', 'another answer', 'not the stored answer'),
    ],
)
def test_the_plaintext_is_right(puzzle, answer, error, official):
    data = {'question': '?', 'answer': 'LOVELETTER'}
    assert error_of(puzzle, data, answer) == error
    assert error_of(puzzle, data, answer, official=True) == official

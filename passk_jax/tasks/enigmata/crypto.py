"""Decrypt with the key (``crypto_KKA``) or with a known plaintext (``crypto_KPA``).

KKA and KPA are Enigmata's abbreviations of "known key attack" and "known plaintext
attack".
"""

from collections.abc import Sized

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import ciphers, sentences
from passk_jax.tasks.enigmata.ciphers import HILL, PLAYFAIR, SUBSTITUTION, Cipher
from passk_jax.tasks.enigmata.puzzle import OneAnswer, Puzzle
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong

# For each level, the letters to decode; for KKA as in Enigmata except medium Playfair.
_LENGTHS = {
    'Caesar': (10, 15, 20),
    'affine': (5, 10, 15),
    'Atbash': (15, 20, 25),
    'substitution': (5, 10, 15),
    'Vigenere': (5, 8, 12),
    'autokey': (5, 10, 15),
    'rail fence': (5, 10, 15),
    'Playfair': (6, 10, 20),
    'Hill': (4, 6, 9),
}
_KPA_LENGTHS = (10, 10, 15)
_KPA_BLOCKS = (4, 2, 3)
# For each level, minimum and maximum of letters of the known plaintext.
_KNOWN_LENGTHS = ((120, 150), (80, 100), (80, 100))

_CIPHERS = 'Letters have the numbers A = 0 to Z = 25, modulo 26. The ciphers:\n' + (
    '\n'.join(f'- {cipher.name}: {cipher.rule}.' for cipher in ciphers.CIPHERS)
)
_FORMAT = (
    'The plaintext is cut out of English sentences, without blanks.\n'
    'Answer: the plaintext in capital letters, for example GOLDENLANTERN'
)


class _Crypto(OneAnswer, Puzzle):
    """A text in one of nine ciphers; the plaintext needs no padding.

    The strict rule also reads the spellings of ``spellings.letters``: spaces, dashes,
    quotes, lower case.
    """

    category = 'Crypto'

    def usual(self, data, answer):
        return spellings.letters(answer)

    def check_official(self, data, answer):
        """Compares with the stored answer, ignoring white space."""
        if answer.split() != data['answer'].split():
            raise Wrong('not the stored answer')


class CryptoKKA(_Crypto):
    """A ciphertext with its cipher and key."""

    name = 'crypto_KKA'
    rules = f'Decrypt the ciphertext with the key that is given. {_CIPHERS}\n{_FORMAT}'

    def generate(self, draws, level):
        cipher = draws.choice(ciphers.CIPHERS)
        key = cipher.draw(draws, level)
        plaintext = _plaintext(draws, cipher, _LENGTHS[cipher.name][level])
        question = (
            f'Ciphertext: {cipher.encrypt(plaintext, key)}\n'
            f'Cipher: {cipher.name}, {cipher.describe(key)}'
        )
        return {'question': question, 'answer': plaintext}


class CryptoKPA(_Crypto):
    """A ciphertext, and another with its plaintext that determines the answer."""

    name = 'crypto_KPA'
    rules = (
        'A known plaintext and its ciphertext are given. Decrypt the other ciphertext, '
        'which was made by the same cipher with the same key. Both are unknown; the '
        f'cipher is one of nine. {_CIPHERS}\n{_FORMAT}'
    )

    def generate(self, draws, level):
        cipher = draws.choice(ciphers.CIPHERS)
        key = cipher.draw(draws, level)
        shown_text, plaintext = _known_and_plaintext(draws, cipher, key, level)
        question = (
            f'Known plaintext: {shown_text}\n'
            f'Its ciphertext: {cipher.encrypt(shown_text, key)}\n'
            f'Ciphertext to decrypt: {cipher.encrypt(plaintext, key)}'
        )
        return {'question': question, 'answer': plaintext}


def _plaintext(draws: Draws, cipher: Cipher, length: int) -> str:
    while True:
        text = sentences.letters(draws, length)
        if cipher is not PLAYFAIR or ciphers.has_pairs(text):
            return text


def _known_and_plaintext(
    draws: Draws, cipher: Cipher, key: Sized, level: int
) -> tuple[str, str]:
    """Draws two plaintexts, of which the first tells how to decrypt the second.

    For Playfair, the first has all pairs of letters of the second; for a substitution,
    all its letters. For other ciphers, the first is long enough to determine the key,
    up to equivalent keys.
    """
    length, known_length = _KPA_LENGTHS[level], draws.between(*_KNOWN_LENGTHS[level])
    if cipher is PLAYFAIR:
        shown_text = sentences.words(draws, known_length, accept=ciphers.has_pairs)
        return ''.join(shown_text), ''.join(draws.shuffled(shown_text))[
            : length // 2 * 2
        ]
    if cipher is HILL:
        length = _KPA_BLOCKS[level] * len(key)
        known_length -= known_length % len(key)
    while True:
        shown_text = sentences.letters(draws, known_length)
        text = sentences.letters(draws, length)
        if cipher is not SUBSTITUTION or set(text) <= set(shown_text):
            return shown_text, text


CRYPTO_KKA = CryptoKKA()
CRYPTO_KPA = CryptoKPA()

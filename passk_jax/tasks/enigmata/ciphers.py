"""Nine classical ciphers of capital letters, with keys for Enigmata's levels.

Keyword lengths, multipliers and numbers of rails are those of Enigmata. A letter is
also its number, A = 0 to Z = 25, and arithmetic is modulo 26.
"""

import dataclasses
import itertools
import math
import string
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from passk_jax.tasks.draws import Draws

LETTERS = string.ascii_uppercase
SQUARE_LETTERS = LETTERS.replace('J', '')

# For each level.
_KEYWORDS = (3, 4, 5)
_SQUARE_KEYWORDS = (6, 7, 8)
_RAILS = (2, 3, 4)
_MATRICES = (2, 3, 3)
_MULTIPLIERS = ((3, 5, 7, 9), (11, 15, 17), (19, 21, 23, 25))

Matrix = Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Cipher:
    """A cipher.

    Attributes:
        name: its name in problems.
        rule: its description in English.
        draw: draws a key of a level.
        encrypt: encrypts a plaintext with a key.
        describe: describes a key in English.
    """

    name: str
    rule: str
    draw: Callable[[Draws, int], Any]
    encrypt: Callable[[str, Any], str]
    describe: Callable[[Any], str]


def _numbers(text: str) -> list[int]:
    return [ord(letter) - ord('A') for letter in text]


def _shifted(text: str, shifts: Iterable[int]) -> str:
    # The shifts may be endless.
    pairs = zip(_numbers(text), shifts, strict=False)
    return ''.join(LETTERS[(number + shift) % 26] for number, shift in pairs)


def caesar(text: str, shift: int) -> str:
    """Adds the shift to each letter."""
    return _shifted(text, itertools.repeat(shift))


def vigenere(text: str, keyword: str) -> str:
    """Adds the keyword's letters, cyclically."""
    return _shifted(text, itertools.cycle(_numbers(keyword)))


def autokey(text: str, keyword: str) -> str:
    """Adds the letters of the keyword and then of the text itself."""
    return _shifted(text, _numbers(keyword + text))


def affine(text: str, key: Sequence[int]) -> str:
    """Turns letter x into ax + b."""
    a, b = key
    return ''.join(LETTERS[(a * number + b) % 26] for number in _numbers(text))


def substitution(text: str, key: str) -> str:
    """Turns the letters of the alphabet into those of the key."""
    return text.translate(str.maketrans(LETTERS, key))


def rail_fence(text: str, rails: int) -> str:
    """Writes in a zigzag over the rails, down first, and reads rail after rail."""
    period = 2 * (rails - 1)
    zigzag = [min(i % period, -i % period) for i in range(len(text))]
    return ''.join(text[i] for i in sorted(range(len(text)), key=zigzag.__getitem__))


def playfair(text: str, keyword: str) -> str:
    """Replaces pairs of letters by a square of 5 x 5.

    Raises ValueError unless :func:`has_pairs`, because the cipher adds no letters.
    """
    if not has_pairs(text):
        raise ValueError(f'{text!r} is not made of pairs of two different letters')
    square = ''.join(dict.fromkeys(keyword + SQUARE_LETTERS))
    return ''.join(
        _turned(square, first, second)
        for first, second in zip(text[::2], text[1::2], strict=True)
    )


def _turned(square: str, first: str, second: str) -> str:
    row, column = divmod(square.index(first), 5)
    row2, column2 = divmod(square.index(second), 5)
    if row == row2:
        column, column2 = (column + 1) % 5, (column2 + 1) % 5
    elif column == column2:
        row, row2 = (row + 1) % 5, (row2 + 1) % 5
    else:
        column, column2 = column2, column
    return square[5 * row + column] + square[5 * row2 + column2]


def has_pairs(text: str) -> bool:
    """Tells whether a text consists of pairs of two different letters."""
    return len(text) % 2 == 0 and all(
        a != b for a, b in zip(text[::2], text[1::2], strict=True)
    )


def hill(text: str, matrix: Matrix) -> str:
    """Multiplies the matrix by each block of letters, as a column."""
    numbers, size = _numbers(text), len(matrix)
    blocks = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    return ''.join(
        LETTERS[sum(map(int.__mul__, row, block)) % 26]
        for block in blocks
        for row in matrix
    )


def _random_matrix(draws: Draws, level: int) -> list[list[int]]:
    """Draws a matrix that has an inverse modulo 26."""
    size = _MATRICES[level]
    while True:
        matrix = [[draws.below(26) for _ in range(size)] for _ in range(size)]
        if math.gcd(_determinant(matrix), 26) == 1:
            return matrix


def _determinant(matrix: Matrix) -> int:
    """Computes the determinant by the first row."""
    if not matrix:
        return 1
    first, *remaining = matrix
    minors = [
        [[*row[:i], *row[i + 1 :]] for row in remaining] for i in range(len(first))
    ]
    return sum(
        (-1) ** i * entry * _determinant(minor)
        for i, (entry, minor) in enumerate(zip(first, minors, strict=True))
    )


def _random_letters(draws: Draws, count: int) -> str:
    return ''.join(draws.choice(LETTERS) for _ in range(count))


def _keyword_of(key: str) -> str:
    return f'keyword {key}'


CAESAR = Cipher(
    'Caesar',
    'adds the shift to each letter',
    lambda draws, level: draws.between(1, 25),
    caesar,
    lambda key: f'shift {key}',
)
AFFINE = Cipher(
    'affine',
    'turns the letter x into ax + b',
    lambda draws, level: [draws.choice(_MULTIPLIERS[level]), draws.below(26)],
    affine,
    lambda key: f'a = {key[0]}, b = {key[1]}',
)
ATBASH = Cipher(
    'Atbash',
    'turns the letter x into 25 - x',
    lambda draws, level: [-1, 25],
    affine,
    lambda key: 'no key',
)
SUBSTITUTION = Cipher(
    'substitution',
    'turns the letters A to Z into those of the key, in this order',
    lambda draws, level: ''.join(draws.shuffled(LETTERS)),
    substitution,
    lambda key: f'key {key}',
)
VIGENERE = Cipher(
    'Vigenere',
    'adds the letters of the keyword, which is repeated, to those of the plaintext',
    lambda draws, level: _random_letters(draws, _KEYWORDS[level]),
    vigenere,
    _keyword_of,
)
AUTOKEY = Cipher(
    'autokey',
    'adds the letters of the keyword, and then those of the plaintext itself, to those '
    'of the plaintext',
    lambda draws, level: _random_letters(draws, _KEYWORDS[level]),
    autokey,
    _keyword_of,
)
RAIL_FENCE = Cipher(
    'rail fence',
    'writes the plaintext in a zigzag over the rails, first down from the top rail, '
    'and reads rail after rail from the top',
    lambda draws, level: _RAILS[level],
    rail_fence,
    lambda key: f'{key} rails',
)
PLAYFAIR = Cipher(
    'Playfair',
    'fills a square of 5 by 5, row by row, with the keyword and then the other letters '
    'of the alphabet except J; of each pair of letters, two in one row become the '
    'letters on their right, two in one column become the letters below them, and of '
    'any other two each becomes the letter in its own row and in the column of the '
    'other; after the last letter of a row or column comes the first',
    lambda draws, level: ''.join(draws.sample(SQUARE_LETTERS, _SQUARE_KEYWORDS[level])),
    playfair,
    _keyword_of,
)
HILL = Cipher(
    'Hill',
    'turns each block of letters, as a column, into the product of the matrix and it',
    _random_matrix,
    hill,
    lambda key: f'matrix {key}',
)

CIPHERS = (
    *(CAESAR, AFFINE, ATBASH, SUBSTITUTION, VIGENERE, AUTOKEY),
    *(RAIL_FENCE, PLAYFAIR, HILL),
)

"""Residues: what is read as one, and which are equal."""

import pytest

from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.congruences import read_congruence
from passk_jax.verifiers.forms import Congruence, Several
from passk_jax.verifiers.reading import read


@pytest.mark.parametrize(
    ('text', 'residue', 'modulus'),
    [
        (r'x\equiv 3\pmod{7}', '3', '7'),
        ('3 (mod 7)', '3', '7'),
        (r'x_1 \equiv 3 \mod n', '3', 'n'),
        (r'a+1 \pmod{2^k}', 'a+1', '2^k'),
        (r'3 \text{ (mod } 7)', '3', '7'),
    ],
)
def test_it_reads_a_residue(text, residue, modulus):
    form = read(text)
    assert isinstance(form, Congruence)
    assert (form.residue.source, form.modulus.source.rstrip('}')) == (
        residue,
        modulus.rstrip('}'),
    )


@pytest.mark.parametrize(
    'text',
    [r'17 \bmod 5', r'17 \mod 5', '5', r'(3\pmod 7)', r'\pmod 7', r'x\equiv\pmod 7'],
)
def test_it_leaves_numbers_brackets_and_halves(text):
    assert read_congruence(text, read) is None


@pytest.mark.parametrize(
    ('gold', 'answer', 'same'),
    [
        (r'3\pmod 7', r'x\equiv -4\pmod 7', True),
        (r'3\pmod 7', r'3\pmod 5', False),
        (r'3\pmod 7', '3', False),
        (r'x\equiv 1,6\pmod 7', r'x\equiv\pm1\pmod7', True),
        (r'2x\equiv 1\pmod 7', r'2x\equiv1\pmod7', True),
        (r'2x\equiv 1\pmod 7', r'x\equiv1\pmod7', False),
        (r'a\pmod n', r'a\pmod{n}', True),
        (r'3\pmod{0}', r'4\pmod 0', False),
        # Too large for exact arithmetic: open, never an error.
        (r'9^{9^{9}}\pmod 7', r'1\pmod 7', None),
    ],
)
def test_it_compares_residues(gold, answer, same):
    assert equal(read(gold), read(answer), Exact()) is same


def test_several_residues_share_a_modulus():
    assert isinstance(read(r'x\equiv 1,6\pmod 7').residue, Several)

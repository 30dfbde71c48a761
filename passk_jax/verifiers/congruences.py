r"""Residues: ``x \equiv 3 \pmod 7``, ``3 (mod 7)``."""

import functools
import re
from collections.abc import Callable

from passk_jax.verifiers import exact
from passk_jax.verifiers.forms import (
    Bracketed,
    Congruence,
    Expression,
    Form,
    Several,
)
from passk_jax.verifiers.matching import Compare, Judge, all_of, match_in_any_order
from passk_jax.verifiers.trees import Number

_MODULUS = re.compile(
    r'(?P<sides>.*?)\s*,?\s*(?P<sign>\(?\s*\\text\{\s*\(?\s*mod(?:ulo)?|\(?\s*\\[bp]?mod'
    r'|\(?\s*mod)(?![a-z])[\s{}]*(?P<modulus>[^{}(),=]+?)[\s)}]*'
)
_VARIABLE = re.compile(r'\s*[A-Za-z](?:_\{?\w+\}?)?\s*')
_EQUIV = re.compile(r'\\equiv(?![a-z])')


def read_congruence(text: str, read: Callable[[str], Form]) -> Congruence | None:
    r"""Reads a residue; a bare ``17 \bmod 7`` is a number and no residue.

    Args:
        text: in normal form.
        read: reads a part.
    """
    match = _MODULUS.fullmatch(text)
    sides = match['sides'] if match else ''
    if not match or not sides or 'mod' in sides or sides.count('(') > sides.count(')'):
        return None
    *names, value = _EQUIV.split(sides)
    sign = match['sign'].replace(' ', '')
    if len(names) > 1 or not value.strip():
        return None
    if not names and sign in (r'\bmod', r'\mod', 'mod'):
        return None
    is_variable = not names or _VARIABLE.fullmatch(names[0])
    residue = read(value)
    if not is_variable:
        residue = Bracketed(r'\equiv', (read(names[0]), residue), '')
    return Congruence(residue, read(match['modulus']))


def remainder_of(form: Congruence) -> Form | None:
    r"""Returns the residue if it is the remainder: 42 of ``42 \pmod{1000}``."""
    match form.residue, form.modulus:
        case Expression(_, Number(value)), Expression(_, Number(modulus)):
            return form.residue if 0 <= value < modulus else None
    return None


def congruence_rule(
    gold: Congruence, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with residues: the same modulus, and values in any order."""
    if not isinstance(answer, Congruence):
        return False
    golds, answers = (
        form.items if isinstance(form, Several) else (form,)
        for form in (gold.residue, answer.residue)
    )
    same = functools.partial(_same_residue, gold.modulus, compare)
    modulus = compare(gold.modulus, answer.modulus)
    return all_of((modulus, match_in_any_order(golds, answers, same)))


def _same_residue(
    modulus: Form, compare: Compare, gold: Form, answer: Form
) -> bool | None:
    trees = [x.tree for x in (gold, answer, modulus) if isinstance(x, Expression)]
    try:
        values = [exact.value(tree) for tree in trees if tree is not None]
    except exact.TooLargeError:
        return None
    match [value for value in values if value is not None]:
        case [first, second, period] if period:
            return (first - second) % period == 0
    return compare(gold, answer)

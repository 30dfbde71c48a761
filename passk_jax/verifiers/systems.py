r"""Systems of equations and piecewise functions: ``\begin{cases}`` and the like."""

import re
from collections.abc import Callable

from passk_jax.verifiers.forms import Bracketed, Form, Several, Words

_CASES = ('cases', 'dcases', 'rcases')
# The left sides of the rows tell a system in these from a derivation or a matrix.
_ALIGNMENTS = ('array', 'matrix', 'aligned', 'align', 'gathered')
_ALIGNED = re.compile(r'\s*&?\s*=\s*&?\s*')
_PIECEWISE = re.compile(r'\\begin\{[dr]?cases\}(.*)\\end\{[dr]?cases\}', re.DOTALL)
# What stands between a value and its condition.
_BETWEEN = re.compile(r'\s*,?\s*&\s*,?\s*')
_RELATION = re.compile(r'[=<>]|\\(?:le|ge|ne|in|equiv)(?![a-z])')
_SIGNS_OF_TEXT = re.compile(r'\\text\{|[{}$,.;\s]+')
_INTRODUCTION = re.compile(
    r'\\text\{\s*(?:if|for|when|where)\s*\}\s*|(?:if|for)(?![A-Za-z])\s*'
)
_ELSE = {'else': 'otherwise', 'elsewhere': 'otherwise'}
# Words that a condition may have or not.
_FILLERS = frozenset(('if', 'for', 'when', 'where', 'is', 'are'))

_ENVIRONMENTS = '|'.join((*_CASES, *_ALIGNMENTS))
SYSTEM = (
    rf'(\\\{{\s*)?\\begin\{{({_ENVIRONMENTS})\*?\}}(?:\{{[lcr]*\}})?'
    r'((?s:(?!\\begin|\\end).)*)\\end\{\2\*?\}'
)


def spell_system(match: re.Match[str]) -> str:
    """Spells a system as a list of its rows; other environments stay as they are.

    Args:
        match: of ``SYSTEM``, before its text goes through the rest of normal_form.py.
    """
    brace, environment, content = match.groups()
    rows = [row.strip().rstrip(',.;') for row in content.split(r'\\')]
    rows = [_ALIGNED.sub('=', row) for row in rows if row]
    names = [row.partition('=')[0] for row in rows if '=' in row]
    is_system = len({*names} - {''}) == len(rows) > 1
    is_alone = brace and not match.string[: match.start()].strip()
    is_alone = is_alone and not match.string[match.end() :].strip()
    if '&' in ''.join(rows) or not (is_system or is_alone or environment in _CASES):
        return match[0]
    return ', '.join(rows)


def read_piecewise(text: str, read: Callable[[str], Form]) -> Several | None:
    r"""Reads a piecewise function as a list of pairs, each a value and its condition.

    Args:
        text: in normal form: ``\begin{cases} x & x>0 \\ 0 & x<0 \end{cases}``.
        read: reads a part.
    """
    match = _PIECEWISE.fullmatch(text)
    rows = [row for row in match[1].split(r'\\') if row.strip()] if match else []
    pieces = [_BETWEEN.split(row) for row in rows]
    if not pieces or any(len(piece) != 2 for piece in pieces):
        return None
    pairs = ((read(value), _read_condition(x, read)) for value, x in pieces)
    return Several(tuple(Bracketed('(', pair, ')') for pair in pairs))


def _read_condition(text: str, read: Callable[[str], Form]) -> Form:
    """Reads a condition: a relation, or words such as ``n is odd``."""
    if _RELATION.search(text):
        return read(_INTRODUCTION.sub('', text))
    words = _SIGNS_OF_TEXT.sub(' ', text).casefold().split()
    return Words(' '.join(_ELSE.get(x, x) for x in words if x not in _FILLERS))

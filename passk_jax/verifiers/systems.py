r"""Systems of equations and piecewise functions: ``\begin{cases}`` and the like."""

import re
from collections.abc import Callable

from passk_jax.verifiers.forms import Bracketed, Form, Several, Words

_CASES = ('cases', 'dcases', 'rcases')
_ALIGNMENTS = ('array', 'matrix', 'aligned', 'align', 'gathered')
_LETTER = re.compile('[A-Za-z]')
_OF_CASES = rf'\{{(?:{"|".join(_CASES)})\}}'
_PIECEWISE = re.compile(rf'\\begin{_OF_CASES}(.*)\\end{_OF_CASES}', re.DOTALL)
_IF = ('if', 'for', 'when', 'where')
_IF_TEXT = rf'\\text\{{\s*(?:{"|".join(_IF)})\s*\}}'
# What stands between a value and its condition.
_BETWEEN = re.compile(r'\s*,?\s*&\s*,?\s*')
# A column of its own between them.
_COLUMN = re.compile(rf'(&\s*{_IF_TEXT})\s*&')
_RELATION = re.compile(r'[=<>]|\\(?:le|ge|ne|in|equiv)(?![a-z])')
_SIGNS_OF_TEXT = re.compile(r'\\text\{|[{}$,.;\s]+')
_INTRODUCTION = re.compile(rf'{_IF_TEXT}\s*|(?:if|for)(?![A-Za-z])\s*')
_ELSE = {'else': 'otherwise', 'elsewhere': 'otherwise'}
# Words that a condition may have or not.
_FILLERS = frozenset((*_IF, 'is', 'are'))

_ENVIRONMENTS = '|'.join((*_CASES, *_ALIGNMENTS))
SYSTEM = (
    rf'(\\\{{\s*)?\\begin\{{({_ENVIRONMENTS})\*?\}}'
    r'(?:\{(?:[lcr| ]|@\{[^{}]*\})*\})?'
    r'((?s:(?!\\begin|\\end).)*)\\end\{\2\*?\}((?(1)(?:\s*\\\})?))'
)


def spell_system(match: re.Match[str]) -> str:
    r"""Spells a system of equations as a list; other environments stay as they are.

    ``cases`` are a system unless they have columns. In other environments, each row of
    a system begins with another letter and an equals sign, so that neither a derivation
    nor a column of a matrix is one. Behind ``\{``, it may begin with anything else.

    Args:
        match: of ``SYSTEM``.
    """
    brace, environment, content, closing = match.groups()
    rows = [row.strip().rstrip(' \n\t,.;\\') for row in content.split(r'\\')]
    sides = [[side.strip(' \n\t&') for side in row.split('=')] for row in rows if row]
    if any('&' in side for row in sides for side in row):
        return match[0]
    first = {row[0] for row in sides if len(row) > 1}
    differ = len(first - {''}) == len(sides) > 1
    text = ', '.join('='.join(row) for row in sides)
    is_whole = match.span() == (0, len(match.string))
    if environment in _CASES:
        # \{ may begin a set of several systems.
        return text if is_whole and not closing else f'{brace or ""}{text}{closing}'
    if brace:
        return text if differ or is_whole else match[0]
    return text if differ and all(map(_LETTER.fullmatch, first)) else match[0]


def read_piecewise(text: str, read: Callable[[str], Form]) -> Several | None:
    r"""Reads a piecewise function as a list of pairs, each a value and its condition.

    Args:
        text: in normal form: ``\begin{cases} x & x>0 \\ 0 & x<0 \end{cases}``.
        read: reads a part.
    """
    match = _PIECEWISE.fullmatch(text)
    rows = [row for row in match[1].split(r'\\') if row.strip()] if match else []
    pieces = [_BETWEEN.split(_COLUMN.sub(r'\1', row)) for row in rows]
    if not pieces or any(len(piece) != 2 for piece in pieces):
        return None
    if not all(re.search('[A-Za-z]', condition) for _, condition in pieces):
        return None
    pairs = ((read(value), _read_condition(x, read)) for value, x in pieces)
    return Several(tuple(Bracketed('(', pair, ')') for pair in pairs))


def _read_condition(text: str, read: Callable[[str], Form]) -> Form:
    """Reads a condition: a relation, or words such as ``n is odd``."""
    if _RELATION.search(text):
        return read(_INTRODUCTION.sub('', text))
    words = _SIGNS_OF_TEXT.sub(' ', text).split()
    # Letters of formulas have a case.
    words = [word if len(word) == 1 else word.casefold() for word in words]
    return Words(' '.join(_ELSE.get(x, x) for x in words if x not in _FILLERS))

"""Splits an expression in normal form into tokens, and reads their numbers.

A run of letters is one token if it names a function or a constant. A run that is long,
or has such a name inside, is refused. Other runs are products of letters.
"""

import re
from fractions import Fraction

from passk_jax.verifiers.trees import Number
from passk_jax.verifiers.vocabulary import GREEK

Token = tuple[str, str]


class UnreadableError(ValueError):
    """The text is no expression of this grammar."""


class TooDeepError(UnreadableError):
    """The text has too many operations inside one another."""


FUNCTIONS = {
    **dict.fromkeys(('sin', 'cos', 'tan', 'cot', 'sec', 'csc')),
    **dict.fromkeys(('sinh', 'cosh', 'tanh', 'coth', 'arcsin', 'arccos', 'arctan')),
    **dict.fromkeys(('arccot', 'ln', 'log', 'lg', 'exp', 'abs', 'floor', 'ceil')),
    **{'asin': 'arcsin', 'acos': 'arccos', 'atan': 'arctan', 'sqrt': 'sqrt'},
    **{'cbrt': 'cbrt', 'tg': 'tan', 'ctg': 'cot', 'arctg': 'arctan', 'sgn': 'sgn'},
}
CONSTANTS = {
    **{'pi': 'pi', 'infty': 'infinity', 'infinity': 'infinity', 'inf': 'infinity'},
    **{'oo': 'infinity', 'e': 'e', 'i': 'i'},
}
# Names that a run of letters must not hide.
_HIDDEN = re.compile('pi|ln|lg|log|sin|cos|tan|sec|csc|exp|sqrt|inf')

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<repeating>[0-9]*\.[0-9]*(?:
        \\(?:overline|bar)\s*(?:\{\s*[0-9]+\s*\}|[0-9])
      | \\dot\s*\{?[0-9]\}?(?:[0-9]*\\dot\s*\{?[0-9]\}?)?
      | \([0-9]+\)(?![\w^!(])
      | [0-9]+(?:\.\.\.|\s*\\ldots)))
  | (?P<tiny>(?:(?:[0-9]*\.[0-9]+|1)[eE]-|[0-9]+(?:E-|e-0))[0-9]{1,4}(?![0-9A-Za-z.]))
  | (?P<number>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?
        (?:[eE]\+?[0-9]{1,4}(?![0-9A-Za-z.]))?
      | \.[0-9]+(?:[eE]\+?[0-9]{1,4}(?![0-9A-Za-z.]))?)
  | \\text\{(?P<text>[^{}]*)\}
  | (?P<command>\\[A-Za-z]+|\\.)
  | (?P<letters>[A-Za-z]+)
  | (?P<sign>\*\*|[^\s]))""",
    re.VERBOSE,
)


def tokens_of(text: str) -> list[Token]:
    """Splits a text into (kind, text) pairs; the kinds are those of the pattern.

    Raises UnreadableError.
    """
    tokens: list[Token] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise UnreadableError(text[position:][:20])
        kind = match.lastgroup or ''
        token = match[kind]
        if kind == 'sign' and token == '**':
            token = '^'
        if kind == 'tiny':
            tokens.append(('number', token))
        elif kind == 'letters':
            tokens += [('letters', part) for part in _parts(token)]
        else:
            tokens.append((kind, token))
        position = match.end()
    return [*tokens, ('end', '')]


def _parts(run: str) -> tuple[str, ...]:
    if run in FUNCTIONS or run in CONSTANTS or run in GREEK:
        return (run,)
    if len(run) > 3 or _HIDDEN.search(run):
        raise UnreadableError(run)
    return tuple(run)


def literal(token: str) -> Number:
    """Reads a number: digits, perhaps with separators and an exponent."""
    digits, _, exponent = token.lower().replace(',', '').partition('e')
    before, point, behind = digits.partition('.')
    value = Fraction(int(f'{before or 0}{behind}'), 10 ** len(behind))
    places = len(behind) if point and behind else None
    if exponent:
        value *= Fraction(10) ** int(exponent)
        # 1e6 is exact; the last digit of 1.5e-3 is the fourth place.
        places = max(0, len(behind) - int(exponent)) or None
    return Number(value, places)


def repeating(token: str) -> Number:
    """Reads a repeating decimal."""
    before, _, behind = token.partition('.')
    cut = re.fullmatch(r'([0-9]+)(?:\.\.\.|\s*\\ldots)', behind)
    if cut:
        return _continued(before, cut[1])
    prefix = behind[: len(behind) - len(behind.lstrip('0123456789'))]
    period = ''.join(re.findall('[0-9]', behind[len(prefix) :]))
    return _periodic(before, prefix, period)


def _periodic(before: str, prefix: str, period: str) -> Number:
    cut = Fraction(int(f'{before or 0}{prefix}'), 10 ** len(prefix))
    tail = Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(prefix))
    return Number(cut + tail)


def _continued(before: str, digits: str) -> Number:
    """Reads ``0.3636...``: its period is the shortest block that ends it twice.

    A single digit must occur three times. Without a period, the decimal ends here.
    """
    for length in range(1, len(digits) // 2 + 1):
        block = digits[-length:]
        if digits.endswith(block * (3 if length == 1 else 2)):
            prefix = digits
            while prefix.endswith(block):
                prefix = prefix.removesuffix(block)
            return _periodic(before, prefix, block)
    return literal(f'{before}.{digits}')

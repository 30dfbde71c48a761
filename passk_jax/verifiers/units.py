r"""Reads units after numbers, from a list of units, and names of things.

A unit follows a value: as ``\text{...}``, as a symbol of the list such as ``cm``,
``km/h`` or ``kg\cdot m^{-3}``, or as a word. A single letter without ``\text`` is a
variable (``2t``, ``6m``), except in ``5 m``, ``5 s``, ``5 g`` and ``5 L``, after a
number and a blank. Other words name things (``12 \text{ ways}``, ``12个``), which match
any unit, unless they negate, compare or join (``\text{ or more}``).
"""

import collections
import dataclasses
import functools
import re
from fractions import Fraction

from passk_jax.verifiers.vocabulary import (
    NO_NAMES,
    NUMBERS,
    OPPOSITES,
    POWERS,
    SAME_SENSES,
    SCALES,
    SHORT_NAMES,
    UNIT_LETTERS,
    UNIT_SYMBOLS,
    UNITS,
)

PERCENT, DEGREE, RADIAN = 'percent', 'degree', 'radian'
MONEY = frozenset(('dollars', 'euros', 'sterling', 'yuan', 'yen', 'rupees'))


@dataclasses.dataclass(frozen=True)
class Unit:
    """A unit.

    Attributes:
        dimension: such as ``'length^2'`` or ``'percent'``; ``''``: things of any kind.
        factor: its size in the dimension's first unit.
        sense: a word of ``OPPOSITES`` beside it, such as ``'west'``.
    """

    dimension: str
    factor: Fraction = Fraction(1)
    sense: str = dataclasses.field(default='', repr=False)


def _table(text: str) -> dict[str, Unit]:
    units = {}
    for line in text.replace('\n   ', '').strip().split('\n'):
        dimension, _, entries = line.partition(':')
        for entry in entries.split(','):
            factor, *names = entry.split()
            units |= dict.fromkeys(names, Unit(dimension, Fraction(factor)))
    return units


_UNITS = _table(UNITS)
_SENSES = {word: word for words in OPPOSITES for word in words} | {
    word: sense for sense, words in SAME_SENSES.items() for word in words
}
_PIECE = re.compile(
    r'\\text\{[^{}]*\}|\\[A-Za-z]+|\\.|[A-Za-z]+\.?|[\u4e00-\u9fff]+'
    r'|\^\s*(?:\{\s*-?[1-9]\s*\}|-?[1-9])|\s+|.',
    re.DOTALL,
)
_UNIT_PIECE = re.compile(
    r'\\text\{[^{}]*\}|\\cdot|\\times|[A-Za-z]+\.?|[\u4e00-\u9fff]+|\^.*|\s+|[/()]',
    re.DOTALL,
)
# One part of 2 hours 30 minutes, and the words that may join it to the next.
_PART = re.compile(
    r'([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+|[\u4e00-\u9fff]{1,2})\.?\s*(?:,|and\b)?\s*'
)
# A factor or a divisor of a dimension.
_FACTOR = re.compile(r'(/?)([a-z]+)(?:\^([0-9]+))?')
_MOST_PIECES = 12
# Letters of thousands and more behind an amount of money; some only inside ``\text``.
_SCALE_LETTERS = {
    **dict.fromkeys(('k', 'K'), 'thousand'),
    **dict.fromkeys(('M', 'mn', 'mln', 'mil'), 'million'),
    **dict.fromkeys(('B', 'bn', 'bln'), 'billion'),
}
_SCALE_TEXTS = _SCALE_LETTERS | {'m': 'million', 'MM': 'million', 'T': 'trillion'}
_SCALED = re.compile(
    rf'([0-9.,]+)\s*(?:({"|".join(_SCALE_LETTERS)})'
    rf'|\\text\{{ *({"|".join(_SCALE_TEXTS)})\.? *\}})'
)
# Units whose first letter alone would be a variable.
_LETTER_RATE = re.compile(
    r'm\s*/\s*(?:s|min|sec|h)\b|g\s*/\s*(?:L|mL|cm|mol)\b'
    r'|(?:m(?: |\s*\\cdot\s*)(?:s|min|h)|g(?: |\s*\\cdot\s*)(?:L|mL|cm|mol))'
    r'\s*\^\s*\{?\s*-'
)
# To the left, towards north.
_TO = re.compile(
    r'\b(?:to|towards?) (?:the )?(?=(?:left|right|north|south|east|west)\b)'
)
_VOWEL = re.compile('[aeiou]')
# Words that take a root of the number; in 1 real root, they name a thing.
_ROOT = re.compile(r'root|.*\broot\b.+|.*(?:square|cubed?|cubic|th) root')
# Chinese characters follow it.
_LAST_LETTER = '\u4dff'


def split_unit(text: str) -> tuple[str, Unit] | None:
    r"""Splits a value in normal form and its unit; ``None`` if there is no unit.

    >>> split_unit(r'5 \text{ cm}')
    ('5', Unit(dimension='length', factor=Fraction(1, 100)))
    >>> split_unit('2t'), split_unit('x cm')
    (None, None)
    """
    pieces = _PIECE.findall(text)
    first = len(pieces)
    while first and len(pieces) - first < _MOST_PIECES:
        if not _UNIT_PIECE.fullmatch(pieces[first - 1]):
            break
        first -= 1
    for start in range(max(first, 1), len(pieces)):
        value = ''.join(pieces[:start])
        if not value.strip() or value.rstrip()[-1] in '+-*/^_=<>(,:':
            continue
        if unit := _unit_after(value, pieces[start:]):
            return value.rstrip(), unit
    return None


def sum_of_units(text: str) -> tuple[Fraction, Unit] | None:
    r"""Reads a sum of ever smaller units, in the smallest of them.

    >>> value, unit = sum_of_units(r'2\text{ hours and }30\text{ minutes}')
    >>> value, unit.factor
    (Fraction(150, 1), Fraction(60, 1))
    """
    plain = re.sub(r'\\text\{([^{}]*)\}', r' \1 ', text).strip()
    parts = list(_PART.finditer(plain)) if plain[:1].isdigit() else []
    if len(parts) < 2 or ''.join(part[0] for part in parts) != plain:
        return None
    units = [read_unit(rf'\text{{{part[2]}}}') for part in parts]
    if None in units or len({unit.dimension for unit in units if unit}) > 1:
        return None
    factors = [unit.factor for unit in units if unit]
    if not units[0] or not units[0].dimension or factors != sorted(set(factors))[::-1]:
        return None
    values = (Fraction(part[1]) * f for part, f in zip(parts, factors, strict=True))
    return sum(values, Fraction(0)) / factors[-1], Unit(units[0].dimension, factors[-1])


def spell_scale(amount: str) -> str:
    r"""Spells the letter behind an amount of money; other texts stay as they are.

    >>> spell_scale('2.5M'), spell_scale('5 apples')
    ('2.5\\text{ million}', '5 apples')
    """
    match = _SCALED.fullmatch(amount.strip())
    if match is None:
        return amount
    return rf'{match[1]}\text{{ {_SCALE_TEXTS[match[2] or match[3]]}}}'


def letter_of(unit: Unit) -> str | None:
    """Returns the letter that may mean this unit or a variable, such as s, if any."""
    return next((x for x in sorted(UNIT_LETTERS) if _UNITS.get(x) == unit), None)


def _unit_after(value: str, pieces: list[str]) -> Unit | None:
    while pieces and pieces[0].isspace():
        value, pieces = value + pieces[0], pieces[1:]
    if not pieces or pieces[0].startswith(('^', '/', '(', ')', r'\cdot', r'\times')):
        return None
    phrase, first = ''.join(pieces), pieces[0].rstrip('.')
    if first.startswith(r'\text') or first[0] > _LAST_LETTER:
        return read_unit(phrase)
    blank, number = value != value.rstrip(), value.rstrip()[-1]
    if number not in '0123456789)}]%!' or (number == ')' and not blank):
        return None
    if len(first) == 1 and not _LETTER_RATE.match(phrase):
        # A letter is a variable unless a number and a blank precede it.
        if not (blank and number.isdigit() and first in UNIT_LETTERS):
            return None
        if re.search('[A-Za-z-]', ''.join(pieces[1:])):
            return None
    unit = read_unit(phrase, plain=True)
    # Accepts 5 apples, 5cm and 5dollars, but neither 5apples nor 5in.
    listed = first in UNIT_SYMBOLS or (len(first) > 3 and unit and unit.dimension)
    return unit if blank or len(first) == 1 or listed else None


@functools.lru_cache(maxsize=2**12)
def read_unit(phrase: str, *, plain: bool = False) -> Unit | None:
    r"""Reads a phrase as a unit or the name of things; ``None``: it is neither.

    Args:
        phrase: in normal form.
        plain: whether it has no ``\text``, so that short words are products.
    """
    text = re.sub(
        r'\s*\\(?:cdot|times)(?![a-z])\s*|(?<=\})\s*(?=\\text\{)', ' ', phrase
    )
    text = re.sub(r'\\text\{([^{}]*)\}', r'\1', text).replace(r'\%', '%')
    text = re.sub(r'\bper cent\b', 'percent', text)
    # People write ms^{-1} for metres per second, not for milliseconds.
    text = re.sub(r'\bms(?=\s*\^\s*\{?\s*-)', 'm s', text)
    text = re.sub(r'\bpounds? sterling\b', 'sterling', text)
    text = _TO.sub('', text)
    text = re.sub(r'(?<=[A-Za-z])\.|[()]', ' ', text)
    text = ' '.join(text.replace('{', '').replace('}', '').split())
    if not text or len(text) > 60:
        return None
    scale, names = Fraction(1), text.split()
    while names and names[0].lower() in SCALES:
        scale *= SCALES[names.pop(0).lower()]
        # Tens of thousands.
        names = names[1:] if names[:1] == ['of'] else names
    if not names or names == ['times']:
        return Unit('', scale)
    if names[0] == 'of':
        names = names[1:]
    senses = [_SENSES[x.lower()] for x in names if x.lower() in _SENSES]
    unit = _compound(' '.join(x for x in names if x.lower() not in _SENSES))
    if unit is None and _is_name(names, plain=plain):
        unit = Unit('')
    sense = senses[0] if len(senses) == 1 else ''
    return unit and Unit(unit.dimension, unit.factor * scale, sense)


def are_opposite(first: Unit, second: Unit) -> bool:
    """Returns whether words beside two units exclude each other, as west and east."""
    senses = {first.sense, second.sense}
    return len(senses) == 2 and any(senses <= {*words} for words in OPPOSITES)


def _compound(text: str) -> Unit | None:
    """Reads units of the list, their powers, products and quotients."""
    above, *below = (part.strip() for part in re.split(r'/|\bper\b|每', text))
    unit = _product(above) if above else None
    if unit is None:
        return None
    for part in below:
        divisor = _product(part)
        if divisor is None:
            # Percent per year, dollars per book.
            return unit if not unit.dimension.startswith('length') else None
        unit = _times(unit, divisor, -1)
    return unit


def _product(text: str) -> Unit | None:
    """Reads ``cm^2``, ``kg m^-3``."""
    unit = _power(text)
    factors = re.sub(r'\s*\^\s*', '^', text).split()
    if unit or len(factors) < 2:
        return unit
    units = [unit for unit in map(_power, factors) if unit]
    return functools.reduce(_times, units) if len(units) == len(factors) else None


def _times(unit: Unit, other: Unit, power: int = 1) -> Unit:
    """Multiplies a unit by a power of another.

    >>> _times(Unit('length/time'), Unit('time'), -1).dimension
    'length/time^2'
    """
    powers: collections.Counter[str] = collections.Counter()
    for dimension, times in ((unit.dimension, 1), (other.dimension, power)):
        for sign, name, exponent in _FACTOR.findall(dimension):
            powers[name] += int(exponent or 1) * (-times if sign == '/' else times)
    names = sorted(name for name in powers if powers[name])
    above, below = (
        [
            name if abs(powers[name]) == 1 else f'{name}^{abs(powers[name])}'
            for name in names
            if powers[name] * sign > 0
        ]
        for sign in (1, -1)
    )
    # Metres per metre have no dimension, but are not things.
    dimension = '/'.join(['*'.join(above), *below]) if names else 'share'
    return Unit(dimension, unit.factor * other.factor**power)


def _power(text: str) -> Unit | None:
    """Reads ``cm``, ``cm^2``, ``s^-1``, ``square cm``, ``cm squared``."""
    power = 1
    match = re.fullmatch(r'(.*?)\s*(?:\^\s*(-?[1-9])|\s(squared|cubed))', text)
    if match:
        text = match[1]
        power = int(match[2] or {'squared': 2, 'cubed': 3}[match[3]])
    for word, exponent in POWERS.items():
        if text.lower().startswith(word) and text.lower() != word:
            following = text[len(word) :]
            if following[0] == ' ' or word > 'z':
                text, power = following.strip(), exponent
    if text.lower() in ('unit', 'units', '单位'):
        return Unit('')
    unit = _UNITS.get(text) or _UNITS.get(text.lower())
    if unit is None or power == 1:
        return unit
    return _times(Unit(''), unit, power)


def _is_name(words: list[str], *, plain: bool) -> bool:
    """Returns whether words name the things that a number counts."""
    if len(words) > 1 and words[0].lower() == 'more' and words[1] not in _UNITS:
        # Five more apples; not five more than six.
        words = words[1:]
    small = [word.lower() for word in words]
    if not 1 <= len(words) <= 4:
        return False
    if any(word in NO_NAMES or word in SCALES for word in small):
        return False
    if (
        small[-1] in NUMBERS
        or small[-1][-1] == '半'
        or _ROOT.fullmatch(' '.join(small))
    ):
        return False
    if any(any(sign in word for sign in NO_NAMES if sign > 'z') for word in words):
        return False
    if any(re.fullmatch('[B-Zb-z]', word) for word in words[1:]):
        # Percent of x is a product.
        return False
    if not all(
        re.fullmatch(r"[A-Za-z'-]+|[\u4e00-\u9fff]{1,6}", word) for word in words
    ):
        return False
    if not plain or words[0][0] > _LAST_LETTER:
        return any(len(word) > 1 or word[0] > _LAST_LETTER for word in words)
    return words[0] in SHORT_NAMES or (
        len(words[0]) > 3 and words[0].islower() and bool(_VOWEL.search(words[0]))
    )

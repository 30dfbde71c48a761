"""Reads an answer into a form; forms.py has the table.

Readers try a text in normal form one after another; the first that knows its form reads
it. Parts are read in the same way, to a small depth.
"""

import dataclasses
import functools
import re
from collections.abc import Callable

from passk_jax.verifiers.choices import read_option
from passk_jax.verifiers.clock import read_clock
from passk_jax.verifiers.congruences import read_congruence
from passk_jax.verifiers.domains import concerns, split_domain
from passk_jax.verifiers.forms import (
    Based,
    Bracketed,
    Collection,
    Equation,
    Expression,
    Form,
    Inequality,
    Option,
    Quantity,
    Ratio,
    Restricted,
    Several,
    Union,
    Unread,
    Words,
    is_read,
)
from passk_jax.verifiers.matrices import read_matrix
from passk_jax.verifiers.named_values import group_solutions
from passk_jax.verifiers.normal_form import normal_form
from passk_jax.verifiers.number_words import read_number
from passk_jax.verifiers.phrases import date_of, introduction
from passk_jax.verifiers.relations import conjunction, without_points
from passk_jax.verifiers.remarks import deduced, is_unclear, read_remark
from passk_jax.verifiers.scaling import number
from passk_jax.verifiers.splitting import (
    outer_brackets,
    split_commas,
    split_thousands,
    split_top,
)
from passk_jax.verifiers.syntax import parse
from passk_jax.verifiers.systems import read_piecewise
from passk_jax.verifiers.tokens import TooDeepError, UnreadableError
from passk_jax.verifiers.units import (
    DEGREE,
    PERCENT,
    Unit,
    spell_scale,
    split_unit,
    sum_of_units,
)
from passk_jax.verifiers.vocabulary import BASES, NUMBERS, REALS
from passk_jax.verifiers.words import is_word

MOST_CHARACTERS = 512
_MOST_DEPTH = 6
# Therefore, the answer is
_MOST_INTRODUCTIONS = 3

# The set of all real numbers, as an interval.
_LINE = r'(-\infty,\infty)'
_TEXT = re.compile(r'\\text\{([^{}]*)\}')
_WORDS = re.compile(r"[^\W\d_][^\W_]*(?:[ '’-][^\W_]+)*")
_ARTICLE = re.compile(r'^(?:an?|the) (?!only$|alone$)(?=[^\W\d_]{3})')
_BASED = re.compile(
    r'(-?)\(?((?:\\text\{)?[0-9A-Z]*[0-9][0-9A-Z]*\}?|(?:\\text\{)?[A-F]{2,}\}?)\)?'
    r'_(?:\{\s*(?:\\text\{)?\s*([0-9]{1,4}|[a-z]+)\s*\}?\s*\}|([0-9]{1,4}))'
)
_CURRENCY = re.compile(
    r'(-?)\s*(?:\\?\$|(?:\\text\{)?\s*(\$|Rs\.?|USD|EUR|[a-z ]+(?=\}))\s*\}?)'
    r'\s*(?=[0-9.(\\])'
)
_SEMICOLON = re.compile(';')
_PLUS_MINUS, _MINUS_PLUS = (re.compile(rf'\\{x}(?![a-z])') for x in ('pm', 'mp'))
_BY_SIGN = re.compile(r'=|\\equiv(?![a-z])|\\approx|\\sim')
_ORDERS = re.compile(r'<|>|\\le(?![a-z])|\\ge(?![a-z])|\\ne(?![a-z])')
_ORS = re.compile(
    r'\\text\{\s*,?\s*(?:or|and|或|和)\s*\}|\\(?:text|quad)\{,\s*(?:and|or)\s*\}'
    r'|(?<![A-Za-z\\])(?:or|and)(?![A-Za-z])|\\(?:lor|vee|land|wedge)(?![a-z])|;|或|和|且'
)
_MEMBER = re.compile(r'\s*([A-Za-z])\s*\\in(?![a-z])')
_TO = re.compile(r':|\\text\{\s*(?:to|:)\s*\}|(?<=[\s\d])to(?=[\s\d])')


def read(text: str, depth: int = 0) -> Form:
    """Reads an answer in any spelling, in linear time."""
    return read_normal(normal_form(text), depth)


@functools.lru_cache(maxsize=2**14)
def read_normal(text: str, depth: int = 0) -> Form:
    """Reads a text in normal form."""
    if len(text) > MOST_CHARACTERS or depth > _MOST_DEPTH:
        return Unread(text, deep=depth > _MOST_DEPTH)
    if not re.search('matrix|array|cases', text):
        text = text.replace('&', ' ').strip()
    text = re.sub(
        r'^\\(?:approx|sim|therefore|Rightarrow|implies)(?![a-z])\s*', '', text
    )
    for _ in range(_MOST_INTRODUCTIONS):
        if match := introduction(text):
            text = normal_form((match[1] or '') + text[match.end() :]) or text
    for reader in _READERS:
        if form := reader(text, depth + 1):
            return form
    return _expression(text)


def read_as_list(form: Form) -> Several | None:
    """Reads a number with commas as a list; ``None`` for other forms."""
    unit = form.unit if isinstance(form, Quantity) else None
    number = form.value if isinstance(form, Quantity) else form
    if not isinstance(number, Expression):
        return None
    items = [read(part) for part in split_thousands(number.source)]
    if not items:
        return None
    last = items[-1] if unit is None else Quantity(items[-1], unit)
    return Several((*items[:-1], last))


def _clock(text: str, depth: int) -> Form | None:
    return read_clock(text)


def _date(text: str, depth: int) -> Form | None:
    date = date_of(text)
    return Words(date) if date else None


def _congruence(text: str, depth: int) -> Form | None:
    return read_congruence(text, functools.partial(read, depth=depth))


def _option(text: str, depth: int) -> Form | None:
    return read_option(text)


def _words(text: str, depth: int) -> Form | None:
    if text in (r'\emptyset', r'\{ \}', r'\{\}'):
        return Collection(())
    if text == r'\mathbb{R}':
        return read_normal(_LINE)
    match = _TEXT.fullmatch(text)
    bare = normal_form(match[1]) if match else text.rstrip('!?')
    value = read_number(bare)
    if value is not None and (match or len(bare) > 2):
        return _expression(str(value))
    if not match and (_is_list(text) or re.search('[0-9]', text)):
        return None
    if match and not re.fullmatch(r'[A-Za-z]', bare) and _is_list(bare):
        return read_normal(bare, depth)
    if (
        match
        and re.search('[0-9=]', bare)
        and is_read(form := read_normal(bare, depth))
    ):
        return form
    if not _WORDS.fullmatch(bare):
        # October 30, and texts with other signs.
        return _as_words(bare) if match and len(bare) > 1 else None
    if match and (len(bare) > 1 or not bare.isascii()):
        return _as_words(bare)
    return _as_words(bare) if not match and is_word(bare) else None


def _is_list(text: str) -> bool:
    return ',' in text or bool(re.search(r'\b(?:and|or)\b', text))


def _as_words(text: str) -> Form:
    text = text.casefold().replace('’', "'")
    text = ' '.join(re.sub(r'[.,;:!?"]', ' ', text).split())
    return read_normal(_LINE) if text in REALS else Words(_ARTICLE.sub('', text))


def _environment(text: str, depth: int) -> Form | None:
    part = functools.partial(read, depth=depth)
    return read_matrix(text, part) or read_piecewise(text, part)


def _remark(text: str, depth: int) -> Form | None:
    return read_remark(text, functools.partial(read, depth=depth))


def _restricted(text: str, depth: int) -> Form | None:
    if remark := split_domain(text):
        form = read(remark[0], depth)
        return Restricted(form, *remark[1:]) if concerns(remark[1], form) else None
    return None


def _brackets(text: str, depth: int) -> Form | None:
    """Reads a set, a tuple, an interval, or an answer in brackets."""
    outer = outer_brackets(text)
    if outer is None:
        return None
    opening, content, closing = outer
    if opening == r'\{':
        return _collection(content, depth)
    parts = split_top(content, _SEMICOLON)[0]
    if len(parts) < 2 or '' in parts:
        parts = split_commas(content, bracketed=True)
    if len(parts) > 1 and (points := _several_signs(text, depth)):
        return points
    if len(parts) > 1:
        rows = [outer_brackets(part.strip()) for part in parts]
        if all(row and row[::2] == ('[', ']') for row in [outer, *rows]):
            # In a list of lists, [1] is a row.
            contents = [split_commas(row[1], bracketed=True) for row in rows if row]
            lists = [Bracketed('[', _items(row, depth), ']') for row in contents]
            return Bracketed('[', tuple(lists), ']')
        if opening == ']' or closing == '[':
            # French: ]1,2[ is (1,2).
            opening = {']': '(', '[': '['}.get(opening, opening)
            closing = {'[': ')', ']': ']'}.get(closing, closing)
        return Bracketed(opening, _items(parts, depth), closing)
    if opening + closing in ('()', '[]'):
        while (inner := outer_brackets(content)) and inner[0] + inner[2] == '()':
            if len(split_commas(inner[1], bracketed=True)) > 1:
                break
            content = inner[1]
        return read(content, depth)
    return None


def _collection(content: str, depth: int) -> Form:
    head, bar, condition = content.partition('|')
    if not bar:
        head, bar, condition = content.partition(':')
    if bar and re.fullmatch(
        r'\s*(?:[a-zA-Z]|\\[a-z]+)\s*(?:\\in\s*\\mathbb\{R\}\s*)?', head
    ):
        return read(condition, depth)
    return Collection(_items(split_commas(content, bracketed=True), depth))


def _items(parts: list[str], depth: int) -> tuple[Form, ...]:
    forms: list[Form] = []
    for part in parts:
        form = read(part, depth)
        forms += form.items if isinstance(form, Several) else [form]
    return tuple(forms)


def _several(text: str, depth: int) -> Form | None:
    pieces, signs = split_top(text, _ORS)
    parts = [part for piece in pieces for part in split_commas(piece)]
    parts = [part for part in parts if part.strip()]
    if len(parts) < 2:
        return None
    items = _items(parts, depth)
    words = ''.join(signs)
    has_or = re.search('or|vee|或', words)
    if (has_or or ';' in words) and (solutions := group_solutions(items)):
        return solutions
    letters = [match[1] for match in map(_MEMBER.match, parts) if match]
    joint = 'and' if re.search('and|wedge|[和且]', words) else ''
    if not has_or:
        if joint and len(letters) > len(set(letters)):
            # In two sets at once.
            return _as_words(text)
        return conjunction(items) or without_points(items) or Several(items, joint)
    # A or C is neither AC nor both.
    options = all(isinstance(item, Option) for item in items)
    return _as_words(text) if options else Several(items, joint or 'or')


def _several_signs(text: str, depth: int) -> Form | None:
    r"""Reads both values of an answer with ``\pm``."""
    if not (_PLUS_MINUS.search(text) or _MINUS_PLUS.search(text)):
        return None
    values = [
        _MINUS_PLUS.sub(minus, _PLUS_MINUS.sub(plus, text))
        for plus, minus in ('+-', '-+')
    ]
    return Several(tuple(read(value, depth) for value in values))


def _union(text: str, depth: int) -> Form | None:
    parts, signs = split_top(text, re.compile(r'\\cup(?![a-z])'))
    if not signs or split_top(text, _BY_SIGN)[1]:
        return None
    items = _items(parts, depth)
    # The union of {1} and {2} is {1, 2}.
    sets = [item.items for item in items if isinstance(item, Collection)]
    return Collection(sum(sets, ())) if len(sets) == len(items) else Union(items)


def _member(text: str, depth: int) -> Form | None:
    match = re.fullmatch(r'\(?[A-Za-z](?:,\s*[A-Za-z])*\)?\s*\\in(?![a-z])(.*)', text)
    # Braces without a backslash: {x | x > 1}.
    match = match or re.fullmatch(r'(?=([A-Za-z]))\1\s*\|\s*(?=[^|]*\1)([^|=]*)', text)
    return read(match[match.lastindex or 1], depth) if match else None


def _relation(text: str, depth: int) -> Form | None:
    if form := deduced(text, functools.partial(read, depth=depth)):
        return form
    for pattern, kind in ((_ORDERS, Inequality), (_BY_SIGN, Equation)):
        parts, signs = split_top(text, pattern)
        if signs:
            if not all(part.strip() for part in parts):
                return Unread(text)
            parts = [normal_form(part) for part in parts]
            items = tuple(read_normal(part, depth) for part in parts)
            if any(map(is_unclear, parts[:-1], items)):
                return _as_words(text)
            return kind(text, items, tuple(signs))
    return None


def _ratio(text: str, depth: int) -> Form | None:
    parts, signs = split_top(text, _TO)
    if signs and all(part.strip() for part in parts):
        return Ratio(_items(parts, depth))
    return None


def _based(text: str, depth: int) -> Form | None:
    match = _BASED.fullmatch(text)
    if not match:
        return None
    base = match[3] or match[4]
    base = int(BASES.get(base, NUMBERS.get(base, base if base.isdigit() else 0)))
    digits = (_TEXT.sub(r'\1', match[2])).replace('}', '').lstrip('0') or '0'
    if base == 10 and digits.isdigit():
        return read_normal(f'{match[1]}{digits}', depth)
    return Based(match[1] + digits, base) if base else None


def _sum_of_units(text: str, depth: int) -> Form | None:
    total = sum_of_units(text)
    return Quantity(number(total[0]), total[1]) if total else None


def _quantity(text: str, depth: int) -> Form | None:
    if match := _CURRENCY.match(text):
        name = (match[2] or '$').strip().rstrip('.').lower()
        unit = split_unit(rf'1\text{{{_SIGNS_OF_MONEY.get(name, name)}}}')
        if unit and '/' not in unit[1].dimension and unit[1].dimension:
            inner = read(match[1] + spell_scale(text[match.end() :]), depth)
            value = inner.value if isinstance(inner, Quantity) else inner
            scale = inner.unit.factor if isinstance(inner, Quantity) else 1
            if isinstance(inner, Quantity) and inner.unit.dimension:
                scale = 1
            sense = inner.unit.sense if isinstance(inner, Quantity) else ''
            factor = unit[1].factor * scale
            return Quantity(value, Unit(unit[1].dimension, factor, sense))
    for pattern, unit_name in _MARKS:
        if match := pattern.fullmatch(text):
            value = read(match[1], depth)
            return Quantity(value, Unit(unit_name(match)))
    if parts := split_unit(text):
        value, unit = read(parts[0], depth), parts[1]
        if not isinstance(value, Quantity):
            return Quantity(value, unit)
        # 5 \% per year, 5 million dollars
        if value.unit.dimension:
            sensed = dataclasses.replace(value.unit, sense=unit.sense)
            return Quantity(value.value, sensed)
        scaled = Unit(unit.dimension, value.unit.factor * unit.factor, unit.sense)
        return Quantity(value.value, scaled)
    return None


_SIGNS_OF_MONEY = {'$': 'dollars', 'pounds sterling': 'sterling'}
_MARKS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r'(.*[0-9)}\].])\s*\\%', re.DOTALL), lambda match: PERCENT),
    (
        re.compile(
            r'((?!.*(?<![a-z])(?:sin|cos|tan|cot|sec|csc)).*[^\s])\s*\^\s*\{?\s*\\circ\s*\}?\s*(?:\\text\{\s*)?([CF])?\s*\}?',
            re.DOTALL,
        ),
        lambda match: {'C': 'celsius', 'F': 'fahrenheit'}.get(match[2], DEGREE),
    ),
)

_READERS: tuple[Callable[[str, int], Form | None], ...] = (
    _clock, _date, _option, _words, _environment, _restricted, _remark, _congruence,
    _brackets, _sum_of_units, _several, _several_signs, _union, _member, _relation,
    _ratio, _based, _quantity,
)  # fmt: skip


def _expression(text: str) -> Form:
    try:
        return Expression(text, parse(text))
    except TooDeepError:
        return Unread(text, deep=True)
    except UnreadableError:
        return Expression(text, None)

"""Splits a text in normal form at signs outside of all brackets."""

import re

_BRACKET = re.compile(
    r'\\[{}]|\\(?:begin|end|lfloor|rfloor|lceil|rceil|langle|rangle)'
    r'(?![a-z])|\\.|[(){}\[\]]',
    re.DOTALL,
)
_OPENING = frozenset(
    ('(', '[', '{', r'\{', r'\begin', r'\lfloor', r'\lceil', r'\langle')
)
_CLOSING = frozenset((')', ']', '}', r'\}', r'\end', r'\rfloor', r'\rceil', r'\rangle'))
_THOUSANDS = re.compile(
    # Not 0,100.
    r'[-+]?\s*(?:\\?\$)?\s*[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9])'
)
# One behind an equals sign, a currency or words: x=1,234.
_GROUPED = re.compile(
    r'(?:=|\\approx(?![a-z])|\\\$|\\text\{[^{}]*\}|[A-Za-z]\.? )\s*[-+]?\s*'
    r'(?:\\?\$)?\s*[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9]|,[0-9])'
)
_COMMA = re.compile(',')
_HIDDEN = '\0'
_WIDE_COMMA = re.compile(r',(?=\s)')


def depths(text: str) -> list[int]:
    """Counts the open brackets of any kind at each character."""
    levels, depth, position = [], 0, 0
    for match in _BRACKET.finditer(text):
        levels += [depth] * (match.start() - position)
        depth -= match[0] in _CLOSING
        levels += [depth + (match[0] in _CLOSING)] * len(match[0])
        depth += match[0] in _OPENING
        position = match.end()
    return levels + [depth] * (len(text) - position)


def split_top(text: str, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Returns the parts between matches outside of brackets, and these matches."""
    matches = list(pattern.finditer(text))
    if not matches:
        return [text], []
    levels = depths(text)
    parts, signs, start = [], [], 0
    for match in matches:
        # A match may itself have braces: \text{ or }.
        if levels[match.start()] == 0:
            parts.append(text[start : match.start()])
            signs.append(match[0])
            start = match.end()
    return [*parts, text[start:]], signs


def split_commas(text: str, *, bracketed: bool = False) -> list[str]:
    """Splits a list at its commas, except those inside a number such as ``1,500``.

    If blanks follow other commas, only these separate. Otherwise the number must be the
    whole text, and in brackets have a zero after a comma; or follow an equals sign, a
    currency or words.

    >>> split_commas('1,500'), split_commas('1,500', bracketed=True)
    (['1,500'], ['1', '500'])
    >>> split_commas('x=1,500,y=2'), split_commas('x=1,2')
    (['x=1,500', 'y=2'], ['x=1', '2'])
    """
    if ',' not in text:
        return [text]
    if _WIDE_COMMA.search(text) and _THOUSANDS.search(text):
        return split_top(text, _WIDE_COMMA)[0]
    match = _THOUSANDS.match(text.strip())
    whole_number = match and not re.search(r',', text.strip()[match.end() :])
    if whole_number and (not bracketed or ',0' in text):
        return [text]
    if not bracketed and _GROUPED.search(text):
        hidden = _GROUPED.sub(lambda match: match[0].replace(',', _HIDDEN), text)
        return [x.replace(_HIDDEN, ',') for x in split_top(hidden, _COMMA)[0]]
    return split_top(text, _COMMA)[0]


def split_thousands(text: str) -> list[str]:
    """Splits a number such as ``30,150`` at its commas, as if it were a list.

    Returns ``[]`` for other texts, and for ``1,050``, where 050 is no item.

    >>> split_thousands('30,150'), split_thousands('1,050'), split_thousands('150')
    (['30', '150'], [], [])
    """
    if not _THOUSANDS.fullmatch(text.strip()) or ',0' in text:
        return []
    return text.split(',')


def outer_brackets(text: str) -> tuple[str, str, str] | None:
    r"""Returns the opening bracket, the content and the closing bracket of a text.

    Round and square brackets may close each other; ``\{`` needs ``\}``. Returns
    ``None`` if the text is not in brackets.
    """
    opening = next(
        (sign for sign in (r'\{', '(', '[', ']') if text.startswith(sign)), ''
    )
    closing = next((sign for sign in (r'\}', ')', ']', '[') if text.endswith(sign)), '')
    if not opening or not closing or len(text) < len(opening + closing):
        return None
    if (opening == r'\{') != (closing == r'\}'):
        return None
    content = text[len(opening) : len(text) - len(closing)]
    # The content must neither close the opening bracket nor leave one open.
    return None if _unbalanced(content) else (opening, content, closing)


def _unbalanced(content: str) -> bool:
    depth = 0
    for match in _BRACKET.finditer(content):
        depth += (match[0] in _OPENING) - (match[0] in _CLOSING)
        if depth < 0:
            return True
    return depth != 0

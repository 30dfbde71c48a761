r"""Rewrites usual spellings of a puzzle's answer in the documented format.

Strict verdicts accept them where no other reading is possible; official verdicts do
not. Every function but :func:`bare` returns the documented format, which :mod:`answers`
parses, or raises :class:`Wrong` for a text in no spelling that it knows. All take time
that is linear in the length of the text.

All accept signs of other scripts (full-width digits, brackets and commas, ``−``,
``“ ”``), invisible blanks, a fence or a ``\boxed{...}`` or ``**`` around the answer, a
name before it (``Answer:``, ``grid =``) and a full stop after it.
"""

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from passk_jax.verifiers import answers, expressions
from passk_jax.verifiers.answers import Wrong

SIGNS: dict[int, str] = {
    # Full-width forms of ASCII.
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, '\u00a0\u2002\u2003\u2009\u200a\u202f\u3000'), ' '),
    **dict.fromkeys(map(ord, '\ufeff\u200b\u200c\u200d\u2060\ufe0e\ufe0f\u00ad'), ''),
    **dict.fromkeys(map(ord, '−–—‐‑‒﹣'), '-'),
    **dict.fromkeys(map(ord, '“”„«»'), '"'),
    **dict.fromkeys(map(ord, '‘’‚'), "'"),
    **{ord('。'): '.', ord('、'): ',', ord('【'): '[', ord('】'): ']'},
    **{ord('〈'): '(', ord('〉'): ')', ord('\r'): ''},
}
"""Signs of other scripts -> those of ASCII, for ``str.translate``."""

# Marks that may surround a whole answer.
_AROUND = [
    re.compile(form, re.DOTALL)
    for form in (
        r'```[^\n`]*\n(.*)```',
        r'`([^`]*)`',
        r'\$\$?([^$]*)\$\$?',
        r'\\\[(.*)\\\]',
        r'\\\((.*)\\\)',
        r'\\(?:boxed|text|mathrm|mathbf|texttt)\s*\{([^{}]*)\}',
        r'\\boxed\s*\{(.*)\}',
        r'\*\*(.*)\*\*',
        r'\{\s*"\w+"\s*:\s*([^:]*)\}',
        r'(?:set|list|tuple|(?:np\.)?array)\((.*)\)',
        r'<(?:answer|begin_board)>(.*)<(?:/answer|end_board)>',
    )
]
# ``Answer:``, ``So the path is``, ``Mines (row, column):``, ``grid =``, ``f(x) =``.
_NAME = re.compile(
    r'(?:(?:so|thus|therefore|hence),?\s+)?(?:the\s+)?(?:[a-z][a-z_ ]{0,40}?'
    r'(?:\s+(?:is|are)\s*:?\s+|\s*=\s*(?=[\[({"\']))|[a-z][a-z_ (),]{0,60}?\s*:\s*'
    r'|\w\(\w?\)\s*=\s*)',
    re.IGNORECASE,
)
# Marks and words, besides commas, that may join the parts of a list.
_JOINT = re.compile(
    r'-*->|=+>|[→⟶➔➜➡⇒⟹↦|]|(?<=\s)>(?=\s)|\\(?:to|(?:long)?rightarrow)\b'
    r'|\b(?:and\s+)?then\b|\band\b',
    re.IGNORECASE,
)
_BULLET = re.compile(r'^[ \t]*(?:[-*•+]|[0-9]{1,3}[.)])[ \t]+', re.MULTILINE)
_INTEGER = re.compile(r'[+-]?[0-9]{1,9}')
_QUOTES = str.maketrans('', '', '"\'`')


def bare(text: str, *, stop: bool = True, label: bool = True) -> str:
    """Removes what may surround an answer, and converts its signs to ASCII.

    Args:
        text: the answer.
        stop: whether to remove a full stop or a comma at the end.
        label: whether to remove the name of an answer before it.
    """
    text = text.translate(SIGNS).strip()
    text = text.replace('\\{', '{').replace('\\}', '}')
    for _ in range(6):
        before = text
        if stop:
            text = text.rstrip('.,; \t\n')
        if label and (name := _NAME.match(text)):
            text = text[name.end() :].lstrip()
        for form in _AROUND:
            if match := form.fullmatch(text):
                text = match[1].strip()
        if text == before:
            break
    return text


def claims(text: str, claim: str) -> bool:
    """Returns whether an answer is this sentence; see :func:`answers.claims`."""
    return any(
        answers.claims(bare(text, label=label).rstrip('!'), claim)
        for label in (False, True)
    )


def _inside(text: str) -> str:
    """Removes the brackets around a whole list."""
    match = re.fullmatch(r'\[(.*)\]|\((.*)\)|\{(.*)\}', text, re.DOTALL)
    return next(part for part in match.groups() if part is not None) if match else text


def word(text: str, choices: Iterable[str]) -> str:
    """Returns the choice that equals the answer, in any case, quoted or not.

    >>> word('**true.**', ['True', 'False'])
    'True'
    """
    plain = bare(text).strip('"\'()[]*_.! ').lower()
    for choice in choices:
        if plain == choice.lower():
            return choice
    raise Wrong('none of the choices')


def letters(text: str) -> str:
    """Joins letters separated by blanks, commas, arrows, quotes or a list; in capitals.

    >>> letters('A -> b, ["C"]')
    'ABC'
    """
    joined = re.sub(r'[\s,;\[\]()>"\'./_|-]', '', _JOINT.sub('', bare(text))).upper()
    if not re.fullmatch('[A-Z]+', joined):
        raise Wrong('no letters alone')
    return joined


def integers(text: str, *, joined: bool = False) -> str:
    """Rewrites a list of integers, with or without brackets, commas or blanks.

    Args:
        text: the answer.
        joined: whether arrows or dashes may join them too.

    >>> integers('2, 0; 1.'), integers('0 → 2-1', joined=True)
    ('[2, 0, 1]', '[0, 2, 1]')
    """
    text = _inside(bare(text))
    if joined:
        text = re.sub(r'(?<=[0-9]) ?- ?(?=[0-9])', ',', _JOINT.sub(',', text))
    parts = re.split(
        r'\s*[,;]\s*|\s+', text.translate(_QUOTES).strip().removesuffix(',')
    )
    if parts == ['']:
        return '[]'
    if not all(_INTEGER.fullmatch(part) for part in parts):
        raise Wrong('not integers alone')
    return str([int(part) for part in parts])


_PLACE = re.compile(
    r'[\[({]?\br(?:ow)?[\s=:]*([0-9]{1,9})[\s,;:]*c(?:ol(?:umn)?)?[\s=:]*'
    r'([0-9]{1,9})[\])}]?',
    re.IGNORECASE,
)
_TWO = r'\s*([+-]?[0-9]{1,9})[\s,;]+([+-]?[0-9]{1,9})'
_PAIR = re.compile(rf'[\[({{]{_TWO}\s*[\])}}]')
_LINE = re.compile(rf'{_TWO}[\s,;.]*')


def pairs(text: str) -> list[tuple[int, int]]:
    r"""Reads pairs of integers: listed or not, in any brackets, in lines, with arrows.

    >>> pairs('[[1, 2], [3, 4]]') == pairs('(1,2) → (3,4)') == pairs('1 2\n3 4')
    True
    """
    text = _BULLET.sub('', bare(text)).translate(_QUOTES)
    if text in ('[]', '()', '{}'):
        return []
    lines = [line for line in text.split('\n') if not is_rule(line)]
    text = _PLACE.sub(r'(\1, \2)', _JOINT.sub(',', '\n'.join(lines)))
    matches = list(_PAIR.finditer(text))
    if not matches:
        lines = [line.strip(' ,') for line in text.split('\n')]
        # The first line may name the columns.
        lines = lines[bool(re.fullmatch('[A-Za-z ,]+', lines[0])) :]
        matches = [match for line in lines if (match := _LINE.fullmatch(line))]
        if not matches or len(matches) != len(lines):
            raise Wrong('no pairs')
    elif not re.fullmatch(r'[\[({][\s,;]*[\])}]|[\s,;]*', _PAIR.sub('', text)):
        raise Wrong('more than pairs')
    return [(int(match[1]), int(match[2])) for match in matches]


def items(text: str, item: re.Pattern[str], write: Callable[[re.Match], str]) -> str:
    """Rewrites a list of texts: without quotes, one a line, with arrows, in any case.

    Args:
        text: the answer.
        item: matches a text of the list.
        write: returns its documented form.
    """
    text = _inside(_JOINT.sub(',', _BULLET.sub('', bare(text))))
    text = text.translate(_QUOTES).replace('**', '')
    matches = list(item.finditer(text))
    if not matches or re.search(r'[^\s,;]', item.sub('', text)):
        raise Wrong('no such items alone')
    return '[' + ', '.join(f'"{write(match)}"' for match in matches) + ']'


_WORDS = {'up': 'U', 'down': 'D', 'left': 'L', 'right': 'R'}
_ARROWS = str.maketrans('↑⬆↓⬇←⬅→➡', 'UUDDLLRR')


def moves(text: str) -> str:
    """Reads moves: letters in any case, words or arrows, separated or in a list.

    >>> moves('Left, up → R'), moves('← ↑ →')
    ('LUR', 'LUR')
    """
    text = re.sub(r'\b[0-9]{1,3}[.)]|\bmove\b', ' ', bare(text), flags=re.IGNORECASE)
    text = _BULLET.sub('', text)
    if re.fullmatch(r'[↑⬆↓⬇←⬅→➡\s,;]+', text):
        text = text.translate(_ARROWS)
    text = re.sub(
        r'\b(?:up|down|left|right)\b',
        lambda match: _WORDS[match[0].lower()],
        _JOINT.sub(',', text),
        flags=re.IGNORECASE,
    )
    joined = re.sub(r'[\s,;"\'\[\]()-]', '', text).upper()
    if not re.fullmatch('[UDLR]+', joined):
        raise Wrong('no moves alone')
    return joined


# Operators in Unicode and LaTeX.
_OPERATORS = [
    (re.compile(r'\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}'), r'((\1)/(\2))'),
    (re.compile(r'\\(?:left|right|[,;! ])'), ''),
    (re.compile(r'\\(?:times|cdot|ast)|[×✕✖⋅·∙•∗]'), '*'),
    (re.compile(r'\\div|[÷∕⁄]|(?<=[0-9)]) ?: ?(?=[0-9(])'), '/'),
    (re.compile(r'(?<=[0-9)\]])\s*[xXхХ]\s*(?=[0-9(\[])'), '*'),
]
_BRACKETS = str.maketrans('[]{}', '()()')


def operators(text: str) -> str:
    """Replaces operators of Unicode and LaTeX by ``+ - * /``."""
    for form, sign in _OPERATORS:
        text = form.sub(sign, text)
    return text


def expression(text: str, target: int) -> str:
    r"""Rewrites an expression: with ``= 24``, ``× ÷ · x``, LaTeX or any brackets.

    If nothing is divided, a multiplication sign beside a parenthesis may be missing. In
    a chain of equal expressions, the first is the answer.

    >>> expression(r'8 \div 2 × [8 − 2] = 24', 24)
    '8 / 2 * (8 - 2)'
    """
    text = bare(text, label=False)
    if name := re.match(r'[A-Za-z ]{1,40}(?::|\bis\b|=)', text):
        text = bare(text[name.end() :], label=False)
    text = re.sub('==|→|->', '=', text.strip('"✓✔✅ '))
    text = operators(text).translate(_BRACKETS)
    if '/' not in text:
        text = re.sub(r'(?<=[0-9)]) *(?=\()|(?<=\)) *(?=[0-9])', '*', text)
    parts = [part.strip() for part in text.split('=')]
    sides = [part for part in parts if part != str(target)] or parts
    for part in sides:
        if expressions.evaluate(part).result != Fraction(target) and parts[1:]:
            raise Wrong('not equal to the target')
    return re.sub(r' ?([-+*/]) ?', r' \1 ', ' '.join(sides[0].split()))


_RULE = re.compile(r'[\s|+\-=:.─━═│┃║┼╋╬├┤┬┴┌┐└┘╔╗╚╝╠╣╦╩╟╢╪╫╤╧]+')
_DRAWN = re.compile(r'--|\+|==|:-|[─━═┼╋╬├┤┬┴┌┐└┘╔╗╚╝╠╣╦╩╟╢╪╫╤╧]')
_ROW_NAME = re.compile(
    r'(?:(?:row|line|r)\s*[0-9]{1,2}\s*[:.)=]|[0-9]{1,2}[:.)](?=\s)|[-*•](?=\s*\[))\s*',
    re.IGNORECASE,
)
# A line that is only a heading, quotes or a full stop.
_NO_ROW = re.compile(r'[A-Za-z ]+:|["\']*|\.')
# ``grid =``, ``{"grid":`` and ``np.array(`` before a list.
_ASSIGNED = re.compile(
    r'^(?:\{\s*"\w+":|\w+\s*[=:])?\s*(?:(?:np\.)?array\()?(?=[\[({])', re.IGNORECASE
)
_LATEX = re.compile(r'\\(?:begin|end)\{\w+\}(?:\{[lcr|]*\})?|\\hline')
_INNER = re.compile(r'[\[({]([^\[\](){}]*)[\])}]')
_QUOTED = re.compile(r'"([^"]*)"|\'([^\']*)\'')


def table_rows(text: str) -> list[str]:
    """Returns the rows of a grid as text, without brackets, rules and names of rows.

    Rows are lines, lists in a list, one list a line, or quoted texts in a list, or end
    with ``;`` or, in LaTeX, with two backslashes.
    """
    text = _LATEX.sub('', bare(text, stop=False, label=False))
    text = re.sub(r'\\\\\n?|<br ?/?>', '\n', text)
    lines = [
        line[name.end() :] if (name := _ROW_NAME.match(line)) else line
        for line in map(str.strip, text.split('\n'))
    ]
    if any(bracket in text for bracket in '[({'):
        return _listed_rows('\n'.join(lines))
    if len(lines) == 1:
        lines = [row.strip() for row in lines[0].split(';')]
    return [row for row in lines if not (is_rule(row) or _NO_ROW.fullmatch(row))]


def _listed_rows(text: str) -> list[str]:
    """Returns the innermost lists of a list of lists, or of one list a line."""
    name = _ASSIGNED.match(text)
    text = text[name.end() :] if name else text
    around = ''.join(_INNER.sub('', text).split()).rstrip('.')
    opened = len(re.findall('[({]', name[0])) if name else 0
    shape = re.fullmatch(r'([\[({]?)[,;]*([\])}]*)', around)
    if not shape or len(shape[2]) != len(shape[1]) + opened:
        raise Wrong('more than rows')
    rows = _INNER.findall(text)
    quoted = [a or b for a, b in _QUOTED.findall(rows[0])] if rows else []
    if len(rows) == 1 and min(map(len, quoted), default=0) > 1:
        rows = quoted
    return rows


def is_rule(row: str) -> bool:
    """Returns whether a line of a table only separates other lines.

    >>> is_rule('|---|:-:|'), is_rule('- - -')
    (True, False)
    """
    return bool(_RULE.fullmatch(row) and _DRAWN.search(row))


def cell_rows(text: str, *, around: str) -> list[list[str]]:
    """Splits a grid into cells, at blanks, commas or bars, or between all signs.

    Args:
        text: the answer.
        around: signs that may surround a cell.
    """
    rows = []
    for row in table_rows(text):
        # The head of a table may be empty.
        if row := row.strip(' \t\n,;|&│┃║'):
            cells = re.split(r'[\s,;|&│┃║]+', row)
            rows.append([cell.strip(around) for cell in cells])
    # In a list without quotes, 12 is one cell.
    listed = re.search(r'[\[({]', text) and not re.search('["\']', text)
    if not listed and all(len(row) == 1 for row in rows):
        rows = [list(row[0]) for row in rows]
    return rows


def integer_grid(text: str, *, cell: re.Pattern[str] = _INTEGER) -> str:
    r"""Rewrites a grid of integers: with blanks, commas or bars, in lists or a table.

    Digits need no separator, and rules or bars may separate boxes.

    >>> integer_grid('| 1 | 2 |\n|---|---|\n| 3 | 4 |') == integer_grid('12\n34')
    True
    """
    rows = cell_rows(text, around='"\'`*_.')
    if not rows or not all(cell.fullmatch(number) for row in rows for number in row):
        raise Wrong('not integers alone')
    return '\n'.join(' '.join(str(int(number)) for number in row) for row in rows)


_SYMBOLS: dict[str, str] = {
    **dict.fromkeys('★☆⭐✱✶🌟⛺🏕', '*'),
    **dict.fromkeys('x■█⬛🌲🌳', 'X'),
    **dict.fromkeys('·_□☐⬜', '.'),
}


def board(text: str) -> str:
    """Rewrites a board of ``.``, ``X`` and ``*``, in the spellings of a grid.

    ``x``, ``★``, ``·`` and similar signs stand for them.
    """
    rows = cell_rows(text.replace('\\*', '*'), around='"\'`')
    cells = [[_SYMBOLS.get(cell, cell) for cell in row] for row in rows]
    if not cells or not all(cell in ('.', 'X', '*') for row in cells for cell in row):
        raise Wrong('no board alone')
    return '\n'.join(map(' '.join, cells))

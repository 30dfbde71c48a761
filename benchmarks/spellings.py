r"""Rewritings of an answer that change its spelling but not its value.

Each takes a gold in LaTeX and returns another spelling, or ``None`` where it has
nothing to rewrite. None of them uses the verifier's code.
"""

import re
from collections.abc import Callable

Rewriting = Callable[[str], str | None]

_INTEGER = re.compile(r'-?[0-9]+')
_LONG = re.compile(r'(?<![0-9.,_!])([1-9][0-9]{3,})(?![0-9.,!])')
_FRACTION = re.compile(r'\\frac\{([^{}]+)\}\{([^{}]+)\}')
_NUMBER = re.compile(r'-?[0-9]*\.?[0-9]+|-?\\[dt]?frac\{[0-9]+\}\{[0-9]+\}')
# No list, relation, text, unit, set or matrix.
_PLAIN = re.compile(r'[^,=<>&:%;$_|]*')
_NO_FORMULA = re.compile(
    r'\\(?:text|mbox|begin|le|ge|in|cup|circ|pm|approx|%|\$|\{)|[A-Z]{2}|^[A-Z]$|None'
)


def _changed(text: str, other: str) -> str | None:
    return other if other != text else None


def _formula(gold: str) -> bool:
    """Returns whether a gold is a number or a formula with nothing around it."""
    text = gold.strip()
    return bool(_PLAIN.fullmatch(text)) and not _NO_FORMULA.search(text)


def _replacing(*pairs: tuple[str, str]) -> Rewriting:
    def rewrite(gold: str) -> str | None:
        text = gold
        for old, new in pairs:
            text = re.sub(old, new, text)
        return _changed(gold, text)

    return rewrite


def _around(before: str, after: str, *, formulas: bool = False) -> Rewriting:
    def rewrite(gold: str) -> str | None:
        if after in '.。,' and after and gold.rstrip()[-1:] in '.,':
            return None
        return f'{before}{gold}{after}' if not formulas or _formula(gold) else None

    return rewrite


def _add_name(gold: str) -> str | None:
    """Writes ``x =`` before a formula, or a letter that it does not contain."""
    letters = re.sub(r'\\[a-zA-Z]+', '', gold)
    names = (name for name in 'xyztw' if name not in letters)
    return f'{next(names, "f(x)")} = {gold}' if _formula(gold) else None


def _grouped(separator: str) -> Rewriting:
    """Separates the thousands of an answer that is an integer."""

    def rewrite(gold: str) -> str | None:
        text = gold.strip()
        if not re.fullmatch(r'-?[1-9][0-9]{3,}', text):
            return None
        return f'{int(text):,}'.replace(',', separator)

    return rewrite


def _decimal(gold: str) -> str | None:
    """Writes a fraction as its finite decimal, of at most six places."""
    match = re.fullmatch(r'(-?)\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}', gold.strip())
    if not match or 10**6 * int(match[2]) % int(match[3]):
        return None
    digits = f'{int(match[2]) / int(match[3]):.6f}'.rstrip('0').rstrip('.')
    return match[1] + digits


def _point_zero(gold: str) -> str | None:
    return f'{gold.strip()}.0' if _INTEGER.fullmatch(gold.strip()) else None


def _as_code(gold: str) -> str | None:
    """Writes a formula as in a programming language."""
    if not _formula(gold) or re.search(r'\\(?!frac|sqrt|pi|cdot)[a-zA-Z]', gold):
        return None
    if (
        r'\sqrt[' in gold
        or re.search(r'[0-9]\s*\\frac', gold)
        or re.search(r'\\(?:frac|sqrt)\s*[^{\s]', gold)
    ):
        return None
    text = gold
    for _ in range(4):
        text = re.sub(r'\\frac\{([^{}]+)\}\{([^{}]+)\}', r'((\1)/(\2))', text)
        text = re.sub(r'\\sqrt\{([^{}]+)\}', r' sqrt(\1) ', text)
        text = re.sub(r'\^\{([^{}]+)\}', r'**(\1)', text)
    text = text.replace(r'\cdot', '*').replace(r'\pi', ' pi ')
    return _changed(gold, text) if '\\' not in text and '{' not in text else None


def _with_unit(gold: str) -> str | None:
    return rf'{gold}\text{{ units}}' if _NUMBER.fullmatch(gold.strip()) else None


def _full_width_signs(gold: str) -> str | None:
    signs = str.maketrans('(),=+', '（），＝＋')
    return _changed(gold, gold.translate(signs)) if r'\text' not in gold else None


def _full_width_digits(gold: str) -> str | None:
    digits = str.maketrans('0123456789', '０１２３４５６７８９')
    return _changed(gold, gold.translate(digits))


def _unicode_powers(gold: str) -> str | None:
    return _changed(gold, re.sub(r'\^(?:\{2\}|2)(?![0-9])', '²', gold))


def _unicode_names(gold: str) -> str | None:
    names = {
        r'\\pi(?![a-z])': 'π', r'\\infty(?![a-z])': '∞', r'\\cup(?![a-z])': '∪',
        r'\^\{?\\circ\}?': '°', r'\\theta(?![a-z])': 'θ', r'\\leq?(?![a-z])': '≤',
        r'\\times(?![a-z])': '×', r'\\cdot(?![a-z])': '·', r'\\pm(?![a-z])': '±',
    }  # fmt: skip
    return _replacing(*names.items())(gold)


def _unicode_roots(gold: str) -> str | None:
    return _changed(gold, re.sub(r'\\sqrt\{([0-9]+)\}', r'√\1', gold))


def _reordered_set(gold: str) -> str | None:
    match = re.fullmatch(r'\\\{([^{}()]+)\\\}', gold.strip())
    if not match or ',' not in match[1]:
        return None
    return rf'\{{{", ".join(reversed(match[1].split(",")))}\}}'


def _reordered_list(gold: str) -> str | None:
    if re.search(r'[()\[\]{}\\=_]', gold) or gold.count(',') < 1:
        return None
    parts = [part.strip() for part in gold.split(',')]
    if any(re.fullmatch(r'[0-9]{3}', part) for part in parts):
        return None
    return ', '.join(reversed(parts))


def _slashed(gold: str) -> str | None:
    match = re.fullmatch(r'(-?)\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}', gold.strip())
    return f'{match[1]}{match[2]}/{match[3]}' if match else None


def _doubled_fraction(gold: str) -> str | None:
    """Writes a fraction with twice its numerator and denominator."""
    match = re.fullmatch(r'(-?)\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}', gold.strip())
    if not match:
        return None
    return rf'{match[1]}\frac{{{2 * int(match[2])}}}{{{2 * int(match[3])}}}'


def _without_blanks(gold: str) -> str | None:
    if re.search(r'\\text|\\mbox|\\[a-zA-Z]+ [a-zA-Z]|, [0-9]{3}', gold):
        return None
    return _changed(gold.strip(), re.sub(r'(?<!\\) ', '', gold.strip()))


def _half_percent(gold: str) -> str | None:
    return _replacing((r'\\%', '%'))(gold)


REWRITINGS: dict[str, Rewriting] = {
    'display style': _around(r'\displaystyle ', ''),
    'a full stop': _around('', '.'),
    'a full stop of Chinese': _around('', '。'),
    'a comma': _around('', ','),
    'blanks': _around('  ', ' '),
    'dollars': _around('$', '$'),
    'round delimiters': _around(r'\(', r'\)'),
    'braces': _around('{', '}'),
    'bold': _around('**', '**'),
    'colour': _around(r'{\color{blue}', '}'),
    'bold symbols': _around(r'\boldsymbol{', '}'),
    'aligned': _around(r'\begin{aligned} ', r' \end{aligned}'),
    'thin blanks': _replacing((r'([,=])(?!\\!|\}|[0-9]{3})\s*', r'\1\\, ')),
    'brackets that grow': _replacing(
        (r'(?<!left)(?<!\\)\(', r'\\left('), (r'(?<!right)\)', r'\\right)')
    ),
    'large fractions': _replacing((r'\\[dt]?frac(?![a-z])', r'\\dfrac')),
    'small fractions': _replacing((r'\\[dt]?frac(?![a-z])', r'\\tfrac')),
    'a fraction with a slash': _slashed,
    'a fraction that reduces': _doubled_fraction,
    'a decimal': _decimal,
    'a decimal of an integer': _point_zero,
    'thousands with commas': _grouped(','),
    'thousands with commas in braces': _grouped('{,}'),
    'thousands with thin blanks': _grouped(r'\,'),
    'thousands with blanks': _grouped(' '),
    'minus of unicode': _replacing(('-', '−')),
    'full-width signs': _full_width_signs,
    'full-width digits': _full_width_digits,
    'powers of unicode': _unicode_powers,
    'names of unicode': _unicode_names,
    'roots of unicode': _unicode_roots,
    'code': _as_code,
    'without blanks': _without_blanks,
    'a name': _add_name,
    'a unit': _with_unit,
    'percent without a backslash': _half_percent,
    'a set in another order': _reordered_set,
    'a list in another order': _reordered_list,
    'text in roman': _replacing((r'\\(?:text|mbox)\{', r'\\textrm{')),
    'degrees in words': _replacing((r'\^\{?\\circ\}?(?=$|\.)', r'\\text{ degrees}')),
    'one plus': _around('0 + ', '', formulas=True),
}

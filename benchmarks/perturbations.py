r"""Changes of an answer that change its value.

Each takes a gold in LaTeX and returns another answer. It returns ``None`` where it has
nothing to change or might keep the value. None of them uses the verifier's code.
"""

import itertools
import re
from collections.abc import Callable

Perturbation = Callable[[str], str | None]

_DIGITS = re.compile(r'[0-9]+')
_FRACTION = re.compile(r'(\\[dt]?frac)\{([0-9]+)\}\{([0-9]+)\}')
_NUMBER = re.compile(r'-?[0-9]+(?:\.[0-9]+)?|-?\\[dt]?frac\{[0-9]+\}\{[0-9]+\}')
_TUPLE = re.compile(r'(?:\\left)?\s*\(([^()]*)\)')
_ITEMS = re.compile(r'[^()\[\]{}\\=]+')
# Answers in which the opposite sign may give another of their values.
_PLURAL = re.compile(r'\\pm|\\cup|\\{|,|\\text|=')


def _nth_number(
    index: int, change: Callable[[str], str], *, decimals: bool = True
) -> Perturbation:
    """Changes one number of an answer, except in a text or a symmetric relation."""

    def perturb(gold: str) -> str | None:
        if r'\text{' in gold and not gold.strip()[0].isdigit():
            return None
        matches = list(_DIGITS.finditer(gold))
        if not matches or _symmetric(gold) or ('.' in gold and not decimals):
            return None
        match = matches[index]
        other = change(match[0])
        if other == match[0] or not other:
            return None
        return gold[: match.start()] + other + gold[match.end() :]

    return perturb


def _symmetric(gold: str) -> bool:
    """Returns whether an answer may mean the same after one of its numbers changes."""
    return bool(re.search(r'=|\\approx|0\s*\\|\^0|\^\{0|\\cdot 0|times 0', gold)) and (
        gold.strip()[:1] == '0' or '%' in gold or r'\approx' in gold
    )


def _alone(change: Callable[[str], str | None]) -> Perturbation:
    """Changes a number that is the whole answer."""

    def perturb(gold: str) -> str | None:
        text = gold.strip()
        return change(text) if _NUMBER.fullmatch(text) else None

    return perturb


def _not_zero(change: Callable[[str], str]) -> Perturbation:
    return _alone(lambda text: change(text) if re.search('[1-9]', text) else None)


def _swapped(text: str) -> str:
    """Swaps the first two neighbouring digits that differ."""
    for first, second in itertools.pairwise(text):
        if first != second and second != '0':
            return text.replace(first + second, second + first, 1)
    return text


def _digits(change: Callable[[str], str]) -> Perturbation:
    """Changes a positive integer that is the whole answer."""

    def perturb(gold: str) -> str | None:
        text = gold.strip()
        if not re.fullmatch('[1-9][0-9]*', text):
            return None
        other = change(text)
        return other if other not in ('', text) else None

    return perturb


def _negative(text: str) -> str:
    return text[1:] if text.startswith('-') else f'-{text}'


def _replaced(old: str, new: str, *, where: str = '') -> Perturbation:
    def perturb(gold: str) -> str | None:
        if where and not re.search(where, gold):
            return None
        text = re.sub(old, new, gold, count=1)
        return text if text != gold else None

    return perturb


def _items_of(gold: str) -> tuple[str, list[str], str] | None:
    match = re.fullmatch(
        r'((?:\\left)?\s*[(\[])([^()\[\]]*?)((?:\\right)?\s*[)\]])', gold.strip()
    )
    if not match or match[2].count(',') < 1 or '{,' in match[2]:
        return None
    return match[1], [item.strip() for item in match[2].split(',')], match[3]


def _tuple_change(change: Callable[[list[str]], list[str]]) -> Perturbation:
    def perturb(gold: str) -> str | None:
        parts = _items_of(gold)
        if not parts:
            return None
        items = change(list(parts[1]))
        if items == parts[1]:
            return None
        return parts[0] + ', '.join(items) + parts[2]

    return perturb


def _list_change(change: Callable[[list[str]], list[str]]) -> Perturbation:
    def perturb(gold: str) -> str | None:
        text = gold.strip()
        if (
            ',' not in text
            or not _ITEMS.fullmatch(text)
            or re.search(',[0-9]{3}', text)
        ):
            return None
        items = [item.strip() for item in text.split(',')]
        changed = change(list(items))
        return ', '.join(changed) if changed != items else None

    return perturb


def _fraction(change: Callable[[int, int], tuple[int, int]]) -> Perturbation:
    def perturb(gold: str) -> str | None:
        match = _FRACTION.search(gold)
        if not match:
            return None
        above, below = int(match[2]), int(match[3])
        other = change(above, below)
        if not other[1] or other[0] * below == other[1] * above:
            return None
        return (
            gold[: match.start()]
            + rf'{match[1]}{{{other[0]}}}{{{other[1]}}}'
            + gold[match.end() :]
        )

    return perturb


def _base(change: Callable[[str, str], str]) -> Perturbation:
    def perturb(gold: str) -> str | None:
        match = re.fullmatch(r'([0-9]+)_\{?([0-9]+)\}?', gold.strip())
        return change(match[1], match[2]) if match and match[2] != '10' else None

    return perturb


def _brackets(gold: str) -> str | None:
    if not _items_of(gold):
        return None
    signs = str.maketrans('()[]', '[]()')
    return gold.translate(signs)


def _word(change: Callable[[str], str]) -> Perturbation:
    def perturb(gold: str) -> str | None:
        match = re.fullmatch(r'\\text\{([A-Za-z]{3,})\}', gold.strip())
        match = match or re.fullmatch(r'([A-Z]{3,})', gold.strip())
        if not match or match[1] == match[1][::-1]:
            return None
        return gold.replace(match[1], change(match[1]))

    return perturb


def _letter(gold: str) -> str | None:
    match = re.fullmatch(r'\\text\{\(?([A-E])\)?\}|([A-E])', gold.strip())
    if not match:
        return None
    letter = match[1] or match[2]
    return gold.replace(letter, chr((ord(letter) - ord('A') + 1) % 5 + ord('A')))


def _colon(gold: str) -> str | None:
    match = re.fullmatch(r'([0-9]+)\s*:\s*([0-9]+)', gold.strip())
    return f'{match[2]}:{match[1]}' if match and match[1] != match[2] else None


def _entry(gold: str) -> str | None:
    """Changes the first entry of a matrix."""
    match = re.search(r'(\\begin\{pmatrix\}\s*)(-?)([0-9]+)', gold)
    if not match:
        return None
    return gold.replace(match[0], f'{match[1]}{match[2]}{int(match[3]) + 1}', 1)


def _rows(gold: str) -> str | None:
    match = re.fullmatch(
        r'\s*\\begin\{pmatrix\}(.*)\\end\{pmatrix\}\.?\s*', gold, re.DOTALL
    )
    if not match or r'\\' not in match[1]:
        return None
    rows = [row.strip() for row in match[1].split(r'\\')]
    if rows == rows[::-1]:
        return None
    turned = r' \\ '.join(reversed(rows))
    return rf'\begin{{pmatrix}} {turned} \end{{pmatrix}}'


def _unit(gold: str) -> str | None:
    replacements = {
        'cm': 'km',
        'feet': 'miles',
        'inches': 'feet',
        'miles': 'cm',
        'days': 'hours',
        'hours': 'days',
        'min': 'hours',
        'cents': 'dollars',
    }
    match = re.search(
        r'\\(?:text|mbox)\{ (cm|feet|inches|miles|days|hours|min|cents)\}', gold
    )
    if not match or re.search(r'\^', gold[match.end() :]):
        return None
    return gold.replace(match[0], rf'\text{{ {replacements[match[1]]}}}')


def _variable(gold: str) -> str | None:
    """Renames the only variable of an answer without a relation or text."""
    letters = set(re.findall(r'(?<![a-zA-Z\\])[a-z](?![a-zA-Z])', gold)) - {
        'e',
        'i',
        'd',
    }
    if len(letters) != 1 or re.search(r'=|\\text|\\begin|\\in', gold):
        return None
    (letter,) = letters
    other = 'w' if letter != 'w' else 'v'
    return re.sub(rf'(?<![a-zA-Z\\]){letter}(?![a-zA-Z])', other, gold)


def _hedge(gold: str) -> str | None:
    return rf'{gold} \text{{ or }} 10007' if _NUMBER.fullmatch(gold.strip()) else None


def _exponent(gold: str) -> str | None:
    match = re.search(r'(?<![01])\^\{?([2-9])\}?(?![0-9.}])', gold)
    if (
        not match
        or r'\text' in gold
        or r'\mbox' in gold
        or re.match('.*[01]$', gold[: match.start()])
    ):
        return None
    return gold[: match.start()] + f'^{{{int(match[1]) + 1}}}' + gold[match.end() :]


def _sign_between(gold: str) -> str | None:
    """Replaces the only plus by minus, except in lists, texts and matrices."""
    if (
        _PLURAL.search(gold)
        or r'\begin' in gold
        or gold.count('+') != 1
        or gold.lstrip().startswith('+')
    ):
        return None
    return gold.replace('+', '-')


PERTURBATIONS: dict[str, Perturbation] = {
    'the first number plus 1': _nth_number(0, lambda n: str(int(n) + 1)),
    'the last number plus 1': _nth_number(-1, lambda n: str(int(n) + 1)),
    'the last number times 10': _nth_number(
        -1, lambda n: f'{n}0' if int(n) else '', decimals=False
    ),
    'the first number plus 2': _nth_number(0, lambda n: str(int(n) + 2)),
    'digits swapped': _digits(_swapped),
    'a digit dropped': _digits(lambda t: t[:-1]),
    'a digit doubled': _digits(lambda t: t + t[-1]),
    'the sign': _not_zero(_negative),
    'twice': _not_zero(lambda t: rf'2 \cdot {t}'),
    'ten times': _not_zero(lambda t: rf'{t} \times 10'),
    'a tenth': _not_zero(lambda t: rf'\frac{{{t}}}{{10}}'),
    'plus 1': _alone(lambda t: f'{t}+1'),
    'half off': _alone(lambda t: f'{t}+0.5'),
    'a thousandth off': _alone(lambda t: f'{t}+0.001'),
    'the square': _digits(lambda t: f'{t}^2' if t != '1' else ''),
    'the root': _digits(lambda t: rf'\sqrt{{{t}}}' if t != '1' else ''),
    'a variable': _not_zero(lambda t: f'{t}x'),
    'a variable t': _not_zero(lambda t: f'{t}t'),
    'pi': _not_zero(lambda t: rf'{t}\pi'),
    'a base': _digits(lambda t: f'{t}_{{12}}' if len(t) > 1 else ''),
    'a hedge': _hedge,
    'a pair': _alone(lambda t: f'({t}, 10007)'),
    'a range': _alone(lambda t: f'[{t}, 10007]'),
    'an inequality': _alone(lambda t: f'x > {t}'),
    'a word': _alone(lambda t: r'\text{none}'),
    'upside down': _fraction(lambda a, b: (b, a)),
    'above plus 1': _fraction(lambda a, b: (a + 1, b)),
    'below plus 1': _fraction(lambda a, b: (a, b + 1)),
    'without what is below': _fraction(lambda a, b: (a, 1)),
    'without pi': _replaced(r'\\pi(?![a-z])', '1', where=r'^[^,^]*[0-9}]?\s*\\pi'),
    'without the root': _replaced(r'\\sqrt\{?([2-9]|[1-9][0-9]+)\}?(?![0-9])', r'(\1)'),
    'sine for cosine': _replaced(r'\\sin(?![a-z])', r'\\cos'),
    'another exponent': _exponent,
    'another sign': _sign_between,
    'another variable': _variable,
    'another base': _base(lambda digits, base: f'{digits}_{int(base) + 1}'),
    'no base': _base(lambda digits, base: digits),
    'other brackets': _brackets,
    'a tuple reversed': _tuple_change(lambda items: items[::-1]),
    'a tuple cut': _tuple_change(lambda items: items[:-1]),
    'a tuple longer': _tuple_change(lambda items: [*items, '10007']),
    'a list cut': _list_change(lambda items: items[:-1]),
    'a list longer': _list_change(lambda items: [*items, '10007']),
    'a list with a repeat': _list_change(lambda items: [*items, items[0]]),
    'half of a union': _replaced(r'^(.*)\\cup[^u]*$', r'\1'),
    'intersection for union': _replaced(r'\\cup', r'\\cap'),
    'a word reversed': _word(lambda word: word[::-1]),
    'a longer word': _word(lambda word: f'{word}s'),
    'another letter': _letter,
    'another order of a ratio': _colon,
    'another entry': _entry,
    'rows in another order': _rows,
    'another unit': _unit,
    'nothing': lambda gold: r'\text{unknown}',
}

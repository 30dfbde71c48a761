r"""Remarks after an answer: where it holds, and what else it equals.

``5\text{ at }x=1``, ``5\ (x=1)`` and ``5\text{ since }2+3=5`` are 5.
``\sqrt2\ (\approx1.41)`` and ``\frac14\ (25\%)`` are chains. A text with words that
deny or deduce (``7\text{ so }x=5``) is no answer.
"""

import re
from collections.abc import Callable

from passk_jax.verifiers import exact
from passk_jax.verifiers.forms import (
    Bracketed,
    Equation,
    Expression,
    Form,
    Quantity,
    Ratio,
    Several,
    Words,
)
from passk_jax.verifiers.relations import is_number
from passk_jax.verifiers.splitting import depths, split_top
from passk_jax.verifiers.tokens import CONSTANTS, FUNCTIONS
from passk_jax.verifiers.trees import Name, Number, names
from passk_jax.verifiers.vocabulary import (
    DEDUCTIONS,
    DENIALS,
    GREEK,
    NUMBERS,
    VERDICTS,
)

Read = Callable[[str], Form]

_JOIN = (
    r'(?:(?:which|that|with|equality|only|holds|holding|occurs?|occurring|attained'
    r'|achieved|reached|obtained|taken|met) )*(?:at|when(?:ever)?|where|for|if|since'
    r'|because|with|given(?: that)?|as|by|provided(?: that)?|assuming)'
)
_MOST_REMARKS = 3
# \text{ (when x = 1)} and \text{ units where } in parts.
_BRACKET_INSIDE = re.compile(r'\\text\{ *(,? *)\( *([^{}()]*)(?:\)( *))?\}')
_ENDS_INSIDE = re.compile(r'\\text\{ *\) *\}')
_RELATION_INSIDE = re.compile(rf'\\text\{{( *,? *{_JOIN}) +([^{{}}]*=[^{{}}]*)\}}')
_JOIN_INSIDE = re.compile(
    rf'\\text\{{(?! *,? *{_JOIN} *\}})([^{{}}]*[^{{}}, ]),? +({_JOIN}) *\}}'
)
_REMARK = re.compile(
    r' *,? *(?:'
    rf'(?P<bracket>\()? *(?:\\text\{{ *,? *{_JOIN} *\}}|(?<=[ ,(]){_JOIN}(?=[ (]))'
    r'|(?<=[ )}\]0-9])(?P<bare>\()(?=[^()]*=)) *'
)
# (x=1, y=2) or (x=2, y=1) are two solutions.
_SOLUTION_BEFORE = re.compile(
    r'\([^()]*=[^()]*\) *(?:,|;|or|and|\\text\{ *(?:or|and) *\})?$'
)
_RESTATED = re.compile(
    r'(?P<head>.*\S) *\((?P<sign> *(?:=|\\approx|\\sim|\\text\{[^{}]*\}'
    r'|(?:or|i\.e\.,?|about|approximately)(?= ))? *)(?P<value>[^()]+)\)',
    re.DOTALL,
)
_EQUAL_WORDS = frozenset(
    ('=', 'or', 'i.e.', 'that is', 'equivalently', 'or equivalently', 'namely')
)
_NEAR_WORDS = frozenset((r'\approx', r'\sim')).union(
    f'{either}{nearly}'
    for either in ('', 'or ')
    for nearly in ('about', 'approximately', 'approx', 'approx.', 'roughly')
)
_NEARLY = re.compile(
    r' *,? *\\text\{ *,? *or (?:about|approximately|approx\.?|roughly) *\}'
)
_ARROWS = re.compile(
    r'\\(?:Long|long)?(?:R|r|Leftr|leftr)ightarrow(?![a-zA-Z])'
    r'|\\(?:implies|iff|to|therefore|because)(?![a-zA-Z])|[⇒⟹⇔→∴∵]|=>'
)
_RELATION = re.compile(r'=|\\approx|<|>|\\le(?![a-z])|\\ge(?![a-z])')
# A value, a word and more.
_PLAIN_WORD = re.compile(r'[0-9)}\]] *(?<= )([a-z]{2,}) +(?=[A-Za-z(\\])')
_SCRIPTS = re.compile(r'[_^] *(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\?[A-Za-z0-9]+)')
_ARGUMENTS = re.compile(r'(?<=[}A-Za-z])\([^()]*\)')
_LABEL = re.compile(r'(?:[A-Za-z](?=\\text\{[-a-z]))?\\text\{')
_HEDGE = re.compile(r'(?<![a-z])(?:else|otherwise)(?![a-z])')
# Words that end in the middle of a sentence, and numbers among words.
_OPEN_END = re.compile(
    r'\\text\{[^{}]*(?:(?<![a-z])(?:or|and|not|else|otherwise)\W*|[0-9][^{}]*)\}'
)
# A number before a sign that makes no product or sum with it.
_BROKEN = re.compile(
    r"-?[0-9.,]+ *(?:[':;?|\[]|\\\\|\\\{|\\[cl]?dots(?![a-z])"
    r'|\\(?:overset|underset|stackrel)(?![a-z]))'
)


def read_remark(text: str, read: Read) -> Form | None:
    """Reads an answer with a remark after it; ``None`` if it has none.

    Args:
        text: in normal form.
        read: reads a part.
    """
    if _NEARLY.search(text):
        return read(_NEARLY.sub(r'\\approx ', text))
    text = _BRACKET_INSIDE.sub(_without_bracket, text)
    text = _JOIN_INSIDE.sub(r'\\text{\1}\\text{\2}', _ENDS_INSIDE.sub(')', text))
    text = _RELATION_INSIDE.sub(r'\\text{\1}\2', text)
    return _without_remark(text, read) or _as_chain(text, read)


def _without_bracket(match: re.Match[str]) -> str:
    closing = ')' if match[0].rstrip(' }').endswith(')') else ''
    return rf'{match[1]}(\text{{{match[2]}}}{closing}'


def _without_remark(text: str, read: Read) -> Form | None:
    levels = depths(text)
    matches = [match for match in _REMARK.finditer(text) if not levels[match.start()]]
    for match in matches[:_MOST_REMARKS]:
        head, condition = text[: match.start()].strip(), text[match.end() :].strip()
        if not head or head[-1] in '+-*/^_=<>,(' or not set(condition) & {'=', '('}:
            continue
        if match['bare'] and _SOLUTION_BEFORE.search(head):
            continue
        if match['bracket'] or match['bare']:
            if not condition.endswith(')'):
                continue
            condition = condition[:-1]
        form = read(condition)
        parts = form.items if isinstance(form, Several) else (form,)
        if isinstance(form, Bracketed) and 'at' in match[0]:
            return read(head)
        equations = [part for part in parts if isinstance(part, Equation)]
        if len(equations) == len(parts):
            answer = read(head)
            hides = any(_hides(answer, equation) for equation in equations)
            hides = hides or _HEDGE.search(condition)
            return Words(text.casefold()) if hides else answer
    return None


def _hides(answer: Form, remark: Equation) -> bool:
    """Returns whether a remark is false, or gives a letter of the answer a value."""
    sides = [x.tree for x in remark.items if isinstance(x, Expression) and x.tree]
    try:
        numbers = {exact.value(tree) for tree in sides if not names(tree)} - {None}
    except exact.TooLargeError:
        return True
    # f(x) = 5 at x = 1 has the value 5; 2n + 1 at n = 3 has another.
    *names_of_value, value = answer.items if isinstance(answer, Equation) else (answer,)
    trees = [x.tree for x in names_of_value if isinstance(x, Expression)]
    letters = {tree.name for tree in trees if isinstance(tree, Name)}
    if isinstance(value, Expression) and value.tree:
        letters |= names(value.tree)
    assigned = {tree.name for tree in sides if isinstance(tree, Name)}
    return len(numbers) > 1 or bool(numbers and assigned & letters)


def _as_chain(text: str, read: Read) -> Form | None:
    """Reads a value that brackets repeat as a chain."""
    match = _RESTATED.fullmatch(text)
    if not match:
        return None
    head, sign, value = match['head'], match['sign'].strip(), match['value']
    sign = sign.removeprefix(r'\text{').removesuffix('}').strip(' ,')
    if sign in _NEAR_WORDS:
        return read(rf'{head}\approx {value}')
    if sign in _EQUAL_WORDS:
        return read(f'{head}={value}')
    if sign or not match[0].startswith(head + ' '):
        return None
    # 2 (3) is a product; nobody multiplies by 25 per cent or 0.25 in brackets.
    match read(value):
        case Quantity(_, unit) if unit.dimension:
            return read(f'{head}={value}')
        case Expression(_, Number(_, int())):
            return read(f'{head}={value}')
    return None


def deduced(text: str, read: Read) -> Form | None:
    r"""Reads the last of several relations with arrows between them.

    If a part is no relation, as in ``7\Rightarrow x=5``, the answer is unclear, and the
    text is read as words.
    """
    parts, signs = split_top(text, _ARROWS)
    if not signs or not split_top(text, _RELATION)[1]:
        return None
    if all(split_top(part, _RELATION)[1] for part in parts):
        return read(parts[-1])
    return Words(text.casefold())


def is_unclear(text: str, form: Form) -> bool:
    """Returns whether words in a side of a relation make the answer unclear.

    Args:
        text: a side before the last, in normal form.
        form: the form of that side.
    """
    if _OPEN_END.fullmatch(text.strip()):
        return True
    plain = _PLAIN_WORD.search(text)
    if plain and (_denies(plain[1]) or _is_joining(plain[1]) or _is_plain(plain[1])):
        return True
    match form:
        case Words(words):
            return _denies(words) or bool(re.search('[0-9]', words))
        case Ratio((first, second)):
            return is_number(first) and not is_number(second)
        case Expression(_, None) if _BROKEN.match(text):
            return True
        case Expression(_, None) if r'\text' in (bare := _bare(text)):
            words = ' '.join(re.findall(r'\\text\{([^{}]*)\}', bare)).casefold()
            labelled = _LABEL.match(bare) and not re.search('[0-9]', bare)
            return not labelled or _denies(words) or _is_joining(words)
    return False


def _bare(text: str) -> str:
    return _ARGUMENTS.sub('', _SCRIPTS.sub('', text))


def _is_joining(words: str) -> bool:
    return bool(re.search(rf'(?:^|\s){_JOIN}\s*$', words))


def _is_plain(word: str) -> bool:
    """Returns whether letters are a word: too long for a product, and no name."""
    return len(word) > 3 and word not in {*FUNCTIONS, *CONSTANTS, *GREEK}


def _denies(words: str) -> bool:
    plain = re.findall(r"[\w']+", words)
    if ' '.join(plain) in VERDICTS or (plain and plain[0] in NUMBERS):
        return True
    return not {*DENIALS, *DEDUCTIONS}.isdisjoint(plain)

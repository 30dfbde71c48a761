r"""Text with formulas between dollars, as one formula: ``$5$ cm`` is ``5\text{ cm}``.

Golds of files are trusted, so :func:`join_gold` takes any text around the formulas. An
answer must not become a number that it is not: ``$5$ $000$`` is not 5000, and ``- $5$``
is perhaps an item. So :func:`join_answer` takes only words and signs between them.
"""

import re

# $5 and $6 are dollars: no blank precedes a closing dollar, and no digit follows it.
_FORMULA = re.compile(
    r'(?<!\\)\$\$?(?P<dollars>\s(?:[^$\\]|\\.)*?\s|(?:[^$\\]|\\.)*?(?<!\s))'
    r'\$\$?(?![0-9])'
    r'|(?<!\\)\\\((?P<round>(?:[^\\]|\\[^()])*)\\\)'
    r'|(?<!\\)\\\[(?P<square>(?:[^\\]|\\[^\[\]])*)\\\]',
    re.DOTALL,
)
_DOLLAR = re.compile(r'(?<!\\)\$')
# Possessive, so that a run of blanks takes linear time.
_JOINT = re.compile(r'((?<!\s)\s*+,?\s*+\b(?:and|or)\b\s*)')
_LETTERS = re.compile(r'[^\W\d_]')
_WORD = re.compile('[A-Za-z]{3,}')
# A text with more words is a sentence, and stays as it is.
_MOST_WORDS = 6
_SIGNS = r'\s,;:=%°€£¥，、；：'
# Brackets and signs, or words: 5, $6$; m/s, approx. $5$
_PLAIN = re.compile(
    rf"[{_SIGNS}()\[\]]*|(?:[{_SIGNS}]|[^\W\d_](?:\.|['/-](?=[^\W\d_]))?)*"
)
# Behind a number these make another one: 5十 is 50.
_FACTOR = re.compile(r'[十百千万亿億成半]|\b[KMB]\b')
# Two formulas with nothing of this between them would run together.
_APART = re.compile(r'[^\W\d_]|[,;=，、；]')
_COMMA = re.compile(r'[,，、]\s*')
_TEXT = re.compile(r'\\(?:text(?:bf|rm)?|mbox)\s*\{([^{}]*)\}')


def join_gold(text: str) -> str:
    r"""Rewrites text with formulas between delimiters as one formula.

    >>> print(join_gold('$5$ cm or $6$ cm'))
    5\text{ cm}\text{ or }6\text{ cm}
    """
    formulas, outside = _split(text)
    words = _WORD.findall(' '.join(outside))
    if not formulas or _DOLLAR.search(' '.join(outside)) or len(words) > _MOST_WORDS:
        return text
    return _join(formulas, outside)


def join_answer(text: str) -> str:
    r"""Rewrites an answer with formulas between delimiters, if its sense is clear.

    Otherwise, and if the number of dollars is odd, the text stays as it is.

    >>> print(join_answer('$5$ cm$^2$'), join_answer(r'5\text{ cm$^2$}'))
    5\text{ cm}^2 5\text{ cm}^2
    >>> print(join_answer('$5$ $000$'), join_answer('$5$ cm$'))
    $5$ $000$ $5$ cm$
    """
    if len(_DOLLAR.findall(text)) % 2:
        return text
    return _join_words(_TEXT.sub(_open_text, text))


def _open_text(match: re.Match[str]) -> str:
    """Takes formulas out of a \\text unless digits would meet those around it."""
    joined = _join_words(match[1]) if '$' in match[1] else match[1]
    before, behind = match.string[: match.start()], match.string[match.end() :]
    meets = before.strip() and not joined.startswith(r'\text')
    meets = meets or (behind.strip() and not joined.endswith('}'))
    return match[0] if joined == match[1] or meets else joined


def _join_words(text: str) -> str:
    formulas, outside = _split(text)
    *before, last = outside
    plain = all(map(_PLAIN.fullmatch, [*before, last.rstrip('. 。')]))
    apart = all(map(_APART.search, before[1:]))
    words = _WORD.findall(' '.join(outside))
    is_clear = formulas and any(part.strip() for part in outside) and plain and apart
    if not is_clear or len(words) > _MOST_WORDS or _FACTOR.search(' '.join(outside)):
        return text
    # $5$,$600$ is no number.
    return _join(formulas, [_COMMA.sub(', ', part) for part in outside])


def _split(text: str) -> tuple[list[str], list[str]]:
    """Returns the formulas of a text, and the texts around them, one more."""
    matches = list(_FORMULA.finditer(text))
    begins = [0, *(match.end() for match in matches)]
    ends = [*(match.start() for match in matches), len(text)]
    outside = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
    return [match[match.lastgroup or 0] for match in matches], outside


def _join(formulas: list[str], outside: list[str]) -> str:
    parts = [_as_text(outside[0])]
    for formula, behind in zip(formulas, outside[1:], strict=True):
        parts += [formula, _as_text(behind)]
    return ''.join(parts).strip()


def _as_text(text: str) -> str:
    r"""Wraps words in ``\text``; "and" and "or" apart from other words."""
    if re.search(r'[\\{}]', text):
        return text
    return ''.join(
        rf'\text{{{part}}}' if _LETTERS.search(part) else part
        for part in _JOINT.split(text)
    )

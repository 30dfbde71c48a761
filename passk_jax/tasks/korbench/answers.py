r"""Reads KOR-Bench's answers out of responses, and what both rules make of them.

The questions ask for an answer in double square brackets. The official verifier takes
the first pair, or else what stands in ``$\boxed{...}$`` or in single brackets; the
strict rule takes the last pair and nothing else. All take time that is linear in the
length of the response.
"""

import re

# Longer answers are wrong; the longest right one has 400 characters.
MAX_ANSWER = 4096

_OPEN, _CLOSE = '[[', ']]'
_DISPLAY = re.compile(r'\\\[(?=\s*\[\[)')
_UNMARKED = str.maketrans('', '', '"\n ')


def last_answer(response: str) -> str | None:
    r"""What stands in the last double square brackets; ``None`` without them.

    The bracket of displayed mathematics before them is not part of the pair.

    >>> last_answer('in the form [[A]], so [[B ]].'), last_answer(r'so \[[[5]]\]')
    ('B', '5')
    """
    response = _DISPLAY.sub('', response)
    answer, start = None, response.find(_OPEN)
    while start >= 0:
        end = response.find(_CLOSE, start + len(_OPEN))
        if end < 0:
            break
        answer = response[start + len(_OPEN) : end]
        start = response.find(_OPEN, end + len(_CLOSE))
    return None if answer is None else answer.strip()


def first_answer(response: str) -> str | None:
    r"""What the official verifier reads; ``None`` if it finds nothing.

    >>> first_answer(r'a list [1] or $\boxed{2}$')
    '2'
    """
    for begin, end in ((_OPEN, _CLOSE), ('$\\boxed{', '}$'), ('[', ']')):
        answer = _first_between(response, begin, end)
        if answer is not None:
            return answer.strip()
    return None


def first_in_double_brackets(response: str) -> str | None:
    """What the official verifier reads for a puzzle, blanks included."""
    return _first_between(response, _OPEN, _CLOSE)


def unmarked(text: str) -> str:
    """A text without double quotes, line breaks and spaces."""
    return text.translate(_UNMARKED)


def bare(text: str) -> str:
    """The same, without square brackets too."""
    return unmarked(text).replace('[', '').replace(']', '')


def words(text: str) -> list[str]:
    """The runs of letters, digits and underscores."""
    return re.findall(r'\w+', text)


def _first_between(text: str, begin: str, end: str) -> str | None:
    _, separator, text_after = text.partition(begin)
    content, closed, _ = text_after.partition(end)
    return content if separator and closed else None

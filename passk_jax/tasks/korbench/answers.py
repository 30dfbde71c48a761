r"""Finds KOR-Bench's answers in responses, for the official and the strict rule.

The questions ask for an answer in double square brackets. The official verifier reads
the first pair, or else ``$\boxed{...}$`` or single brackets. The strict rule reads only
the last pair. All functions take time linear in the length of the response.
"""

import re

# Longer answers are wrong; the longest right one has 400 characters.
MAX_ANSWER = 4096

_OPEN, _CLOSE = '[[', ']]'
_DISPLAY = re.compile(r'\\\[(?=\s*\[\[)')
_UNMARKED = str.maketrans('', '', '"\n ')


def last_answer(response: str) -> str | None:
    r"""Returns the text in the last double square brackets; ``None`` without them.

    The bracket of displayed mathematics before a pair is not part of it.

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
    r"""Returns the answer that the official verifier reads; ``None`` if there is none.

    >>> first_answer(r'a list [1] or $\boxed{2}$')
    '2'
    """
    for begin, end in ((_OPEN, _CLOSE), ('$\\boxed{', '}$'), ('[', ']')):
        answer = _first_between(response, begin, end)
        if answer is not None:
            return answer.strip()
    return None


def first_in_double_brackets(response: str) -> str | None:
    """Returns the official verifier's answer to a puzzle, with its white space."""
    return _first_between(response, _OPEN, _CLOSE)


def unmarked(text: str) -> str:
    """Removes double quotes, line breaks and spaces."""
    return text.translate(_UNMARKED)


def bare(text: str) -> str:
    """Removes square brackets as well as what :func:`unmarked` removes."""
    return unmarked(text).replace('[', '').replace(']', '')


def words(text: str) -> list[str]:
    """Returns the runs of letters, digits and underscores."""
    return re.findall(r'\w+', text)


def _first_between(text: str, begin: str, end: str) -> str | None:
    _, separator, text_after = text.partition(begin)
    content, closed, _ = text_after.partition(end)
    return content if separator and closed else None

"""Extracts the answer from a response: the last box, leniently or strictly."""

import re

_OPEN_TAG, _CLOSE_TAG = '<answer>', '</answer>'
# An escaped brace does not count; the first branch skips it.
_BRACES = re.compile(r'\\.|[{}]', re.DOTALL)
# Before a digit, a command or the end, \boxed begins an answer even without a brace.
_BOX = re.compile(
    r'\\boxed(?![A-Za-z])\s*(?:(?P<brace>\{)'
    # One digit or letter is the box of TeX if the formula ends behind it.
    r'|(?P<token>[0-9A-Za-z])\s*(?:\$(?![\w\\(]|[-+,./:] *\d)|\\\)|\\\])'
    r'|[0-9\\]|[-+.(](?=[0-9\\])|$)'
)


def extract_boxed(text: str) -> str:
    r"""Extracts the answer as the released verifiers do.

    1. If both ``<answer>`` and ``</answer>`` occur, only the text from the last
       ``<answer>`` to the next ``</answer>`` (or the end) counts.
    2. If that text lacks the word ``boxed``, with or without a backslash, all of it is
       the answer.
    3. Otherwise the answer follows the last ``boxed``. After ``{``, it is the
       brace-balanced content; an unclosed brace reaches to the end. Else it is the text
       before the next ``$``, of any length, where :func:`last_box` reads one token.

    Args:
        text: a whole response.

    Returns:
        The answer; ``''`` for an empty box and for a response that ends in ``boxed``.

    >>> extract_boxed(r'\boxed{1}, no: \boxed{\frac{1}{2}}.')
    '\\frac{1}{2}'
    >>> extract_boxed('<think>up?</think><answer>42</answer>')
    '42'
    """
    if _OPEN_TAG in text and _CLOSE_TAG in text:
        text = text.rpartition(_OPEN_TAG)[2].partition(_CLOSE_TAG)[0]
    _, boxed, tail = text.rpartition('boxed')
    if not boxed:
        return text
    if tail.startswith('{'):
        return _balanced(tail[1:])
    return tail.partition('$')[0].strip()


def last_box(text: str) -> str | None:
    r"""Extracts the content of the last ``\boxed{...}``, and nothing else.

    Unlike :func:`extract_boxed`, it needs the backslash and both braces, and skips
    escaped braces, as LaTeX does. The last of nested boxes is the innermost. A mere
    mention, such as "the \boxed command", is no box. Without braces, LaTeX boxes one
    token: the 5 of ``$\boxed 5$``, but only the 1 of ``$\boxed 12$``. So a digit or a
    letter at the end of a formula is read, and anything else is refused.

    Returns:
        The content; ``None`` if there is no box, or the last one is not closed because
        the response was cut off, or has no braces around more than one token: an
        earlier box may not be the answer.

    >>> last_box(r'\boxed{1}, no: \boxed{\left\{ \frac{1}{2} \right.}.')
    '\\left\\{ \\frac{1}{2} \\right.'
    >>> last_box(r'\boxed{204}, as \boxed asks'), last_box(r'\boxed{204}, \boxed{20')
    ('204', None)
    >>> last_box(r'$\boxed 5$'), last_box(r'$\boxed 12$'), last_box(r'\boxed 5')
    ('5', None, None)
    """
    boxes = list(_BOX.finditer(text))
    if not boxes or not boxes[-1]['brace']:
        return boxes[-1]['token'] if boxes else None
    start = boxes[-1].end()
    depth = 1
    for brace in _BRACES.finditer(text, start):
        depth += {'{': 1, '}': -1}.get(brace[0], 0)
        if depth == 0:
            return text[start : brace.start()]
    return None


def _balanced(text: str) -> str:
    """Returns ``text`` up to the brace that closes an earlier one, or all of it."""
    depth = 1
    for i, character in enumerate(text):
        depth += (character == '{') - (character == '}')
        if depth == 0:
            return text[:i]
    return text

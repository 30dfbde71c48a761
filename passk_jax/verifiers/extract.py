"""Finds the answer in a response, by one rule for mazes and for mathematics."""

_OPEN_TAG, _CLOSE_TAG = '<answer>', '</answer>'


def extract_boxed(text: str) -> str:
    r"""The answer in a response, by the rule of the released verifiers.

    1. If both ``<answer>`` and ``</answer>`` occur, only the text from the last
       ``<answer>`` to the next ``</answer>`` (or the end) counts.
    2. If that text lacks the word ``boxed``, with or without a backslash, all of it is
       the answer.
    3. Otherwise the answer follows the last ``boxed``. If ``{`` comes next, it is the
       brace-balanced content, and an unclosed brace reaches to the end. If not, it is
       the text before the next ``$``.

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
    _, boxed, rest = text.rpartition('boxed')
    if not boxed:
        return text
    if rest.startswith('{'):
        return _balanced(rest[1:])
    return rest.partition('$')[0].strip()


def _balanced(text: str) -> str:
    """``text`` up to the brace that closes one opened before it, or all of ``text``."""
    depth = 1
    for i, character in enumerate(text):
        depth += (character == '{') - (character == '}')
        if depth == 0:
            return text[:i]
    return text

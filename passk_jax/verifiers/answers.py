"""Reads answers out of responses, without ever evaluating their text.

Finders look for the answer in a whole response and return ``''`` if there is none.
Parsers turn an answer into numbers and raise :class:`Wrong`, which says what is wrong,
for anything that is not exactly in the documented format. All take time that is linear
in the length of the text.
"""

import re
from collections.abc import Callable, Iterator

# Longer answers are wrong: no puzzle has a solution near this length.
MAX_ANSWER = 10_000
# Longer integers are wrong: no puzzle has a number near this size.
_INTEGER = r'[+-]?[0-9]{1,9}'
_SPACES = r'[ \t\r\n]*'

_FENCE = '```'
_BEGIN, _END = '<begin_board>', '<end_board>'

_PAIR = re.compile(
    rf'\({_SPACES}({_INTEGER}){_SPACES},{_SPACES}({_INTEGER}){_SPACES}\)'
)
_NUMBER = re.compile(_INTEGER)
_QUOTED = re.compile(r'"([^"\\]*)"|' + r"'([^'\\]*)'")
_TABLE = re.compile(r'\|[^\n]+\|(?:\n\s*\|[^\n]+\|)*')
_COMMA = re.compile(rf'{_SPACES},{_SPACES}')


class Wrong(Exception):  # noqa: N818 - a verdict, not a failure of the program
    """An answer is wrong; the message says in a few words why."""


def last_block(
    response: str, *, inline: bool = True, like: Callable[[str], bool] | None = None
) -> str:
    r"""The text of the last fenced block, by the rule of all official verifiers.

    A block begins on the line after three backticks and ends at the next three. If
    there is none, text between two fences on one line counts if ``inline``. If ``like``
    is given, the last block that it accepts comes before all others.

    >>> last_block('```\n1 2\n```\nno:\n```text\n2 1\n```')
    '2 1'
    """
    blocks = list(_between(response, own_line=True))
    if not blocks and inline:
        blocks = list(_between(response, own_line=False))
    liked = [block for block in blocks if like(block)] if like else blocks
    return (liked or blocks or [''])[-1].strip()


def _between(text: str, *, own_line: bool) -> Iterator[str]:
    # The same blocks as those of re.findall(r'```.*?\n(.*?)```', text, re.DOTALL), or
    # without the line break, which takes quadratic time on a text of many backticks.
    start = text.find(_FENCE)
    while start >= 0:
        begin = start + len(_FENCE)
        if own_line:
            line_end = text.find('\n', begin)
            if line_end < 0:
                break
            begin = line_end + 1
        end = text.find(_FENCE, begin)
        if end < 0:
            break
        yield text[begin:end]
        start = text.find(_FENCE, end + len(_FENCE))


def last_board(response: str) -> str:
    r"""The text between the last ``<begin_board>`` and the ``<end_board>`` after it.

    >>> last_board('<begin_board>\n. *\n<end_board>')
    '. *'
    """
    before, begin, tail = response.rpartition(_BEGIN)
    while begin:
        board, end, _ = tail.partition(_END)
        if end:
            return board.strip()
        before, begin, tail = before.rpartition(_BEGIN)
    return ''


def last_table(response: str) -> str:
    r"""The last markdown table, by the rule of the official verifier.

    Its lines begin and end with a bar; blanks after the last bar end the table.

    >>> last_table('| a | 1 |\n| b | 2 |\nor\n| a | 2 |\n  | b | 1 |\n')
    '| a | 2 |\n  | b | 1 |'
    """
    table = ''
    for match in _TABLE.finditer(response):
        table = match[0]
    return table


def table_rows(table: str) -> list[list[str]]:
    """The cells between the bars of each line, in lower case; blanks do not count."""
    lines = [line for line in table.lower().split('\n') if line.strip()]
    return [
        [' '.join(cell.split()) for cell in line.split('|')[1:-1]] for line in lines
    ]


def as_block(answer: str) -> str:
    """The response whose only fenced block is this answer."""
    return f'{_FENCE}\n{answer}\n{_FENCE}'


def as_board(answer: str) -> str:
    """The response whose board is this answer."""
    return f'{_BEGIN}\n{answer}\n{_END}'


def claims(answer: str, claim: str) -> bool:
    """Whether an answer is this sentence; quotes, case and the last point do not count.

    >>> claims('"cannot form 24"', 'Cannot form 24.')
    True
    """
    return _plain(answer) == _plain(claim)


def _plain(sentence: str) -> str:
    words = sentence.strip().strip('"\'').strip().removesuffix('.')
    return ' '.join(words.lower().split())


def symbol_rows(answer: str) -> list[list[str]]:
    """The lines of an answer, each split at white space; empty lines do not count."""
    return [line.split() for line in answer.split('\n') if line.strip()]


def integer_grid(answer: str, *, side: int) -> list[list[int]]:
    """``side`` lines of ``side`` integers, separated by spaces."""
    rows = symbol_rows(answer)
    if len(rows) != side:
        raise Wrong(f'{len(rows)} rows, not {side}')
    for row in rows:
        if len(row) != side:
            raise Wrong(f'a row of {len(row)} numbers, not {side}')
        for cell in row:
            if not _NUMBER.fullmatch(cell):
                raise Wrong(f'{cell[:20]!r} is not an integer')
    return [[int(cell) for cell in row] for row in rows]


def pair_list(answer: str) -> list[tuple[int, int]]:
    """A list of pairs of integers: ``[(1, 2), (3, 4)]``."""
    return [(int(m[1]), int(m[2])) for m in _items(answer, _PAIR)]


def pair_chain(answer: str) -> list[tuple[int, int]]:
    """Pairs of integers joined by arrows: ``(0,1)->(1,1)``."""
    pairs = [_PAIR.fullmatch(part.strip()) for part in answer.split('->')]
    if not all(pairs):
        raise Wrong('no pairs joined by ->')
    return [(int(m[1]), int(m[2])) for m in pairs]


def integer_list(answer: str) -> list[int]:
    """A list of integers: ``[0, 2, 1]``."""
    return [int(m[0]) for m in _items(answer, _NUMBER)]


def text_list(answer: str) -> list[str]:
    """A list of texts without escapes, in double or single quotes: ``["a", "b"]``."""
    matches = _items(answer, _QUOTED)
    return [m[2] if m[1] is None else m[1] for m in matches]


def _items(answer: str, item: re.Pattern[str]) -> list[re.Match[str]]:
    text = answer.strip()
    if not (text.startswith('[') and text.endswith(']') and len(text) >= 2):
        raise Wrong('no list in brackets')
    text = text[1:-1].strip()
    matches: list[re.Match[str]] = []
    place = 0
    while place < len(text):
        if matches:
            comma = _COMMA.match(text, place)
            if not comma:
                raise Wrong(f'no comma after item {len(matches)}')
            place = comma.end()
            # A comma may end the list.
            if place == len(text):
                break
        match = item.match(text, place)
        if not match:
            raise Wrong(f'item {len(matches) + 1} is malformed')
        matches.append(match)
        place = match.end()
    return matches

"""Finds and parses answers in responses, without ever evaluating their text.

Finders look for the answer in a response and return ``''`` if there is none. Parsers
turn an answer into numbers, and raise :class:`Wrong` for anything that is not exactly
in the documented format. All take time that is linear in the length of the text.
"""

import re
from collections.abc import Callable, Iterator

# Characters. Longer answers are wrong: solutions of puzzles are far shorter.
MAX_ANSWER = 10_000
# Longer integers are wrong: numbers of puzzles are far smaller.
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
    """An answer is wrong; the message says why in a few words."""


def last_block(
    response: str, *, inline: bool = True, like: Callable[[str], bool] | None = None
) -> str:
    r"""Returns the text of the last fenced block, as all official verifiers do.

    A block begins on the line after three backticks and ends at the next three. Without
    such a block, and if ``inline``, text between two fences on one line counts. If
    ``like`` accepts a block, the last accepted one is taken.

    >>> last_block('```\n1 2\n```\nno:\n```text\n2 1\n```')
    '2 1'
    """
    blocks = list(_between(response, separate_line=True))
    if not blocks and inline:
        blocks = list(_between(response, separate_line=False))
    liked = [block for block in blocks if like(block)] if like else blocks
    return (liked or blocks or [''])[-1].strip()


def _between(text: str, *, separate_line: bool) -> Iterator[str]:
    # The blocks of re.findall(r'```.*?\n(.*?)```', text, re.DOTALL), or the same
    # without the line break. The pattern takes quadratic time on many backticks.
    start = text.find(_FENCE)
    while start >= 0:
        begin = start + len(_FENCE)
        if separate_line:
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
    r"""Returns the text between the last ``<begin_board>`` and its ``<end_board>``.

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
    r"""Returns the last markdown table, as the official verifier does.

    Its lines begin and end with a bar; blanks after the last bar end the table.

    >>> last_table('| a | 1 |\n| b | 2 |\nor\n| a | 2 |\n  | b | 1 |\n')
    '| a | 2 |\n  | b | 1 |'
    """
    table = ''
    for match in _TABLE.finditer(response):
        table = match[0]
    return table


def table_rows(table: str) -> list[list[str]]:
    """Splits each line at its bars into cells, in lower case with single blanks."""
    lines = [line for line in table.lower().split('\n') if line.strip()]
    return [
        [' '.join(cell.split()) for cell in line.split('|')[1:-1]] for line in lines
    ]


def as_block(answer: str) -> str:
    """Returns the response whose only fenced block is this answer."""
    return f'{_FENCE}\n{answer}\n{_FENCE}'


def as_board(answer: str) -> str:
    """Returns the response whose board is this answer."""
    return f'{_BEGIN}\n{answer}\n{_END}'


def claims(answer: str, claim: str) -> bool:
    """Returns whether an answer is this sentence, up to quotes, case and a full stop.

    >>> claims('"cannot form 24"', 'Cannot form 24.')
    True
    """
    return _plain(answer) == _plain(claim)


def _plain(sentence: str) -> str:
    words = sentence.strip().strip('"\'').strip().removesuffix('.')
    return ' '.join(words.lower().split())


def symbol_rows(answer: str) -> list[list[str]]:
    """Splits the lines of an answer at white space; skips empty lines."""
    return [line.split() for line in answer.split('\n') if line.strip()]


def integer_grid(answer: str, *, side: int) -> list[list[int]]:
    """Parses ``side`` lines of ``side`` integers, separated by spaces."""
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
    """Parses a list of pairs of integers: ``[(1, 2), (3, 4)]``."""
    return [(int(m[1]), int(m[2])) for m in _items(answer, _PAIR)]


def pair_chain(answer: str) -> list[tuple[int, int]]:
    """Parses pairs of integers joined by arrows: ``(0,1)->(1,1)``."""
    pairs = []
    for part in answer.split('->'):
        if not (match := _PAIR.fullmatch(part.strip())):
            raise Wrong('no pairs joined by ->')
        pairs.append((int(match[1]), int(match[2])))
    return pairs


def integer_list(answer: str) -> list[int]:
    """Parses a list of integers: ``[0, 2, 1]``."""
    return [int(m[0]) for m in _items(answer, _NUMBER)]


def text_list(answer: str) -> list[str]:
    """Parses a list of texts without escapes, in any quotes: ``["a", 'b']``."""
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

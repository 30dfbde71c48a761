"""Zebra puzzles: clues that determine the order of the values in each row of a table.

The answer is the last markdown table of a response, inside a fenced block or not, as in
the official verifier.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.puzzle import Data, Puzzle, columns, read_text
from passk_jax.verifiers import answers, spellings
from passk_jax.verifiers.answers import Wrong

_ROWS = 4
# For each level, the columns except that of the row's name.
_COLUMNS = (2, 3, 4)
# A record with more of either is rejected.
_MOST = 8
_BLANK = 'Fill the following table'
# A line of a table.
_LINE = re.compile(r'\s*\|.*\|')
# Signs after the name of a row, and signs before it.
_AFTER_NAME = re.compile(r'[*"]{0,3}(?:->|:?\s*\||:|,|\t)')
_BULLET = re.compile(r'(?:[-*•]|[0-9]{1,2}[.)])\s+')
# Signs that may surround a cell.
_AROUND_CELLS = ' \t*`"\'[]{}.:'

# Clue -> its condition. Arguments are the columns, from 0, of the values that the clue
# names, and the last column; they may be arrays.
_CLUES: dict[str, Callable[..., Any]] = {
    '{} == {}': lambda a, b, last: a == b,
    '{} is on the left of {}': lambda a, b, last: a + 1 == b,
    '{} is on the right of {}': lambda a, b, last: a == b + 1,
    '{} is between {} and {}': (
        lambda a, b, c, last: (a + a == b + c) & (abs(b - c) == 2)
    ),
    '{} is on the far left': lambda a, last: a == 0,
    '{} is on the far right': lambda a, last: a == last,
    '{} is in the middle': lambda a, last: a + a == last,
}
_PATTERNS = {form: re.compile(form.replace('{}', '([^: ]+:[^: ]+)')) for form in _CLUES}
# The kinds of clues, repeated in proportion to how often each is drawn.
_KINDS = tuple(form for form in _CLUES for _ in range(form.count('{}') ** 2))

_VALUES = {
    'Beverage': 'cider cocoa coffee juice lemonade milk tea water',
    'Color': 'black blue brown green orange purple red white yellow',
    'Food': 'bread carrot cheese cherry lemon onion pear plum potato rice',
    'Hobby': 'baking chess cycling dancing fishing painting reading singing',
    'Instrument': 'cello drum flute guitar harp oboe piano trumpet violin',
    'Job': 'baker doctor farmer lawyer nurse pilot sailor teacher writer',
    'Nationality': 'brazilian chinese french german indian italian polish thai',
    'Pet': 'cat dog goat hamster horse lizard mouse parrot rabbit turtle',
    'Sport': 'football golf hockey judo rowing rugby skiing tennis',
    'Transport': 'bicycle boat bus car ferry scooter train tram van',
}

# The kind of a clue, and the cells that it names.
_Clue = tuple[str, list[tuple[int, int]]]


class ZebraLogic(Puzzle):
    """Zebra puzzle; data: ``rows`` (name -> values, sorted) and ``clues`` (texts).

    The clues of generated problems have one solution, and each clue is necessary.

    The strict rule also reads spaces at line ends, a ``|---|`` row and the header above
    it, bold cells, rows without outer bars or as ``Name: a, b``, and JSON.
    """

    name = 'zebra_logic'
    category = 'Logic'
    rules = (
        'The puzzle lists the rows of a table and their values. Order the values of '
        'each row by the clues; values in the same column belong together. "A == B": '
        'they are in the same column. "A is on the left of B": A is in the column next '
        'to that of B, on its left; "on the right of" likewise. "A is between B and '
        'C": A is in the middle of three columns next to each other, B and C are in '
        'the other two, in either order.\n'
        'Answer: the table in markdown without a header, one line a row, in the order '
        'of the puzzle, for example\n'
        '| Pet | cat | dog |\n'
        '| Job | nurse | pilot |'
    )

    def generate(self, draws, level):
        table = {
            name: draws.sample(_VALUES[name].split(), _COLUMNS[level])
            for name in sorted(draws.sample(_VALUES, _ROWS))
        }
        rows = [[f'{name}:{value}' for value in table[name]] for name in table]
        clues = [
            form.format(*(rows[row][column] for row, column in cells))
            for form, cells in _random_clues(draws, _COLUMNS[level])
        ]
        return {
            'rows': {name: sorted(values) for name, values in table.items()},
            'clues': draws.shuffled(clues),
            'answer': _table_text(table),
        }

    def question(self, data):
        rows = [f'{name}: {", ".join(values)}' for name, values in data['rows'].items()]
        clues = [f'{i}. {clue}' for i, clue in enumerate(data['clues'], start=1)]
        return '\n'.join([*rows, *clues])

    def find(self, response):
        return answers.last_table(response)

    def find_usual(self, response):
        """Finds the last table, with spaces at line ends, or else the last block."""
        response = response.translate(spellings.SIGNS).replace('│', '|')
        lines = [line.rstrip() for line in response.split('\n')]
        table_lines = [
            line if not line or _LINE.fullmatch(line) else 'other' for line in lines
        ]
        if table := answers.last_table('\n'.join(table_lines)):
            return table
        block = answers.last_block(response)
        written = [line for line in block.split('\n') if line.strip()]
        if block[:1] in ('{', '[') or all(map(_AFTER_NAME.search, written)):
            return block
        return answers.last_table('\n'.join(lines))

    def usual(self, data, answer):
        rows = _usual_rows(data, answer)
        if [row[:1] for row in rows] != [[name.lower()] for name in data['rows']]:
            raise Wrong('not the rows of the puzzle in their order')
        if rows == answers.table_rows(answer):
            return answer
        return '\n'.join(f'| {" | ".join(row)} |' for row in rows)

    def check(self, data, answer):
        rows = data['rows']
        table = answers.table_rows(answer)
        if [row[:1] for row in table] != [[name.lower()] for name in rows]:
            raise Wrong('not the rows of the puzzle in their order')
        places = {}
        for (name, values), (_, *cells) in zip(rows.items(), table, strict=True):
            if sorted(cells) != sorted(value.lower() for value in values):
                raise Wrong(f'not the values of row {name}, each once')
            for value in values:
                places[f'{name}:{value}'] = cells.index(value.lower())
        last = len(table[0]) - 2
        for clue in data['clues']:
            holds, mentioned = _parse(clue)
            if not holds(*(places[mention] for mention in mentioned), last):
                raise Wrong(f'this clue does not hold: {clue}')

    def check_official(self, data, answer):
        """Checks that each row of the stored answer is a row of the table."""
        table = answers.table_rows(answer)
        if any(row not in table for row in answers.table_rows(data['answer'])):
            raise Wrong('a row of the stored answer is missing')

    def read(self, record):
        text = read_text(record['meta']['question'])
        rows, clues = {}, []
        for line in text.partition(_BLANK)[0].strip().split('\n'):
            number, dot, clue = line.strip().partition('. ')
            if dot and number.isdecimal():
                clues.append(clue)
            else:
                name, _, values = line.partition(': ')
                rows[name] = [value.strip() for value in values.split(',')]
        _check_record(rows, clues)
        return {'rows': rows, 'clues': clues, 'answer': read_text(record['answer'])}


def _usual_rows(data: Data, answer: str) -> list[list[str]]:
    """Reads the cells of a table or of lines ``Name: a, b``, in lower case.

    Skips a line of dashes and the header above it, and ``**`` around a cell.
    """
    names = [name.lower() for name in data['rows']]
    rows: list[list[str]] = []
    text = spellings.bare(answer, stop=False, label=False).lower().replace('│', '|')
    if text[:1] in ('{', '['):
        text = ' '.join(text.split()).replace('],', ']\n')
    for line in text.split('\n'):
        if spellings.is_rule(line):
            rows = [row for row in rows if row[0] in names]
        elif line.strip(' {}'):
            line = _BULLET.sub('', line.strip())
            line = line.removeprefix('|').removesuffix('|')
            name, *cells = _AFTER_NAME.split(line, maxsplit=1)
            between = r'\|' if '|' in ''.join(cells) else '[,\t]'
            parts = [name, *(part for x in cells for part in re.split(between, x))]
            rows.append([' '.join(x.strip(_AROUND_CELLS).split()) for x in parts])
    return rows


def _check_record(rows: dict[str, list[str]], clues: list[str]) -> None:
    counts = {len(set(values)) for values in rows.values()}
    if len(rows) > _MOST or len(counts) != 1 or not 1 < min(counts) <= _MOST:
        raise ValueError('no rows of equally many values')
    places_seen = {
        f'{name}:{value}' for name, values in rows.items() for value in values
    }
    for clue in clues:
        if unknown := set(_parse(clue)[1]) - places_seen:
            raise ValueError(f'clue {clue!r}: no {sorted(unknown)[0]!r} in the rows')


def _parse(clue: str) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Parses a clue: its condition on columns, and the values that it names."""
    for form, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(clue):
            return _CLUES[form], match.groups()
    raise ValueError(f'clue {clue!r} is of none of the kinds {list(_CLUES)}')


def _random_clues(draws: Draws, num_columns: int) -> list[_Clue]:
    """Draws clues that only one table satisfies; each clue is necessary.

    A cell of a clue is a row and the value's column in that table.
    """
    clues: list[tuple[_Clue, np.ndarray]] = []
    candidates = _tables(None, num_columns)
    while _count(candidates, num_columns) > 1:
        clue = _random_clue(draws, num_columns)
        tables = _tables(clue, num_columns)
        if _count(candidates & tables, num_columns) < _count(candidates, num_columns):
            clues.append((clue, tables))
            candidates = candidates & tables
    for pair in list(clues):
        other_clues = [other_pair for other_pair in clues if other_pair is not pair]
        candidates = functools.reduce(
            np.bitwise_and, [tables for _, tables in other_clues]
        )
        if _count(candidates, num_columns) == 1:
            clues = other_clues
    return [clue for clue, _ in clues]


def _random_clue(draws: Draws, num_columns: int) -> _Clue:
    while True:
        form = draws.choice(_KINDS)
        cells = [
            (draws.below(_ROWS), draws.below(num_columns))
            for _ in range(form.count('{}'))
        ]
        places = [column for _, column in cells]
        if len(set(cells)) == len(cells) and _CLUES[form](*places, num_columns - 1):
            return form, cells


def _tables(clue: _Clue | None, num_columns: int) -> np.ndarray:
    """Computes which tables satisfy a clue; ``None``: all do.

    Returns:
        Bits with one axis per row, over the orders of its values. The axis of a row
        that the clue does not name has length 1. The first axis always has full length
        and is packed to bits.
    """
    orders = _orders(num_columns)
    met = np.ones((1,) * _ROWS, bool)
    if clue:
        form, cells = clue
        places = []
        for row, column in cells:
            shape = [-1 if axis == row else 1 for axis in range(_ROWS)]
            places.append(orders[:, column].reshape(shape))
        met = _CLUES[form](*places, num_columns - 1)
    met = np.broadcast_to(met, (len(orders), *met.shape[1:]))
    return np.packbits(met, axis=0)


def _count(tables: np.ndarray, num_columns: int) -> int:
    """Counts the tables; an axis of length 1 counts for every order."""
    repeats = len(_orders(num_columns)) ** (_ROWS - 1) // math.prod(tables.shape[1:])
    return int.from_bytes(tables.tobytes(), 'little').bit_count() * repeats


@functools.cache
def _orders(num_columns: int) -> np.ndarray:
    """Lists the orders of a row: ``orders[i, v]`` is value v's column in order i."""
    return np.array(list(itertools.permutations(range(num_columns))), np.int8)


def _table_text(table: dict[str, list[str]]) -> str:
    """Formats a markdown table with cells of equal width in each column."""
    rows = [[name, *values] for name, values in table.items()]
    widths = [max(map(len, column)) for column in columns(rows)]
    return '\n'.join(f'| {" | ".join(map(str.ljust, row, widths))} |' for row in rows)


ZEBRA_LOGIC = ZebraLogic()

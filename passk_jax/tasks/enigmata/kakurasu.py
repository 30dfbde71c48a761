"""Kakurasu: black cells whose places add up to a target in each row and column."""

import re
from collections.abc import Sequence

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.chosen_cells import ChosenCells, cells_text, read_cells
from passk_jax.verifiers.answers import Wrong

_SIDES = ((4, 5), (5, 6), (5, 6))
# For each level, minimum and maximum of chosen cells in every ten.
_BLACK = ((2, 5), (3, 6), (4, 7))
_SUMS = re.compile(
    r'Board size: ([0-9]{1,2}) X ([0-9]{1,2})\s+Row sums: \[([0-9, ]*)\]\s+'
    r'Column sums: \[([0-9, ]*)\]\s*'
)


class Kakurasu(ChosenCells):
    """Kakurasu; data: ``row_sums``, ``column_sums``. Any valid solution is right.

    Every generated problem has a solution.
    """

    name = 'kakurasu'
    none = 'No valid solution exists for the given Kakurasu puzzle.'
    first = 1
    rules = (
        'Choose cells of this grid. A chosen cell adds the number of its column to the '
        'sum of its row, and the number of its row to the sum of its column. All row '
        'sums and all column sums must be as given. Rows and columns are numbered from '
        '1. If there are several solutions, any of them is right.\n'
        'Answer: the chosen cells as a list of (row, column), for example '
        '[(1, 1), (2, 4)]. If there is no solution: '
        f'"{none}"'
    )

    def generate(self, draws, level):
        side = draws.choice(_SIDES[level])
        tenths = draws.between(*_BLACK[level])
        cells = [
            (r, c)
            for r in range(1, side + 1)
            for c in range(1, side + 1)
            if draws.chance(tenths, 10)
        ]
        row_sums, column_sums = _sums(cells, side, side)
        return {
            'row_sums': row_sums,
            'column_sums': column_sums,
            'answer': cells_text(cells),
        }

    def question(self, data):
        rows, columns = data['row_sums'], data['column_sums']
        return (
            f'Board size: {len(rows)} X {len(columns)}\n'
            f'Row sums: {list(rows)}\nColumn sums: {list(columns)}'
        )

    def shape(self, data):
        return len(data['row_sums']), len(data['column_sums'])

    def check_cells(self, data, cells):
        rows, columns = list(data['row_sums']), list(data['column_sums'])
        if _sums(cells, len(rows), len(columns)) != (rows, columns):
            raise Wrong('a sum differs')

    def board_of(self, data, chosen, *, answered):
        height, width = self.shape(data)
        cells = {
            (r, c): boards.Cell(kind='picked' if (r, c) in chosen else 'free')
            for r in range(height)
            for c in range(width)
        }
        numbered = [(r + 1, c + 1) for r, c in chosen & set(cells)]
        sums = _sums(numbered, height, width) if answered else (None, None)
        for place in range(width):
            cells[-1, place] = boards.Cell(str(place + 1), 'index')
        for place in range(height):
            cells[place, -1] = boards.Cell(str(place + 1), 'index')
        return boards.Board(
            cells
            | boards.clues(
                height,
                width,
                right=boards.compared(data['row_sums'], sums[0]),
                bottom=boards.compared(data['column_sums'], sums[1]),
            )
        )

    def read(self, record):
        match = _SUMS.fullmatch(record['meta']['question'])
        if not match:
            raise ValueError('no board size and sums')
        height, width = int(match[1]), int(match[2])
        rows, columns = ([int(n) for n in match[i].split(',')] for i in (3, 4))
        if (len(rows), len(columns)) != (height, width):
            raise ValueError('the sums do not fit the board')
        answer = read_cells(record['answer'])
        return {'row_sums': rows, 'column_sums': columns, 'answer': answer}


def _sums(
    cells: Sequence[tuple[int, int]], height: int, width: int
) -> tuple[list[int], list[int]]:
    rows, columns = [0] * height, [0] * width
    for r, c in cells:
        rows[r - 1] += c
        columns[c - 1] += r
    return rows, columns


KAKURASU = Kakurasu()

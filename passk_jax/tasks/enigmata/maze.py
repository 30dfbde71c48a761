"""A maze of cells with obstacles; any way is right, or the claim that none exists.

The task :mod:`passk_jax.tasks.maze` is different: other walls and moves.
"""

import itertools
import re
from collections.abc import Sequence

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.chosen_cells import neighbours
from passk_jax.tasks.enigmata.puzzle import Grid, Puzzle, grid_text, read_grid
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, claims, pair_chain

_SIDE = 5
# For each level, minimum and maximum of percent of cells with an obstacle.
_OBSTACLES = ((15, 25), (26, 40), (41, 55))
_NONE = 'not exist the path from start to end.'
_PAIR = re.compile(r'\(([0-9]{1,9}),\s*([0-9]{1,9})\)')


class ObstacleMaze(Puzzle):
    """A maze with obstacles; data: ``blocked``, 1 for an obstacle, 0 for a free cell.

    Any way is right. Half the generated problems have none.

    The strict rule also reads the spellings of ``spellings.pairs``: other arrows,
    commas, spaces or lines between the pairs, a list of pairs.
    """

    name = 'maze'
    category = 'Graph'
    none = _NONE
    rules = (
        'Find a way from the start S in the upper left corner of this grid to the end '
        'E in the lower right corner. A step leads to a cell that shares a side with '
        'the one before. The character . is a free cell, B an obstacle, which cannot '
        'be entered. Rows and columns are numbered from 1. Any way is right, also one '
        'that is not the shortest.\n'
        'Answer: the cells of the way from the start to the end as (row,column) '
        'joined by arrows, for example (1,1)->(1,2)->(2,2). If there is no way: '
        f'{_NONE}'
    )

    def generate(self, draws, level):
        """Draws obstacles until the maze has a way, or none if it should have none."""
        cells, has_way = _SIDE * _SIDE, draws.chance(1, 2)
        while True:
            count = draws.between(*_OBSTACLES[level]) * cells // 100
            # Start and end, the first and the last cell, stay free.
            chosen = set(draws.sample(range(1, cells - 1), count))
            blocked = [
                [int(r * _SIDE + c in chosen) for c in range(_SIDE)]
                for r in range(_SIDE)
            ]
            answer = _solution(blocked)
            if (answer != _NONE) == has_way:
                return {'blocked': blocked, 'answer': answer}

    def question(self, data):
        symbols = [['.B'[cell] for cell in row] for row in data['blocked']]
        symbols[0][0], symbols[-1][-1] = 'S', 'E'
        return grid_text(symbols)

    def usual(self, data, answer):
        return '->'.join(f'({i},{j})' for i, j in spellings.pairs(answer))

    def check(self, data, answer):
        if claims(answer, _NONE):
            if data['answer'] != _NONE:
                raise Wrong('there is a way')
            return
        _check_way(data['blocked'], pair_chain(answer))

    def check_official(self, data, answer):
        """Reads the answer's pairs as the way; "not exist" claims there is none."""
        if data['answer'] == _NONE:
            if 'not exist' not in answer:
                raise Wrong('there is no way')
            return
        pairs = _PAIR.findall(answer)
        if not pairs:
            raise Wrong('no pairs')
        _check_way(data['blocked'], [(int(r), int(c)) for r, c in pairs])

    def picture(self, data, answer):
        cells = {
            place: boards.Cell(kind='wall' if blocked else 'free')
            for place, blocked in boards.cells_by_place(data['blocked']).items()
        }
        end = max(cells)
        cells[0, 0], cells[end] = boards.Cell('S', 'start'), boards.Cell('E', 'end')
        way, blocked = [], None
        if answer:
            way, blocked = _walk(data['blocked'], pair_chain(answer))
        return boards.Board(cells, way=way, blocked=blocked)

    def read(self, record):
        """Reads the maze; computes the answer, which may differ from the stored one."""
        rows = record['meta']['question']
        values = {'S': 0, 'E': 0, '.': 0, 'B': 1}
        blocked = read_grid([[values[cell] for cell in row] for row in rows])
        if (rows[0][0], rows[-1][-1]) != ('S', 'E'):
            raise ValueError('no start and end in the corners')
        return {'blocked': blocked, 'answer': _solution(blocked)}


def _check_way(blocked: Sequence[Sequence[int]], way: list[tuple[int, int]]) -> None:
    side = len(blocked)
    if way[0] != (1, 1) or way[-1] != (side, side):
        raise Wrong('not from the start to the end')
    for before, cell in itertools.pairwise(way):
        if error := _step_error(blocked, before, cell):
            raise Wrong(error)


def _step_error(
    blocked: Sequence[Sequence[int]], before: tuple[int, int], cell: tuple[int, int]
) -> str:
    """Says why a step cannot reach its cell; ``''`` if it can."""
    (r, c), (i, j) = before, cell
    if abs(r - i) + abs(c - j) != 1:
        return f'no step from ({r},{c}) to ({i},{j})'
    return '' if _free(blocked, cell) else f'({i},{j}) is not a free cell'


def _free(blocked: Sequence[Sequence[int]], cell: tuple[int, int]) -> bool:
    (i, j), side = cell, len(blocked)
    return 1 <= i <= side and 1 <= j <= side and not blocked[i - 1][j - 1]


def _walk(
    blocked: Sequence[Sequence[int]], way: list[tuple[int, int]]
) -> tuple[list[boards.Place], boards.Place | None]:
    """Returns the cells of a way up to a failing step, and where that leads, from 0.

    A step that is too long leads to the neighbour in its direction. A way that does not
    begin at a free cell fails at the start.
    """
    path = [way[0] if _free(blocked, way[0]) else (1, 1)]
    beyond = None
    for cell in way[1:] if way[0] == path[0] else way:
        if _step_error(blocked, path[-1], cell):
            r, c = path[-1]
            down, right = (max(-1, min(1, n)) for n in (cell[0] - r, cell[1] - c))
            beyond = (r - 1 + down, c - 1 + right)
            break
        path.append(cell)
    return [(r - 1, c - 1) for r, c in path], beyond


def _solution(blocked: Grid) -> str:
    """Finds a shortest way, or returns the claim that there is none."""
    side = len(blocked)
    end = (side - 1, side - 1)
    # Each cell and its successor; the search starts at the end, so the way starts at S.
    after = {end: end}
    reached = [end]
    # The loop appends to this list.
    for cell in reached:
        for r, c in neighbours(cell, height=side, width=side):
            if not blocked[r][c] and (r, c) not in after:
                after[r, c] = cell
                reached.append((r, c))
    if (0, 0) not in after:
        return _NONE
    way = [(0, 0)]
    while way[-1] != end:
        way.append(after[way[-1]])
    return '->'.join(f'({r + 1},{c + 1})' for r, c in way)


MAZE = ObstacleMaze()

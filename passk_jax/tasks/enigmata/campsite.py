"""Campsites (tents and trees): each tree has its own tent beside it."""

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import Data, Puzzle, grid_text
from passk_jax.tasks.enigmata.star_battle import (
    BLOCKED,
    EMPTY,
    STAR,
    adjacent,
    stars_of,
    symbols_of,
    touching,
)
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong

_SIDES = (4, 5, 6)
_TENTS = ((3, 4), (4, 5), (5, 6))
_BESIDE = ((-1, 0), (1, 0), (0, -1), (0, 1))

Cell = tuple[int, int]


class Campsite(Puzzle):
    """Campsites; data: ``trees``, ``row_tents``, ``column_tents``.

    Any valid board is right. The strict rule also reads the spellings of
    ``spellings.board``: commas, bars, tables and lists, cells without separators, lower
    case and symbols such as ★.
    """

    name = 'campsite'
    category = 'Grid'
    board = True
    rules = (
        'Place tents on this board. Each tree has exactly one tent of its own directly '
        'above, below, left or right of it, and each tent belongs to exactly one tree, '
        'though it may touch others. No two tents are neighbours, not even diagonally. '
        'The numbers of tents in each row and each column are given. A tent stands on '
        'an empty cell. The character . is an empty cell, X a tree, * a tent. If there '
        'are several solutions, any of them is right.\n'
        'Answer: the board with its tents, one row a line, cells separated by spaces, '
        'between <begin_board> and <end_board>.'
    )

    def generate(self, draws, level):
        side = _SIDES[level]
        count = draws.between(*_TENTS[level])
        while (pairs := _pitch(side, count, draws)) is None:
            pass
        tents, trees = pairs
        board = [[int((r, c) in trees) for c in range(side)] for r in range(side)]
        rows, columns = _counts(tents, side, side)
        data = {'trees': board, 'row_tents': rows, 'column_tents': columns}
        symbols = symbols_of(board)
        for r, c in tents:
            symbols[r][c] = STAR
        return data | {'answer': grid_text(symbols)}

    def question(self, data):
        rows, columns = data['row_tents'], data['column_tents']
        return (
            f'total number of tents: {sum(rows)}\n'
            f'tents in each row: {" ".join(map(str, rows))}\n'
            f'tents in each column: {" ".join(map(str, columns))}\n'
            f'{grid_text(symbols_of(data["trees"]))}'
        )

    def usual(self, data, answer):
        return spellings.board(answer)

    def check(self, data, answer):
        tents = self._check_counts(data, answer)
        if adjacent(tents):
            raise Wrong('two tents are neighbours')
        if not _matched(_trees(data), tents):
            raise Wrong('not every tree has a tent of its own and every tent a tree')

    def check_official(self, data, answer):
        """Checks the counts, and that no two tents share a side.

        It checks neither diagonal neighbours nor which tent belongs to which tree.
        """
        tents = self._check_counts(data, answer)
        if any((r + 1, c) in tents or (r, c + 1) in tents for r, c in tents):
            raise Wrong('two tents are neighbours')

    def picture(self, data, answer):
        """Marks tents without a tree beside them, and trees without a tent."""
        tents = stars_of(symbols_of(data['trees']), answer) if answer else []
        height, width = len(data['row_tents']), len(data['column_tents'])
        rows, columns = _counts(tents, height, width) if answer else (None, None)
        cells = boards.clues(
            height,
            width,
            top=boards.compared(data['column_tents'], columns),
            left=boards.compared(data['row_tents'], rows),
        )
        trees, near = _trees(data), touching(tents)
        cells |= {
            place: boards.Cell() for place in boards.cells_by_place(data['trees'])
        }
        for tree in trees:
            wrong = bool(answer) and not _beside(tree, tents)
            cells[tree] = boards.Cell('', 'given', 'tree', wrong=wrong)
        for tent in tents:
            wrong = tent in near or not _beside(tent, trees)
            cells[tent] = boards.Cell(shape='tent', new=True, wrong=wrong)
        return boards.Board(cells)

    def read(self, record):
        total, rows, columns, *board = record['meta']['question'].strip().split('\n')
        count, rows, columns = (
            [int(n) for n in line.partition(':')[2].split()]
            for line in (total, rows, columns)
        )
        values = {EMPTY: 0, BLOCKED: 1}
        trees = [[values[cell] for cell in line.split()] for line in board]
        if len(rows) != len(trees) or {len(line) for line in trees} != {len(columns)}:
            raise ValueError('the numbers of tents do not fit the board')
        if [sum(rows)] != count or sum(columns) != sum(rows):
            raise ValueError('the numbers of tents do not add up')
        answer = str(record['answer']).partition('<begin_board>')[2]
        return {
            'trees': trees,
            'row_tents': rows,
            'column_tents': columns,
            'answer': answer.partition('<end_board>')[0].strip(),
        }

    def _check_counts(self, data: Data, answer: str) -> list[Cell]:
        tents = stars_of(symbols_of(data['trees']), answer)
        clues = list(data['row_tents']), list(data['column_tents'])
        counted = _counts(tents, *map(len, clues))
        for kind, counts, counted_line in zip(
            ('row', 'column'), clues, counted, strict=True
        ):
            if counted_line != counts:
                raise Wrong(f'a {kind} has another number of tents')
        return tents


def _pitch(side: int, count: int, draws: Draws) -> tuple[list[Cell], set[Cell]] | None:
    """Places tents, each with its tree beside it; ``None`` if there is no room."""
    tents: list[Cell] = []
    trees: set[Cell] = set()
    for r, c in draws.shuffled((r, c) for r in range(side) for c in range(side)):
        if len(tents) == count:
            break
        if (r, c) in trees or adjacent([*tents, (r, c)]):
            continue
        for dr, dc in draws.shuffled(_BESIDE):
            tree = r + dr, c + dc
            inside = all(0 <= place < side for place in tree)
            if inside and tree not in trees and tree not in tents:
                tents.append((r, c))
                trees.add(tree)
                break
    return (tents, trees) if len(tents) == count else None


def _counts(tents: list[Cell], height: int, width: int) -> tuple[list[int], list[int]]:
    rows = [sum(r == place for r, _ in tents) for place in range(height)]
    columns = [sum(c == place for _, c in tents) for place in range(width)]
    return rows, columns


def _trees(data: Data) -> list[Cell]:
    return [
        place for place, tree in boards.cells_by_place(data['trees']).items() if tree
    ]


def _beside(cell: Cell, cells: list[Cell]) -> bool:
    """Tells whether one of the cells shares a side with a cell."""
    return any((cell[0] + dr, cell[1] + dc) in cells for dr, dc in _BESIDE)


def _matched(trees: list[Cell], tents: list[Cell]) -> bool:
    """Tells whether trees and tents can be paired, each with one beside it."""
    if len(trees) != len(tents):
        return False
    tree_of: dict[Cell, Cell] = {}

    def find(tree: Cell, tried: set[Cell]) -> bool:
        for dr, dc in _BESIDE:
            tent = tree[0] + dr, tree[1] + dc
            if tent in free and tent not in tried:
                tried.add(tent)
                if tent not in tree_of or find(tree_of[tent], tried):
                    tree_of[tent] = tree
                    return True
        return False

    free = set(tents)
    return all(find(tree, set()) for tree in trees)


CAMPSITE = Campsite()

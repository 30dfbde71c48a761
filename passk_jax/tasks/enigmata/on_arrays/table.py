"""The puzzles with verdicts on arrays: their conversion to arrays and their rules."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from passk_jax.tasks.enigmata import (
    hitori,
    kakurasu,
    light_up,
    minesweeper,
    shifts,
    sliding,
    stack_permutation,
    star_battle,
    tic_tac_toe,
    twiddle,
)
from passk_jax.tasks.enigmata.chosen_cells import ChosenCells
from passk_jax.tasks.enigmata.on_arrays import cells, grids, sequences
from passk_jax.tasks.enigmata.on_arrays.batch import ArrayRule
from passk_jax.tasks.enigmata.puzzle import Data, cells_of
from passk_jax.verifiers import answers
from passk_jax.verifiers.answers import Wrong

# Padding with which most answers of a puzzle share a shape.
_CELLS, _STEPS, _MOVES = 32, 32, 64

_CODES = {
    star_battle.EMPTY: cells.EMPTY,
    star_battle.BLOCKED: cells.BLOCKED,
    star_battle.STAR: cells.STAR,
}
_MOVE_CODES = {ord(move): code for code, move in enumerate(sequences.BLANK_MOVES)}


def _fields(*names: str) -> Callable[[Data], tuple[Any, ...]]:
    return lambda data: tuple(data[name] for name in names)


def _grid(judge: Callable, *names: str, less: int = 0) -> ArrayRule:
    """Makes a rule for a square answer, smaller than the first array by ``less``."""

    def answer(data, text):
        return answers.integer_grid(text, side=len(data[names[0]][-1]) - less)

    return ArrayRule(_fields(*names), answer, judge)


def _board(judge: Callable, *names: str) -> ArrayRule:
    """Makes a rule for an answer that is the first array with symbols and stars."""

    def answer(data, text):
        rows = answers.symbol_rows(text)
        if [len(row) for row in rows] != [len(row) for row in data[names[0]]]:
            raise Wrong('a board of another size')
        return [[_CODES.get(cell, cells.FOREIGN) for cell in row] for row in rows]

    return ArrayRule(_fields(*names), answer, judge)


def _list(puzzle: ChosenCells, judge: Callable, problem: Callable) -> ArrayRule:
    """Makes a rule for an answer that is a list of cells of the grid."""

    def answer(data, text):
        pairs = answers.pair_list(text)
        height, width = puzzle.shape(data)
        if len(pairs) > height * width:
            raise Wrong('a cell twice or outside the grid')
        return np.reshape(pairs, (-1, 2))

    return ArrayRule(problem, answer, judge, room=_CELLS)


def _forced(data: Data) -> tuple[np.ndarray]:
    grid = np.zeros(minesweeper.MINESWEEPER.shape(data), np.int32)
    for row, column in data['forced']:
        grid[row, column] = 1
    return (grid,)


def _best_moves(data: Data) -> tuple[Any, ...]:
    best = tic_tac_toe.best_moves(tic_tac_toe.state_of(data))
    return data['board'], [cell in best for cell in range(9)], data['player']


def _blank_moves(data: Data, text: str) -> np.ndarray:
    del data
    moves = sliding.read_moves(text).translate(_MOVE_CODES)
    return np.frombuffer(moves.encode('ascii'), np.uint8)


def _turns() -> ArrayRule:
    """Makes the rule of twiddle; a turn is the index of its corner in ``CORNERS``."""
    codes = {corner: code for code, corner in enumerate(twiddle.CORNERS)}
    sources = [
        cells_of(twiddle.turned(_places(3), *corner)) for corner in twiddle.CORNERS
    ]

    def answer(data, text):
        corners = answers.pair_chain(text)
        if not codes.keys() >= set(corners):
            raise Wrong('a step outside the board')
        return [codes[corner] for corner in corners]

    return _permuted(sources, answer)


def _shifts(side: int) -> ArrayRule:
    """Makes the rule of the 9 or the 16 puzzle."""
    moves = [
        (kind, line, steps)
        for kind in 'RC'
        for line in range(1, side + 1)
        for steps in range(1, side)
    ]
    codes: dict[tuple[str, int, int], int] = {
        move: code for code, move in enumerate(moves)
    }
    sources = [cells_of(shifts.shifted(_places(side), *move)) for move in moves]

    def answer(data, text):
        return [codes[move] for move in shifts.read_moves(text, side=side)]

    return _permuted(sources, answer)


def _permuted(sources: list[list[int]], answer: Callable) -> ArrayRule:
    judge = functools.partial(sequences.permuted, sources=np.array(sources, np.int32))
    return ArrayRule(lambda data: (cells_of(data['board']),), answer, judge, _MOVES)


def _places(side: int) -> list[list[int]]:
    return [list(range(row * side, (row + 1) * side)) for row in range(side)]


def _operations(data: Data, text: str) -> list[int]:
    operations = stack_permutation.read_operations(text)
    if len(operations) != 2 * len(data['input']):
        raise Wrong('not every number pushed and popped once')
    return operations


def _hamiltonian(*, closed: bool) -> ArrayRule:
    def problem(data):
        adjacent = np.zeros([data['num_vertices']] * 2, np.int32)
        for a, b in data['edges']:
            adjacent[[a, b], [b, a]] = 1
        return (adjacent,)

    def answer(data, text):
        return _exactly(data['num_vertices'] + closed, text)

    judge = functools.partial(sequences.hamiltonian, closed=closed)
    return ArrayRule(problem, answer, judge)


def _cars(data: Data) -> tuple[Any, ...]:
    return [ord(colour) for colour in data['colours']], data['reach'], data['switches']


def _exactly(length: int, text: str) -> list[int]:
    numbers = answers.integer_list(text)
    if len(numbers) != length:
        raise Wrong('not everything exactly once')
    return numbers


_SLIDING = ArrayRule(_fields('board'), _blank_moves, sequences.sliding, _MOVES)

# Name of the puzzle -> its rule on arrays.
RULES: dict[str, ArrayRule] = {
    'sudoku2': _grid(functools.partial(grids.sudoku, box=2), 'grid'),
    'sudoku': _grid(functools.partial(grids.sudoku, box=3), 'grid'),
    'binario': _grid(grids.binario, 'grid'),
    'skyscraper': _grid(
        functools.partial(grids.skyscraper, clue=grids.number_visible), 'clues'
    ),
    'sum_skyscraper': _grid(
        functools.partial(grids.skyscraper, clue=grids.sum_visible), 'clues'
    ),
    'magic_square': _grid(grids.magic_square, 'numbers', 'given'),
    'slant': _grid(grids.slant, 'corners', less=1),
    'tic_tac_toe': ArrayRule(
        _best_moves, lambda data, text: tic_tac_toe.read_board(text), grids.tic_tac_toe
    ),
    'star_battle': _board(cells.star_battle, 'blocked'),
    'campsite': _board(cells.campsite, 'trees', 'row_tents', 'column_tents'),
    'kakurasu': _list(
        kakurasu.KAKURASU, cells.kakurasu, _fields('row_sums', 'column_sums')
    ),
    'hitori': _list(hitori.HITORI, cells.hitori, _fields('grid')),
    'light_up': _list(light_up.LIGHT_UP, cells.light_up, _fields('board')),
    'minesweeper': _list(minesweeper.MINESWEEPER, cells.minesweeper, _forced),
    'eight_puzzle': _SLIDING,
    'fifteen_puzzle': _SLIDING,
    'twiddle': _turns(),
    'nine_puzzle': _shifts(3),
    'sixteen_puzzle': _shifts(4),
    'stack_permutation': ArrayRule(
        _fields('input', 'output'), _operations, sequences.stack_permutation
    ),
    'hamiltonian_cycle': _hamiltonian(closed=True),
    'hamiltonian_path': _hamiltonian(closed=False),
    'maze': ArrayRule(
        _fields('blocked'),
        lambda data, text: answers.pair_chain(text),
        sequences.maze,
        _STEPS,
    ),
    'car_painting': ArrayRule(
        _cars,
        lambda data, text: _exactly(len(data['colours']), text),
        sequences.car_painting,
    ),
}

"""Rules of puzzles whose answer is a sequence: moves, a walk or an order.

A rule takes the arrays of one problem and a sequence, all padded with ``PAD``.
"""

import numpy as np
from jax import lax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Int32

from passk_jax.tasks.enigmata.on_arrays.batch import PAD
from passk_jax.tasks.enigmata.stack_permutation import POP

Sequence = Int32[Array, 'L']

# Codes of the blank's moves: indices in this string.
BLANK_MOVES = 'UDLR'


def permuted(
    board: Int32[Array, 'C'], moves: Sequence, *, sources: Int32[np.ndarray, 'M n']
) -> Bool[Array, '']:
    """Tells whether moves that permute cells put 1 to n in order.

    ``sources[m, c]`` is the cell from which move m brings a number to cell c.
    """
    count = sources.shape[1]
    # Padding moves nothing.
    table = jnp.concatenate([jnp.arange(count)[None], jnp.asarray(sources)])

    def move(cells, code):
        return cells[table[jnp.maximum(code, -1) + 1]], None

    cells, _ = lax.scan(move, board[:count], moves)
    return (cells == jnp.arange(1, count + 1)).all()


def sliding(board: Int32[Array, 'S S'], moves: Sequence) -> Bool[Array, '']:
    """Tells whether moves of the blank, 0, stay on the board and order the tiles."""
    # In a frame of PAD, a move that leaves the board ends on PAD.
    framed = jnp.pad(board, 1, constant_values=PAD)
    width = len(framed)
    steps = jnp.array([-width, width, -1, 1])
    places = jnp.arange(framed.size)

    def move(carry, code):
        cells, blank, alive = carry
        ahead = blank + steps[jnp.maximum(code, 0)]
        tile = cells[ahead]
        alive &= (tile != PAD) | (code == PAD)
        moving = alive & (code != PAD)
        swapped = jnp.where(places == blank, tile, jnp.where(places == ahead, 0, cells))
        blank = jnp.where(moving, ahead, blank)
        return (jnp.where(moving, swapped, cells), blank, alive), None

    start = framed.ravel(), jnp.argmax(framed == 0), jnp.array(True)
    (cells, _, alive), _ = lax.scan(move, start, moves)
    side = (board[0] != PAD).sum()
    row, column = jnp.indices(board.shape)
    goal = (row * side + column + 1) % (side * side)
    ended = cells.reshape(framed.shape)[1:-1, 1:-1]
    return alive & ((ended == goal) | (board == PAD)).all()


def stack_permutation(
    numbers: Sequence, output: Sequence, operations: Sequence
) -> Bool[Array, '']:
    """Tells whether numbers are pushed in turn and popped in the output's order.

    There are two operations for each number.
    """
    count = (numbers != PAD).sum()
    room = len(numbers)

    def operate(carry, operation):
        stack, depth, pushed, popped, alive = carry
        push, pop = operation >= 0, operation == POP
        fits = numbers[jnp.minimum(pushed, room - 1)] == operation
        top = stack[jnp.maximum(depth - 1, 0)]
        number = output[jnp.minimum(popped, room - 1)]
        # Numbers differ, so the last number of an empty stack is not popped again.
        alive &= jnp.where(pop, top == number, ~push | fits)
        stack = jnp.where((jnp.arange(room) == depth) & push, operation, stack)
        depth += jnp.where(pop, -1, push)
        return (stack, depth, pushed + push, popped + pop, alive), None

    zero = jnp.int32(0)
    start = jnp.full(room, PAD, jnp.int32), zero, zero, zero, jnp.array(True)
    (_, _, _, popped, alive), _ = lax.scan(operate, start, operations)
    return alive & (popped == count)


def hamiltonian(
    adjacent: Int32[Array, 'V V'], walk: Sequence, *, closed: bool
) -> Bool[Array, '']:
    """Tells whether edges join every vertex once; a closed walk ends where it began.

    The walk has an entry for each vertex, and one more if it is closed.
    """
    vertex = adjacent[0] != PAD
    listed = walk != PAD
    length = listed.sum()
    visits, right = listed, True
    if closed:
        visits &= jnp.arange(len(walk)) < length - 1
        right = (length > 3) & (walk[0] == walk[length - 1])
    visited = ((walk[:, None] == jnp.arange(len(vertex))) & visits[:, None]).any(0)
    right &= (visited == vertex).all()
    places = jnp.clip(walk, 0, len(vertex) - 1)
    edges = adjacent[places[:-1], places[1:]] == 1
    return right & (edges | ~listed[1:]).all()


def maze(blocked: Int32[Array, 'S S'], way: Int32[Array, 'L 2']) -> Bool[Array, '']:
    """Tells whether steps to free cells, from 1, join the first and the last corner."""
    listed = way[:, 0] != PAD
    side = (blocked[0] != PAD).sum()
    last = way[jnp.maximum(listed.sum() - 1, 0)]
    ends = (way[0] == 1).all() & (last == side).all()
    steps = jnp.abs(way[1:] - way[:-1]).sum(1) == 1
    places = jnp.clip(way[1:] - 1, 0, len(blocked) - 1)
    inside = ((way[1:] >= 1) & (way[1:] <= side)).all(1)
    free = inside & (blocked[places[:, 0], places[:, 1]] == 0)
    return ends & ((steps & free) | ~listed[1:]).all()


def car_painting(
    colours: Sequence,
    reach: Int32[Array, ''],
    switches: Int32[Array, ''],
    order: Sequence,
) -> Bool[Array, '']:
    """Tells whether cars, from 1, stay in reach and have at most these switches."""
    car, place = order - 1, jnp.arange(len(colours))
    painted = colours != PAD
    placed = (car[:, None] == place).any(0)
    each_once = (placed == painted).all() & ((order != PAD) == painted).all()
    near = (jnp.abs(car - place) <= reach) | ~painted
    sprayed = colours[jnp.clip(car, 0, len(colours) - 1)]
    changes = ((sprayed[1:] != sprayed[:-1]) & painted[1:]).sum()
    return each_once & near.all() & (changes <= switches)

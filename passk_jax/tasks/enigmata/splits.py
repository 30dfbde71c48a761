"""Generates the problems of every split, without repeats within or between splits.

Split, puzzle, level, index and seed identify the stream that a problem is drawn from. A
repeat of an earlier problem is skipped and another one drawn. Test comes first, so its
problems depend on no other split.
"""

import itertools
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.puzzle import LEVELS, Puzzle
from passk_jax.tasks.new_items import take_new

# Splits in the order of generation.
SPLITS = ('test', 'validation', 'train')

# Draws without a new problem after which a puzzle counts as exhausted: at least, and
# per problem found.
_PATIENCE = (1000, 10)


def generate_splits(
    puzzle: Puzzle,
    *,
    levels: tuple[str, ...],
    counts: dict[str, int],
    seed: int,
    upto: str = 'train',
) -> dict[str, list[dict[str, Any]]]:
    """Generates the data of a puzzle's problems, level by level.

    Args:
        puzzle: generates the problems.
        levels: some of ``LEVELS``.
        counts: split -> number of problems of each level.
        seed: decides which problems are drawn.
        upto: the last split to make, in the order of ``SPLITS``.

    Returns:
        Split -> data with its ``puzzle`` and ``level``.

    Raises:
        ValueError: a level has fewer problems than requested.
    """
    seen: set[bytes] = set()
    splits = {}
    for split in SPLITS[: SPLITS.index(upto) + 1]:
        splits[split] = [
            data
            for level in levels
            for data in _new_problems(
                puzzle, level, (seed, split), count=counts[split], seen=seen
            )
        ]
    return splits


def _new_problems(
    puzzle: Puzzle,
    level: str,
    address: tuple[int | str, ...],
    *,
    count: int,
    seen: set[bytes],
) -> list[dict[str, Any]]:
    rank = LEVELS.index(level)
    stream = (
        {'puzzle': puzzle.name, 'level': level}
        | puzzle.generate(Draws(*address, puzzle.name, rank, index), rank)
        for index in itertools.count()
    )
    try:
        return take_new(
            stream,
            count=count,
            seen=seen,
            key=puzzle.question_hash,
            patience=_PATIENCE,
            description='that no other split or level has',
        )
    except InputError as e:
        raise InputError(
            f'{address[-1]} problems of {puzzle.name} at level {level!r}: {e}'
        ) from None

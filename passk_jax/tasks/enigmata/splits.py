"""Problems of every split; none occurs twice, whatever its split or level.

Problem ``index`` of a split, puzzle and level is drawn from a stream that these and the
seed name. A problem that came before is left out, so the draws of a later split or
level replace it; test problems depend on no other split.
"""

import itertools
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks.enigmata.draws import Draws
from passk_jax.tasks.enigmata.puzzle import LEVELS, Puzzle
from passk_jax.tasks.new_items import take_new

# In the order of generation.
SPLITS = ('test', 'validation', 'train')

# Draws without a new problem after which a puzzle has no more: at least, and for each
# problem found.
_PATIENCE = (1000, 10)


def generate_splits(
    puzzle: Puzzle,
    *,
    levels: tuple[str, ...],
    counts: dict[str, int],
    seed: int,
    upto: str = 'train',
) -> dict[str, list[dict[str, Any]]]:
    """The data of the problems of a puzzle, level by level.

    Args:
        puzzle: makes them.
        levels: some of ``LEVELS``.
        counts: split -> number of problems of each level.
        seed: decides which problems are drawn.
        upto: the last split to make, in the order of ``SPLITS``.

    Returns:
        Split -> data, which names its ``puzzle`` and ``level``.

    Raises:
        ValueError: a level has fewer problems than its splits ask for.
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
            wanted='that no other split or level has',
        )
    except InputError as e:
        raise InputError(
            f'{address[-1]} problems of {puzzle.name} at level {level!r}: {e}'
        ) from None

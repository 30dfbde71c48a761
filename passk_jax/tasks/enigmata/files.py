"""Puzzles whose problems come from local files.

A problem's split depends only on its content, not on the seed or the order of the
records. Problems of one group, such as conclusions from the same premises, are in one
split; repeats are dropped. If a benchmark has files for tests, they are the test split;
otherwise a share of all problems is.
"""

import abc
import hashlib
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from passk_jax.errors import InputError
from passk_jax.tasks.enigmata.puzzle import MALFORMED, AnyPuzzle
from passk_jax.tasks.enigmata.splits import SPLITS

# Percent of the groups in each split. _TEST applies only without test files.
_VALIDATION, _TEST = 10, 20


class FileProblem(NamedTuple):
    """A problem of a file.

    Attributes:
        group: problems with the same group go to the same split.
        level: one of ``LEVELS``.
        data: as :class:`AnyPuzzle` describes it.
    """

    group: str
    level: str
    data: dict[str, Any]


class FilePuzzle(AnyPuzzle):
    """A kind of puzzle whose problems come from local files.

    Attributes:
        files: paths below the data directory.
        test_files: paths of files whose problems are only for tests; if there are none,
            a share of ``files`` is for tests.
        origin: where to get the files, in which form, and their licence.
    """

    files: ClassVar[tuple[str, ...]]
    test_files: ClassVar[tuple[str, ...]] = ()
    origin: ClassVar[str]

    @abc.abstractmethod
    def problems(self, file: pathlib.Path) -> Iterable[FileProblem]:
        """Reads the problems of a file.

        Raises one of ``MALFORMED`` if the file is malformed.
        """


def read_splits(
    puzzle: FilePuzzle,
    *,
    levels: tuple[str, ...],
    counts: Mapping[str, int],
    data_dir: str,
) -> dict[str, list[dict[str, Any]]]:
    """Reads the data of a puzzle's problems, level by level.

    Args:
        puzzle: reads the files.
        levels: some of ``LEVELS``.
        counts: split -> maximum number of problems of each level.
        data_dir: the directory of the files; ``''``: the working directory.

    Returns:
        Split -> data with its ``puzzle`` and ``level``.

    Raises:
        ValueError: a file is missing or malformed, or has no problem of these levels.
    """
    by_split = _group_by_split(puzzle, pathlib.Path(data_dir).expanduser())
    present = {level for problem in by_split.values() for _, level, _ in problem}
    if not present & set(levels):
        raise InputError(
            f'{puzzle.name} has problems of the levels {sorted(present)}, but none of '
            f'{list(levels)}'
        )
    splits: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for split in SPLITS:
        problems = sorted(
            by_split[split], key=lambda one: puzzle.question_hash(one.data)
        )
        for level in levels:
            several = [problem.data for problem in problems if problem.level == level]
            splits[split] += [
                {'puzzle': puzzle.name, 'level': level} | data
                for data in several[: counts[split]]
            ]
    return splits


def _group_by_split(
    puzzle: FilePuzzle, home: pathlib.Path
) -> dict[str, list[FileProblem]]:
    by_split: dict[str, list[FileProblem]] = {split: [] for split in SPLITS}
    seen: set[bytes] = set()
    # Files for tests come first, so that no other split has one of their groups.
    for name in (*puzzle.test_files, *puzzle.files):
        tested = {problem.group for problem in by_split['test']}
        for problem in _read(puzzle, home / name):
            for_test = name in puzzle.test_files
            split = 'test' if for_test else _split(puzzle, problem.group)
            digest = puzzle.question_hash(problem.data)
            if digest in seen or (split != 'test' and problem.group in tested):
                continue
            seen.add(digest)
            by_split[split].append(problem)
    return by_split


def _split(puzzle: FilePuzzle, group: str) -> str:
    """Returns the split of a group of ``files``."""
    digest = hashlib.sha256(f'{puzzle.name}\n{group}'.encode('utf-8', 'surrogatepass'))
    place = int.from_bytes(digest.digest()[:8], 'big') % 100
    if place < _VALIDATION:
        return 'validation'
    if place < _VALIDATION + _TEST and not puzzle.test_files:
        return 'test'
    return 'train'


def _read(puzzle: FilePuzzle, file: pathlib.Path) -> list[FileProblem]:
    if not file.exists():
        raise InputError(
            f'puzzle {puzzle.name} reads {str(file)!r}, which is absent: '
            f'{puzzle.origin}'
        )
    try:
        return list(puzzle.problems(file))
    except InputError:
        raise
    except MALFORMED as e:
        raise InputError(f'{file}: malformed: {type(e).__name__}: {e}') from e

"""Reads problems of ARC-AGI-1 from a local copy of its files.

A task has examples, pairs of an input and an output grid, and one or more tests. Each
test is a problem: the 400 training tasks have 416, the 400 evaluation tasks 419.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks import records
from passk_jax.verifiers.answers import Wrong
from passk_jax.verifiers.grids import Grid, check_grid, grid_text, grids_in

HOW_TO_GET = (
    'git clone https://github.com/fchollet/ARC-AGI (400 + 400 tasks, Apache-2.0), with '
    'the folders data/training and data/evaluation'
)
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError)


@dataclasses.dataclass(frozen=True)
class Pair:
    """An input and an output grid."""

    input: Grid
    output: Grid


@dataclasses.dataclass(frozen=True)
class ArcItem:
    """A task of the benchmark.

    Attributes:
        name: the name of its file, eight hexadecimal digits.
        train: the examples.
        test: the tests with their answers.
    """

    name: str
    train: tuple[Pair, ...]
    test: tuple[Pair, ...]

    @property
    def content_hash(self) -> str:
        """Hashes the examples; tests and name do not count."""
        return _hash_of_pairs([(pair.input, pair.output) for pair in self.train])

    @property
    def examples(self) -> str:
        """Returns the examples as text."""
        return '\n\n'.join(map(pair_text, self.train))


def hash_of_text(question: str) -> str | None:
    """Computes the content hash of a task from its text; ``None`` without grids.

    Args:
        question: the grids of the examples, input before output, then the input of a
            test; text between the grids does not count.
    """
    try:
        grids = grids_in(question)
    except Wrong:
        return None
    if len(grids) < 3 or len(grids) % 2 == 0:
        return None
    return _hash_of_pairs(list(zip(grids[0:-1:2], grids[1:-1:2], strict=True)))


def _hash_of_pairs(grids: list[tuple[Grid, Grid]]) -> str:
    # Brackets separate the rows, because the hash ignores white space.
    return records.content_hash(json.dumps(grids))


def pair_text(pair: Pair) -> str:
    """Formats a pair as the prompts show it."""
    return f'Input:\n{grid_text(pair.input)}\nOutput:\n{grid_text(pair.output)}'


def read_tasks(path: pathlib.Path) -> list[ArcItem]:
    """Reads the tasks of a set, sorted by name.

    Args:
        path: a JSON file with an object of tasks by name, or a folder with one file per
            task.

    Raises:
        ValueError: the path is missing (the message says how to get it) or malformed.
    """
    if not path.exists():
        raise InputError(f'{str(path)!r} of ARC-AGI-1 is absent: {HOW_TO_GET}')
    tasks = []
    for name, file, value in _values(path):
        try:
            tasks.append(parse_task(value, name=name))
        except ValueError as e:
            raise InputError(f'{file}: task {name!r}: {e}') from e
    if not tasks:
        raise InputError(f'{str(path)!r} has no tasks: {HOW_TO_GET}')
    return sorted(tasks, key=lambda task: task.name)


def parse_task(value: Any, *, name: str) -> ArcItem:
    """Reads the benchmark's record of a task; ValueError if it is malformed."""
    try:
        train, test = (
            tuple(
                Pair(check_grid(pair['input']), check_grid(pair['output']))
                for pair in value[part]
            )
            for part in ('train', 'test')
        )
    except _MALFORMED as e:
        raise InputError(f'malformed record: {type(e).__name__}: {e}') from None
    if not train or not test:
        raise InputError('malformed record: no examples, or no tests')
    return ArcItem(name, train, test)


def _values(path: pathlib.Path) -> Iterator[tuple[str, pathlib.Path, Any]]:
    """Yields name, file and record of each task."""
    if path.is_dir():
        for file in path.glob('*.json'):
            yield file.stem, file, _json(file)
        return
    tasks_by_name = _json(path)
    if not isinstance(tasks_by_name, Mapping):
        raise InputError(f'{path}: no object of tasks by name')
    for name, value in tasks_by_name.items():
        yield name, path, value


def _json(file: pathlib.Path) -> Any:
    try:
        return json.loads(records.read_text(file))
    except (ValueError, RecursionError) as e:
        if isinstance(e, InputError):
            raise
        raise InputError(f'{file}: not JSON: {e}') from e

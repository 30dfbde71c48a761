"""Reads a run directory, the report's only input.

A run may be young, still writing, interrupted or damaged, so any part may be missing.
Lines that are not complete JSON objects, and values that no run writes, are skipped. A
long run is reduced to means (see :mod:`.thinning`).
"""

import dataclasses
import itertools
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from passk_jax.errors import InputError
from passk_jax.evaluation import metrics
from passk_jax.files import parse_json, read_json
from passk_jax.report.thinning import Row, Thinned
from passk_jax.runs.records import evaluation_name

_STEP = re.compile(r'step_([0-9]{1,15})\.jsonl')
_PASS = r'pass_at_([1-9][0-9]{0,8})'
# The most rows in a report: training steps, evaluations of a split, diagnosed steps.
_MOST_STEPS, _MOST_EVALUATIONS, _MOST_DIAGNOSED = 1000, 250, 100
# Bounds of steps and of float32 values.
_LAST_STEP, _LARGEST = 2**31, float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class Run:
    """The data that a run has written so far.

    Attributes:
        path: the run directory.
        config: the resolved configuration; ``{}`` if absent.
        git: the revision of the code; ``{}`` if absent.
        train: metrics of the training steps, in order. In a long run, most rows are
            means of several rows; this holds for the following attributes too.
        evaluations: split -> metrics of its evaluations, in the order of steps.
        timing: timings of the training steps, in order.
        diagnostics: diagnostics of the diagnosed steps, in order; lists are arrays.
        dumps: step -> the file of its rollouts, ascending.
    """

    path: pathlib.Path
    config: Row
    git: Row
    train: list[Row]
    evaluations: dict[str, list[Row]]
    timing: list[Row]
    diagnostics: list[Row]
    dumps: dict[int, pathlib.Path]

    def option(self, dotted: str, default: Any = None) -> Any:
        """Returns the value of a dotted key of the configuration."""
        value: Any = self.config
        for key in dotted.split('.'):
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return value

    def advantages(self) -> list[tuple[int, Row]]:
        """Returns first step and section ``advantage`` of each stage, in order."""
        first = _mapping(self.option('advantage'))
        later = map(_mapping, _mapping(self.option('stages')).values())
        stages = [
            (section['start'], first | _mapping(section.get('advantage')))
            for section in later
            if _is_number(section.get('start'))
        ]
        return [(0, first), *sorted(stages, key=lambda stage: stage[0])]

    def borders(self) -> tuple[int, ...]:
        """Returns the first step of every later stage that has begun."""
        pairs = itertools.pairwise(self.train)
        begin = (
            row for before, row in pairs if row.get('stage') != before.get('stage')
        )
        return tuple(row['step'] for row in begin)


def read_run(workdir: str | os.PathLike[str]) -> Run:
    """Reads a run, except its rollouts; see :meth:`RunReader.read`."""
    return RunReader(workdir).read()


class RunReader:
    """A reader of a growing run, which reads each line only once.

    Args:
        workdir: the run directory.
    """

    def __init__(self, workdir: str | os.PathLike[str]):
        self._path = pathlib.Path(workdir)
        self._metrics = _Lines(self._path / 'metrics.jsonl')
        self._timing = _Lines(self._path / 'timing.jsonl')
        self._diagnostics = _Lines(self._path / 'diagnostics.jsonl')
        self._of_splits = {'train': Thinned(_MOST_STEPS)}
        self._of_timing = Thinned(_MOST_STEPS, merged=_without_start)
        self._of_diagnostics = Thinned(_MOST_DIAGNOSED)

    def read(self) -> Run:
        """Reads all data so far, except the rollouts.

        Raises:
            InputError: the directory does not exist.
        """
        if not self._path.is_dir():
            raise InputError(f'no run directory at {self._path}')
        for line in self._metrics.new():
            if row := _numbers(line):
                split = row['split'] = str(line.get('split'))
                if split not in self._of_splits:
                    self._of_splits[split] = Thinned(_MOST_EVALUATIONS)
                self._of_splits[split].add(row)
        for line in self._timing.new():
            if row := _numbers(line):
                self._of_timing.add(row)
        for line in self._diagnostics.new():
            if row := _numbers(line):
                self._of_diagnostics.add(row | _lists(line))
        by_split = {split: _sort_rows(rows) for split, rows in self._of_splits.items()}
        files = (self._path / 'rollouts').glob('*.jsonl')
        dumps = {int(m[1]): file for file in files if (m := _STEP.fullmatch(file.name))}
        return Run(
            path=self._path,
            config=_read_object(self._path / 'config.json'),
            git=_read_object(self._path / 'git.json'),
            train=by_split.pop('train'),
            evaluations=by_split,
            timing=_sort_rows(self._of_timing),
            diagnostics=_sort_rows(self._of_diagnostics),
            dumps=dict(sorted(dumps.items())),
        )


class _Lines:
    """The lines of a growing file."""

    def __init__(self, path: pathlib.Path):
        self._path, self._place = path, 0

    def new(self) -> Iterator[Row]:
        """Yields the objects of the complete lines since the last call."""
        if not self._path.is_file():
            return
        with self._path.open('rb') as stream:
            stream.seek(self._place)
            for line in stream:
                if not line.endswith(b'\n'):
                    return
                self._place += len(line)
                if (row := _object(line)) is not None:
                    yield row


def _mapping(value: Any) -> Row:
    return value if isinstance(value, dict) else {}


def _sort_rows(rows: Thinned) -> list[Row]:
    return sorted(rows.rows(), key=lambda row: row['step'])


def _numbers(line: Row) -> Row:
    """Returns the step and the numbers of a line; ``{}`` for a line without a step."""
    step = line.get('step')
    if type(step) is not int or not 0 <= step < _LAST_STEP:
        return {}
    # The test of _is_number(), inlined for speed.
    return {
        name: value
        for name, value in line.items()
        if type(value) in (int, float) and -_LARGEST <= value <= _LARGEST
    }


def _lists(line: Row) -> dict[str, np.ndarray]:
    return {
        name: np.array(value, float)
        for name, value in line.items()
        if isinstance(value, list) and value and all(map(_is_number, value))
    }


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST


def _without_start(row: Row) -> Row:
    """Reduces a process's first step to step and seconds, because it compiles."""
    if 'start_seconds' not in row:
        return row
    return {name: row[name] for name in ('step', 'seconds') if name in row}


def read_lines(path: pathlib.Path) -> list[Row]:
    """Returns the JSON objects of a file of lines; none if it is absent."""
    # os.path.isfile() also accepts names that no file can have.
    if not os.path.isfile(path):
        return []
    # Text mode would also split lines at characters such as U+2028.
    with path.open('rb') as stream:
        return [row for line in stream if (row := _object(line)) is not None]


def _object(line: bytes) -> Row | None:
    try:
        row = parse_json(line.decode(errors='replace'))
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def measure_categories(run: Run, split: str, step: int) -> Row:
    """Computes ``<category>/pass_at_<k>`` for every k, from n and c of each problem.

    The metrics file has only the smallest and the largest k.
    """
    rows, result = evaluation_records(run, split, step), {}
    n, c = (np.array([row[x] for row in rows], int) for x in ('n', 'c'))
    masks = metrics.mask_by_category([str(row.get('category', '')) for row in rows])
    for name, mask in masks.items():
        for k, values in metrics.pass_at_powers(n[mask], c[mask]).items():
            result[f'{name}/pass_at_{k}'] = float(values.mean())
    return result


def correct_counts(run: Run, split: str, step: int) -> dict[int, int]:
    """Returns problem id -> number of correct responses; ``{}`` without a file."""
    return counts_in(run.path / 'evaluation' / evaluation_name(split, step))


def counts_in(file: pathlib.Path) -> dict[int, int]:
    """Returns problem id -> number of correct responses in an evaluation's file."""
    rows = (x for x in _records_in(file) if isinstance(x.get('problem_id'), int))
    return {row['problem_id']: row['c'] for row in rows}


def evaluation_records(run: Run, split: str, step: int) -> list[Row]:
    """Returns the record of each problem of an evaluation; none if the file is absent.

    Each record has at least n and c. Those of ``passk_jax.evaluation.evaluate`` also
    have the parsed answers and their verdicts.
    """
    return _records_in(run.path / 'evaluation' / evaluation_name(split, step))


def _records_in(file: pathlib.Path) -> list[Row]:
    counts = [(row, row.get('n'), row.get('c')) for row in read_lines(file)]
    return [
        row
        for row, n, c in counts
        if type(n) is int and type(c) is int and 0 <= c <= n < _LAST_STEP and n
    ]


def ks_of(rows: list[Row]) -> list[int]:
    """Returns every k with a ``pass_at_<k>`` in any of the rows, ascending."""
    matches = (re.fullmatch(_PASS, name) for row in rows for name in row)
    return sorted({int(match[1]) for match in matches if match})


def categories_of(rows: list[Row]) -> list[str]:
    """Returns the categories with a ``pass_at_<k>``, numbers in numeric order."""

    def parts(name: str) -> list[tuple[int, int, str]]:
        # Python refuses to parse numbers of thousands of digits.
        split = filter(None, re.split(r'([0-9]{1,18})', name))
        digits = re.compile('[0-9]+')
        return [(0, int(x), '') if digits.fullmatch(x) else (1, 0, x) for x in split]

    matches = (
        re.fullmatch(f'(.+)/{_PASS}', name, re.S) for row in rows for name in row
    )
    return sorted({match[1] for match in matches if match}, key=parts)


def _read_object(path: pathlib.Path) -> Row:
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return _mapping(content)

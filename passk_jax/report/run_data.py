"""Reads a run directory, the report's only input.

A run may be young, still writing, or cut short, so any part may be missing. Reading
skips lines that are not whole JSON objects.
"""

import dataclasses
import itertools
import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from passk_jax.errors import InputError
from passk_jax.evaluation import metrics
from passk_jax.runs.metric_writer import evaluation_name

_STEP = re.compile(r'step_(\d+)\.jsonl$')

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run has written so far.

    Attributes:
        path: the run directory.
        config: the resolved configuration, ``{}`` if absent.
        git: the revision of the code, ``{}`` if absent.
        train: metrics of the training steps, in order.
        evaluations: split -> its evaluations, in order of their steps.
        timing: timings of the training steps.
        diagnostics: lines of the diagnosed steps, in order.
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
        """The value of a dotted key of the configuration."""
        value: Any = self.config
        for key in dotted.split('.'):
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return value

    def advantages(self) -> list[tuple[int, Row]]:
        """The first step of each stage, with its section ``advantage``; in order."""
        first = self.option('advantage', {})
        later = self.option('stages', {}).values()
        stages = [
            (section['start'], first | section.get('advantage', {}))
            for section in later
        ]
        return [(0, first), *sorted(stages, key=lambda stage: stage[0])]

    def borders(self) -> tuple[int, ...]:
        """The first step of every later stage, as far as it was reached."""
        pairs = itertools.pairwise(self.train)
        begin = (
            row for before, row in pairs if row.get('stage') != before.get('stage')
        )
        return tuple(row['step'] for row in begin)


def read_run(workdir: str | os.PathLike[str]) -> Run:
    """Reads everything except the rollouts.

    Raises:
        InputError: the directory does not exist.
    """
    path = pathlib.Path(workdir)
    if not path.is_dir():
        raise InputError(f'no run directory at {path}')
    rows = [row for row in read_lines(path / 'metrics.jsonl') if 'step' in row]
    by_split: dict[str, list[Row]] = {'train': []}
    for row in sorted(rows, key=lambda row: row['step']):
        by_split.setdefault(str(row.get('split')), []).append(row)
    files = (path / 'rollouts').glob('*.jsonl')
    dumps = {int(m[1]): file for file in files if (m := _STEP.search(file.name))}
    return Run(
        path=path,
        config=_read_object(path / 'config.json'),
        git=_read_object(path / 'git.json'),
        train=by_split.pop('train'),
        evaluations=by_split,
        timing=read_lines(path / 'timing.jsonl'),
        diagnostics=[r for r in read_lines(path / 'diagnostics.jsonl') if 'step' in r],
        dumps=dict(sorted(dumps.items())),
    )


def read_lines(path: pathlib.Path) -> list[Row]:
    """The JSON objects of a file of lines; none if it is absent."""
    rows = []
    if path.exists():
        # splitlines() would also split at characters of a response, such as U+2028.
        for line in path.read_text(errors='replace').split('\n'):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                rows.append(row)
    return rows


def measure_categories(run: Run, split: str, step: int) -> Row:
    """``<category>/pass_at_<k>`` for every k, from the (n, c) of each problem.

    The metrics file has only the smallest and the largest k.
    """
    rows, result = evaluation_records(run, split, step), {}
    n, c = (np.array([row[x] for row in rows], int) for x in ('n', 'c'))
    masks = metrics.mask_by_category([row.get('category', '') for row in rows])
    for name, mask in masks.items():
        for k, values in metrics.pass_at_powers(n[mask], c[mask]).items():
            result[f'{name}/pass_at_{k}'] = float(values.mean())
    return result


def correct_counts(run: Run, split: str, step: int) -> dict[int, int]:
    """Problem id -> c, its number of correct responses; empty without the file."""
    return counts_in(run.path / 'evaluation' / evaluation_name(split, step))


def counts_in(file: pathlib.Path) -> dict[int, int]:
    """Those of an evaluation's file; empty without it."""
    rows = _records_in(file)
    return {row['problem_id']: row['c'] for row in rows if 'problem_id' in row}


def evaluation_records(run: Run, split: str, step: int) -> list[Row]:
    """What an evaluation kept of each problem, in its order; none without the file.

    Each record has at least n and c. Those of ``passk_jax.evaluation.evaluate`` also
    have the parsed answers and whether each is correct.
    """
    return _records_in(run.path / 'evaluation' / evaluation_name(split, step))


def _records_in(file: pathlib.Path) -> list[Row]:
    rows = read_lines(file)
    return [r for r in rows if all(isinstance(r.get(x), int) for x in ('n', 'c'))]


def ks_of(rows: list[Row]) -> list[int]:
    """Every k with a ``pass_at_<k>`` in any of the rows, ascending."""
    matches = (re.fullmatch(r'pass_at_(\d+)', name) for row in rows for name in row)
    return sorted({int(match[1]) for match in matches if match})


def categories_of(rows: list[Row]) -> list[str]:
    """Every category with a ``<category>/pass_at_<k>``, numbers in numeric order."""

    def parts(name: str) -> list[tuple[int, int, str]]:
        split = filter(None, re.split(r'(\d+)', name))
        return [(0, int(x), '') if x.isdigit() else (1, 0, x) for x in split]

    matches = (re.fullmatch(r'(.+)/pass_at_\d+', name) for row in rows for name in row)
    return sorted({match[1] for match in matches if match}, key=parts)


def _read_object(path: pathlib.Path) -> Row:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}

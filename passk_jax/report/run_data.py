"""Reads a run directory, the only input of the report.

A run may be young, still writing, or cut short, so any part may be missing. Lines that
are not whole JSON objects are skipped.
"""

import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from passk_jax import metrics
from passk_jax.errors import InputError

_STEP = re.compile(r'step_(\d+)\.jsonl$')

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run has written so far.

    Attributes:
        path: the run directory.
        config: the resolved configuration, ``{}`` if absent.
        git: the revision of the code, ``{}`` if absent.
        train: metrics of the training steps, in their order.
        evaluations: split -> its evaluations, by step.
        timing: timings of the training steps.
        dumps: step -> the file of its rollouts, ascending.
    """

    path: pathlib.Path
    config: Row
    git: Row
    train: list[Row]
    evaluations: dict[str, list[Row]]
    timing: list[Row]
    dumps: dict[int, pathlib.Path]

    def option(self, dotted: str, default: Any = None) -> Any:
        """The config's value of a dotted key."""
        value: Any = self.config
        for key in dotted.split('.'):
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return value


def read_run(workdir: str | os.PathLike[str]) -> Run:
    """Reads everything but the rollouts.

    Raises:
        InputError: the directory does not exist.
    """
    path = pathlib.Path(workdir)
    if not path.is_dir():
        raise InputError(f'no run directory at {path}')
    rows = [row for row in read_lines(path / 'metrics.jsonl') if 'step' in row]
    rows.sort(key=lambda row: row['step'])
    evaluations: dict[str, list[Row]] = {}
    for row in rows:
        if row.get('split') != 'train':
            evaluations.setdefault(str(row.get('split')), []).append(row)
    dumps = {}
    for file in (path / 'rollouts').glob('*.jsonl'):
        if match := _STEP.search(file.name):
            dumps[int(match.group(1))] = file
    return Run(
        path=path,
        config=_read_object(path / 'config.json'),
        git=_read_object(path / 'git.json'),
        train=[row for row in rows if row.get('split') == 'train'],
        evaluations=evaluations,
        timing=read_lines(path / 'timing.jsonl'),
        dumps=dict(sorted(dumps.items())),
    )


def read_lines(path: pathlib.Path) -> list[Row]:
    """The JSON objects of a file of lines; none if it is absent."""
    rows = []
    if path.exists():
        # splitlines() would also split at what a response may hold, as U+2028.
        for line in path.read_text(errors='replace').split('\n'):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                rows.append(row)
    return rows


def by_category(run: Run, split: str, step: int) -> Row:
    """``<category>/pass_at_<k>`` for every k, from the (n, c) of each problem.

    The metrics files hold only the smallest and the largest k.
    """
    file = run.path / 'evaluation' / f'{split}_step_{step:08d}.jsonl'
    counts: dict[str, list[tuple[int, int]]] = {}
    for row in read_lines(file):
        if isinstance(row.get('n'), int) and isinstance(row.get('c'), int):
            counts.setdefault(row.get('category', ''), []).append((row['n'], row['c']))
    found = {}
    for category, pairs in counts.items():
        n, c = np.array(pairs).T
        for k, values in metrics.pass_at_powers(n, c).items():
            found[f'{category}/pass_at_{k}'] = float(values.mean())
    return found


def ks_of(rows: list[Row]) -> list[int]:
    """Every k with a ``pass_at_<k>`` in any of the rows, ascending."""
    names = {key for row in rows for key in row}
    matches = (re.fullmatch(r'pass_at_(\d+)', name) for name in names)
    return sorted(int(match.group(1)) for match in matches if match)


def categories_of(rows: list[Row]) -> list[str]:
    """Every category with a ``<category>/pass_at_<k>``, numbers in their order."""
    names = {key for row in rows for key in row}
    matches = (re.fullmatch(r'(.+)/pass_at_\d+', name) for name in names)
    found = {match.group(1) for match in matches if match}
    return sorted(
        found,
        key=lambda name: [
            (0, int(part), '') if part.isdigit() else (1, 0, part)
            for part in re.split(r'(\d+)', name)
            if part
        ],
    )


def _read_object(path: pathlib.Path) -> Row:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}

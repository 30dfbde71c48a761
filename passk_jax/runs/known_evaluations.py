"""Evaluations that a process need not make, because their results are known.

The runs of a sweep with one seed start from the same policy and use the same random
keys. So their evaluations before step 0 are bitwise equal, and one run makes them for
all. Copies are in ``<workdir>/warm_start/evaluation``, a file for each split, beside
the warm start, which comes from the same run.

A resumed run evaluates again the state that it resumes from, unless the process before
has written that evaluation, as it did if the run is finished.
"""

import json
import pathlib
from typing import Any

import jax

from passk_jax.files import atomic_write_text, parse_json, read_json
from passk_jax.runs.digests import digest
from passk_jax.runs.records import Lines, evaluation_name
from passk_jax.runtime import hosts

Evaluation = tuple[dict[str, float], list[dict[str, Any]]]
"""Metrics by name, and a record of each problem."""

# What the log of a run adds to an evaluation's metrics.
_ADDED = ('step', 'stage', 'split', 'flips_solved', 'flips_unsolved')


def copy_first(source: pathlib.Path, target: pathlib.Path, split: str) -> bool:
    """Copies the evaluation of a split before step 0; returns False if there is none.

    Args:
        source, target: run directories; the target has a warm start.
        split: the split.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the source is damaged.
    """
    # A run writes metrics before records, so both are complete.
    if not (source / 'evaluation' / evaluation_name(split, 0)).exists():
        return False
    if (evaluation := read_written(source, 0).get(split)) is None:
        raise ValueError(f'{source} has no whole evaluation of {split!r} before step 0')
    path = _path(target, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(path, json.dumps(evaluation) + '\n')
    return True


class KnownEvaluations:
    """The evaluations of a run that need not be made again.

    Make it before the run's files are opened: that drops those of the first step.

    Args:
        workdir: the run directory.
        start: the first step of this process.
    """

    def __init__(self, workdir: pathlib.Path, start: int):
        self._workdir, self._start = workdir, start
        self._written: dict[str, Evaluation] = {}
        if jax.process_index() == 0:
            self._written = read_written(workdir, start)

    def get(self, step: int, split: str) -> Evaluation | None:
        """Returns the evaluation before a step, or ``None``; all processes call it."""
        if step > self._start:
            return None
        # A shared file system may show files to some processes only later.
        return hosts.broadcast(
            lambda: self._written.get(split) or _read_copy(self._workdir, step, split)
        )


def read_written(workdir: pathlib.Path, step: int) -> dict[str, Evaluation]:
    """Returns split -> evaluation before a step, of those that a run wrote completely.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file of lines is damaged before its last line.
    """
    lines = Lines(workdir)
    digests = {row['file']: row['sha256'] for _, row in lines.rows('digests')}
    evaluations = {}
    for _, row in lines.rows('metrics'):
        split = row.get('split', '')
        name = f'evaluation/{evaluation_name(split, step)}'
        path = workdir / name
        if row['step'] != step or name not in digests or not path.is_file():
            continue
        if digest(path) == digests[name]:
            values = {key: row[key] for key in row if key not in _ADDED}
            text = path.read_text(encoding='utf-8')
            records = [parse_json(line) for line in text.split('\n') if line]
            evaluations[split] = values, records
    return evaluations


def _read_copy(workdir: pathlib.Path, step: int, split: str) -> Evaluation | None:
    path = _path(workdir, split)
    if step > 0 or not path.exists():
        return None
    values, rows = read_json(path)
    return values, rows


def _path(workdir: pathlib.Path, split: str) -> pathlib.Path:
    return workdir / 'warm_start' / 'evaluation' / f'{split}.json'

"""Copies evaluations before step 0 between runs with the same first policy.

The runs of a sweep with one seed start from the same policy and use the same random
keys. So their evaluations before step 0 are bitwise equal, and one run makes them for
all. Copies are in ``<workdir>/warm_start/evaluation``, a file for each split, beside
the warm start, which comes from the same run.
"""

import json
import pathlib
from typing import Any

from passk_jax.files import atomic_write_text, parse_json, read_json
from passk_jax.runs.records import evaluation_name

Evaluation = tuple[dict[str, float], list[dict[str, Any]]]
"""Metrics by name, and a record of each problem."""

_OF_A_LINE = ('step', 'stage', 'split')


def copy(source: pathlib.Path, target: pathlib.Path, split: str) -> bool:
    """Copies the evaluation of a split; returns False if the source has none yet.

    Args:
        source, target: run directories; the target has a warm start.
        split: the split.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the source is damaged.
    """
    records = source / 'evaluation' / evaluation_name(split, 0)
    lines = source / 'metrics.jsonl'
    # A run writes metrics before records, so both are complete.
    if not (records.exists() and lines.exists()):
        return False
    values = _values(lines, split)
    text = records.read_text(encoding='utf-8')
    rows = [parse_json(line) for line in text.split('\n') if line]
    path = _path(target, split)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(path, json.dumps([values, rows]) + '\n')
    return True


def read(workdir: pathlib.Path, split: str) -> Evaluation | None:
    """Returns the copied evaluation of a split; ``None`` if there is none."""
    path = _path(workdir, split)
    if not path.exists():
        return None
    values, rows = read_json(path)
    return values, rows


def _path(workdir: pathlib.Path, split: str) -> pathlib.Path:
    return workdir / 'warm_start' / 'evaluation' / f'{split}.json'


def _values(lines: pathlib.Path, split: str) -> dict[str, float]:
    for line in lines.read_text(encoding='utf-8').split('\n'):
        row = parse_json(line) if line else {}
        if (row.get('split'), row.get('step')) == (split, 0):
            return {name: row[name] for name in row if name not in _OF_A_LINE}
    raise ValueError(f'{lines} has no evaluation of {split!r} before step 0')

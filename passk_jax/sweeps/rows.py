"""Reads and writes the rows of a sweep's results: compressed lines of JSON objects."""

import gzip
import json
import pathlib
from collections.abc import Sequence

from passk_jax.files import parse_json
from passk_jax.report.run_data import Row


def compress_rows(rows: Sequence[Row]) -> bytes:
    """Writes one JSON object per line, compressed; equal rows give equal bytes."""
    text = ''.join(json.dumps(row) + '\n' for row in rows)
    return gzip.compress(text.encode(), mtime=0)


def read_rows(path: pathlib.Path) -> list[Row]:
    """Reads rows that :func:`compress_rows` wrote.

    Raises:
        OSError, EOFError, ValueError: the file is absent or damaged.
    """
    with gzip.open(path, 'rt', encoding='utf-8') as lines:
        return [parse_json(line) for line in lines]


def join_stages(rows: Sequence[Row]) -> list[Row]:
    """Returns rows in which the steps of a later stage continue those of the earlier.

    The stages of an arm and a seed are runs, whose rows follow one another. The first
    evaluations of a later stage are left out: the earlier stage ended with that policy.

    >>> stage = lambda run: [dict(arm='a', seed=0, run=run, step=n) for n in (0, 5)]
    >>> [(row['run'], row['step']) for row in join_stages([*stage('1'), *stage('2')])]
    [('1', 0), ('1', 5), ('2', 10)]
    """
    ends: dict[tuple[str, int], dict[str, int]] = {}
    joined = []
    for row in rows:
        runs = ends.setdefault((row['arm'], row['seed']), {})
        # Rows of other evaluations may name no run.
        run = row.get('run', '')
        runs[run] = max(row['step'], runs.get(run, 0))
        earlier = sum(steps for name, steps in runs.items() if name != run)
        if row['step'] or not earlier:
            joined.append({**row, 'step': earlier + row['step']})
    return joined

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

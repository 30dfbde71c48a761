"""The files that ``python -m passk_jax.evaluate`` writes, and when it replaces them.

``<name>.jsonl`` has a record for each problem. ``<name>.json`` has the settings, the
metrics, and how many problems were left out. It is written last, so if it is missing,
the evaluation was interrupted.
"""

import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from passk_jax.errors import InputError
from passk_jax.evaluation.evaluate import Record
from passk_jax.files import (
    atomic_write_bytes,
    atomic_write_text,
    json_lines,
    parse_json,
    read_json,
)
from passk_jax.runs.directory import config_differences
from passk_jax.tasks.picture_fields import picture_digests
from passk_jax.types import Problem

# The digest already identifies the problems, whatever directory they are in.
# The batch changes only rounding.
_MAY_DIFFER = 'data.dir', 'eval.batch_size'
_NEW = 'seed', 'max_response_tokens'
# Bytes of a file's name. Systems take 255; a suffix and a temporary name need the rest.
_LONGEST = 228


def name_of(split: str, step: int, flags: Mapping[str, Any]) -> str:
    """Returns the name of an evaluation's files, without a suffix."""
    changed = ''.join(f'_{key}={value}' for key, value in flags.items())
    # An argument of a config file may be a path.
    changed = changed.replace('%', '%25').replace('/', '%2F')
    name = f'{split}_step_{step:08d}{changed}'
    if len(encoded := os.fsencode(name)) <= _LONGEST:
        return name
    digest = hashlib.sha256(encoded).hexdigest()[:16]
    return encoded[: _LONGEST - 17].decode(errors='ignore') + f'_{digest}'


def digest_of(problems: Iterable[Problem]) -> str:
    """Computes the SHA-256 of the problems and their prompts, in order."""
    # Problems without turns or pictures must hash as in versions without these fields.
    rows = [
        [p.id, p.prompt, dict(p.data), p.category]
        + [part for part in (p.turns, picture_digests(p)) if part]
        for p in problems
    ]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def is_there(path: str | os.PathLike[str], settings: Mapping[str, Any]) -> bool:
    """Returns whether a complete evaluation with these settings exists.

    Args:
        path: path of its files, without a suffix.
        settings: the settings that decide the results, as JSON values.

    Raises:
        InputError: an evaluation with other settings exists; the message lists the
            differences.
    """
    file, rows = pathlib.Path(f'{path}.json'), pathlib.Path(f'{path}.jsonl')
    if not file.exists():
        return False
    message = f'{file} is of an evaluation'
    remedy = 'remove or rename it, or replace it by --overwrite'
    try:
        saved = read_json(file)
        saved = {key: saved[key] for key in settings if key in saved}
        # Files of earlier versions lack these, unless a flag had set the limit.
        stated = {k: v for k, v in settings.items() if k in saved or k not in _NEW}
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f'{message} and cannot be read ({error}): {remedy}') from error
    if config_differences(saved, stated, _MAY_DIFFER):
        differences = config_differences(saved, stated, ())
        raise InputError(f'{message} with other settings: {remedy}.{differences}')
    return rows.exists()


def write(
    path: str | os.PathLike[str], rows: Sequence[Record], summary: Mapping[str, Any]
) -> None:
    """Writes the records of an evaluation and its summary: settings and metrics."""
    lines = json_lines(rows)
    # Never leave old settings beside new records.
    pathlib.Path(f'{path}.json').unlink(missing_ok=True)
    atomic_write_bytes(f'{path}.jsonl', lines)
    atomic_write_text(f'{path}.json', json.dumps(summary, indent=2) + '\n')


def read(path: str | os.PathLike[str]) -> tuple[list[Record], dict[str, Any]]:
    """Reads the records and the summary that :func:`write` wrote.

    Raises:
        InputError: a file cannot be read.
    """
    try:
        # splitlines() would also split at characters of a response, such as U+2028.
        lines = pathlib.Path(f'{path}.jsonl').read_text('utf-8').split('\n')
        summary = read_json(f'{path}.json')
        return [parse_json(line) for line in lines if line], summary
    except (OSError, ValueError) as error:
        raise InputError(f'{path}.jsonl or .json cannot be read: {error}') from error

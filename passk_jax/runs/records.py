"""Checks that a resumed run's records of earlier steps are complete and unchanged.

Files of lines (:data:`LINES`) have lines in the order of the steps. The commit of a
checkpoint has a digest of the lines before its step. One of these files,
``digests.jsonl``, has a digest of each file of rollouts and evaluations. Runs that are
older than digests are checked only for completeness.
"""

import hashlib
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from passk_jax.errors import InputError
from passk_jax.files import atomic_write_bytes, parse_json
from passk_jax.runs.digests import digest

LINES = ('metrics', 'timing', 'diagnostics', 'digests')
"""Names of the files of lines, without ``.jsonl``."""

_STEP_OF_FILE = re.compile(r'step_(\d+)\.jsonl$')
_KINDS: Mapping[str, type] = {'step': int, 'split': str, 'file': str, 'sha256': str}
_SHOWN_STEPS, _SHOWN_FILES = 5, 3


def evaluation_name(split: str, step: int) -> str:
    """Returns the name of an evaluation's file in ``evaluation/``."""
    return f'{split}_step_{step:08d}.jsonl'


def rollouts_name(step: int) -> str:
    """Returns the name of a step's file in ``rollouts/``."""
    return f'step_{step:08d}.jsonl'


class LinesDigest:
    """A digest of the lines of a growing file.

    Args:
        content: the lines so far, all from steps before ``step``.
        step: the next step.
    """

    def __init__(self, content: bytes, step: int):
        self._sha256, self._step = hashlib.sha256(content), step - 1
        self._before = self._sha256.hexdigest()

    def add(self, step: int, line: bytes) -> None:
        """Adds a line; its step must not be earlier than that of the previous line."""
        if step > self._step:
            self._step, self._before = step, self._sha256.hexdigest()
        self._sha256.update(line)

    def before(self, step: int) -> str:
        """Returns the digest of lines before ``step``, the newest or a later step."""
        return self._before if step == self._step else self._sha256.hexdigest()


class Lines:
    """The rows of a run's files of lines; each file is parsed once."""

    def __init__(self, workdir: pathlib.Path):
        self.workdir = workdir
        self._rows: dict[str, list[tuple[bytes, dict[str, Any]]]] = {}

    def rows(self, name: str) -> list[tuple[bytes, dict[str, Any]]]:
        """Returns each line of a file of :data:`LINES` with its row.

        Raises ValueError if the file is damaged before its last line.
        """
        if name not in self._rows:
            self._rows[name] = list(_read_rows(self.workdir / f'{name}.jsonl'))
        return self._rows[name]


def missing_records(
    lines: Lines,
    *,
    resume_step: int | None,
    splits_due: Callable[[int], Sequence[str]],
    rollouts_every: int,
    diagnostics_every: int,
) -> list[str]:
    """Lists the missing records of steps before ``resume_step``.

    Args:
        lines: the files of the run directory.
        resume_step: the step of the newest checkpoint; ``None``: no checkpoint.
        splits_due: returns the splits that are evaluated before a step.
        rollouts_every: steps between files of rollouts; 0: none.
        diagnostics_every: steps between diagnoses; 0: none.

    Raises:
        ValueError: a file of lines is damaged before its last line.
    """
    measured = {(row.get('split'), row['step']) for _, row in lines.rows('metrics')}
    if resume_step is None:
        # A run saves a checkpoint before its first step.
        began = any(split == 'train' for split, _ in measured)
        return ['every checkpoint in checkpoints/'] if began else []
    files = {
        folder: {path.name for path in (lines.workdir / folder).glob('*.jsonl')}
        for folder in ('rollouts', 'evaluation')
    }
    diagnoses = {row['step'] for _, row in lines.rows('diagnostics')}
    gone: dict[str, list[int]] = {}
    for step in range(resume_step):
        exists, splits = {}, splits_due(step)
        for split in ('train', *splits):
            exists[f'metrics.jsonl: {split!r} of'] = (split, step) in measured
        if diagnostics_every and step % diagnostics_every == 0:
            exists['diagnostics.jsonl: of'] = step in diagnoses
        if rollouts_every and step % rollouts_every == 0:
            exists['rollouts/: of'] = rollouts_name(step) in files['rollouts']
        for split in splits:
            name = evaluation_name(split, step)
            exists[f'evaluation/: {split!r} of'] = name in files['evaluation']
        for record in (name for name, is_there in exists.items() if not is_there):
            gone.setdefault(record, []).append(step)
    return [f'{record} {_format_steps(steps)}' for record, steps in gone.items()]


def changed_records(
    lines: Lines, *, step: int, digests: Mapping[str, str]
) -> list[str]:
    """Lists the files whose records before a step have changed.

    Does not list absent files of rollouts and evaluations.

    Args:
        lines: the files of the run directory.
        step: the step of a checkpoint.
        digests: name of :data:`LINES` -> digest of the lines before ``step``; names
            without a digest are not checked.

    Raises:
        ValueError: a file of lines is damaged before its last line.
    """
    changed = [
        f'{name}.jsonl'
        for name in LINES
        if name in digests and _digest_before(lines.rows(name), step) != digests[name]
    ]
    files: dict[str, str] = {}
    if 'digests' in digests and 'digests.jsonl' not in changed:
        for _, row in lines.rows('digests'):
            if row['step'] < step:
                files[row['file']] = row['sha256']
    changed += [
        name
        for name, recorded in files.items()
        if (lines.workdir / name).is_file() and digest(lines.workdir / name) != recorded
    ]
    more = len(changed) - _SHOWN_FILES
    names = changed[:_SHOWN_FILES] + ([f'{more} more files'] if more > 0 else [])
    return [f'{name} as it was before step {step}' for name in names]


def _digest_before(rows: Iterable[tuple[bytes, Mapping[str, Any]]], step: int) -> str:
    sha256 = hashlib.sha256()
    for line, row in rows:
        if row['step'] < step:
            sha256.update(line)
    return sha256.hexdigest()


def _format_steps(steps: Sequence[int]) -> str:
    first = ', '.join(map(str, steps[:_SHOWN_STEPS]))
    more = len(steps) - _SHOWN_STEPS
    return f'step {first}' + (f' and {more} more' if more > 0 else '')


def _read_rows(path: pathlib.Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yields each line of a file with its parsed row; nothing if the file is absent.

    Skips an incomplete last line, even if only its line feed is missing.
    """
    if not path.exists():
        return
    with path.open('rb') as stream:
        number, line = 1, stream.readline()
        while line:
            following = stream.readline()
            try:
                row = _read_row(line)
            except (ValueError, TypeError) as error:
                if not following:
                    return
                raise InputError(
                    f'{path}, line {number} is damaged ({error}): repair or remove it'
                ) from error
            if line.endswith(b'\n'):
                yield line, row
            number, line = number + 1, following


def _read_row(line: bytes) -> dict[str, Any]:
    row = parse_json(line.decode('utf-8'))
    for name, value in ({'step': None} | row).items():
        if not isinstance(value, _KINDS.get(name, int | float | list)):
            raise TypeError(f'{name} is {value!r}')
    return row


def drop_lines(path: pathlib.Path, resume_step: int) -> bytes:
    """Removes the lines of ``resume_step`` and later; returns the remaining lines."""
    rows = _read_rows(path)
    retained = b''.join(line for line, row in rows if row['step'] < resume_step)
    if path.exists() and len(retained) < path.stat().st_size:
        atomic_write_bytes(path, retained)
    return retained


def drop_files(workdir: pathlib.Path, resume_step: int) -> None:
    """Removes the rollout and evaluation files of ``resume_step`` and later."""
    for folder in ('rollouts', 'evaluation'):
        for path in sorted((workdir / folder).glob('*.jsonl')):
            match = _STEP_OF_FILE.search(path.name)
            if match and int(match.group(1)) >= resume_step:
                path.unlink()

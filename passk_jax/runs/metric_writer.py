"""Writes a run's metrics, diagnostics, timings, rollouts and evaluations.

``metrics.jsonl`` gets one line per ``write``: step, stage, split and values, no timing.
So an interrupted run and an uninterrupted one write the same bytes. A resumed run
repeats ``resume_step`` and all later steps. Opening the writer therefore removes their
lines, rollout files and evaluation files, and a last line that a kill cut short.

``digests.jsonl`` has the SHA-256 of each rollout and evaluation file; a checkpoint has
digests of the lines before its step. :mod:`passk_jax.runs.records` checks both.
Trackers (trackers.py) get copies of the values. Only process 0 writes; on other
processes the methods do nothing.
"""

import contextlib
import hashlib
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import jax
import numpy as np

from passk_jax.config import LogConfig
from passk_jax.errors import InputError, leave, prefixed
from passk_jax.files import atomic_write_bytes, json_lines
from passk_jax.runs.aliases import aliased
from passk_jax.runs.records import (
    LINES,
    LinesDigest,
    drop_files,
    drop_lines,
    evaluation_name,
    rollouts_name,
)
from passk_jax.runs.trackers import Tracker, import_packages, open_trackers

GROUPS = ('train', 'diagnostics', 'timing')
"""The names that stand where an evaluation has its split, in lines or trackers."""


class MetricWriter(contextlib.AbstractContextManager):
    """A context manager that writes a run's metrics and records.

    Args:
        workdir: the prepared run directory.
        log: selects the trackers that get copies, and the names of metrics there.
        resume_step: the first step to be taken; 0 in a new run.
        config: the config that trackers show.

    Attributes:
        stage: the stage that is written to every line of metrics; 0 at first.

    Raises:
        ValueError: the package of a tracker is missing, the directory cannot be
            written, or a metrics file is damaged before its last line.
    """

    def __init__(
        self,
        workdir: str | os.PathLike[str],
        *,
        log: LogConfig,
        resume_step: int,
        config: Mapping[str, Any],
    ):
        self.stage = 0
        self._workdir = pathlib.Path(workdir)
        self._streams: dict[str, BinaryIO] = {}
        self._digests: dict[str, LinesDigest] = {}
        self._aliases = log.aliases
        self._trackers: list[Tracker] = []
        if jax.process_index() != 0:
            return
        packages = import_packages(log)
        with prefixed(f'cannot write in {self._workdir}', OSError):
            for name in LINES:
                retained = drop_lines(self._path(name), resume_step)
                self._digests[name] = LinesDigest(retained, resume_step)
            for name in ('metrics', 'timing'):
                self._open(name)
            drop_files(self._workdir, resume_step)
            self._trackers = open_trackers(
                log, packages, self._workdir, resume_step=resume_step, config=config
            )

    def _path(self, name: str) -> pathlib.Path:
        return self._workdir / f'{name}.jsonl'

    def _open(self, name: str) -> BinaryIO:
        """Opens a file, which :meth:`close` closes."""
        path = self._path(name)
        with prefixed(f'cannot write in {path.parent}', OSError):
            self._streams[name] = path.open('ab')
        return self._streams[name]

    def __exit__(self, kind: object, *exception: object) -> None:
        leave(kind, self.close)

    def write(self, step: int, values: Mapping[str, Any], *, split: str) -> None:
        """Appends one line; it is on disk when this returns.

        Args:
            step: the training step, or the number of steps before an evaluation.
            values: numbers by name. ``None`` and NaN mean *undefined* (for example,
                diversity without wrong answers) and are omitted.
            split: ``'train'`` or the evaluated split.

        Raises:
            ValueError: a value is infinite, a name is reserved, or the disk is full.
        """
        head = {'step': step, 'stage': self.stage, 'split': split}
        self._write('metrics', head, values, split)

    def write_diagnostics(self, step: int, values: Mapping[str, Any]) -> None:
        """Appends numbers and lists to ``diagnostics.jsonl``; see :meth:`write`.

        Trackers get only the numbers.
        """
        self._write('diagnostics', {'step': step}, values, 'diagnostics')

    def write_timing(self, step: int, values: Mapping[str, Any]) -> None:
        """Appends seconds, rates and memory to ``timing.jsonl``; see :meth:`write`."""
        self._write('timing', {'step': step}, values, 'timing')

    def write_rollouts(self, step: int, records: Iterable[Mapping[str, Any]]) -> None:
        """Writes or replaces ``rollouts/step_<step>.jsonl``, a line per response."""
        self._write_records('rollouts', rollouts_name(step), step, records)

    def write_evaluation(
        self, split: str, step: int, records: Iterable[Mapping[str, Any]]
    ) -> None:
        """Writes ``evaluation/<split>_step_<step>.jsonl``, a line per problem."""
        self._write_records('evaluation', evaluation_name(split, step), step, records)

    def digests(self, step: int) -> dict[str, str]:
        """Returns the SHA-256 of each file's lines before a step.

        Args:
            step: the newest step with a line, or the one after it.
        """
        return {name: x.before(step) for name, x in self._digests.items()}

    def close(self) -> None:
        """Flushes and closes all files; InputError if the disk is full."""
        ends = [stream.close for stream in self._streams.values()]
        ends += [tracker.close for tracker in self._trackers]
        with prefixed(f'cannot write in {self._workdir}', OSError):
            leave(None, *ends)

    def _write(
        self, name: str, head: dict[str, Any], values: Mapping[str, Any], group: str
    ) -> None:
        if jax.process_index() != 0:
            return
        if reserved := head.keys() & values.keys():
            raise InputError(f'metrics cannot be named {sorted(reserved)}')
        where = f'of step {head["step"]}'
        plain = {key: _plain(values[key], f'{key} {where}') for key in sorted(values)}
        plain = {key: value for key, value in plain.items() if value is not None}
        self._append(name, head | plain)
        written = {
            f'{group}/{key}': value
            for key, value in plain.items()
            if not isinstance(value, list)
        }
        if name == 'metrics' and group == 'train':
            written |= aliased(self._aliases, plain)
        for tracker in self._trackers:
            tracker.write(written, head['step'])

    def _append(self, name: str, row: Mapping[str, Any]) -> None:
        """Appends a line; it is on disk when this returns."""
        stream = self._streams.get(name) or self._open(name)
        line = json.dumps(row).encode() + b'\n'
        with prefixed(f'cannot write {stream.name}', OSError):
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
        self._digests[name].add(row['step'], line)

    def _write_records(
        self, folder: str, name: str, step: int, records: Iterable[Mapping[str, Any]]
    ) -> None:
        if jax.process_index() != 0:
            return
        path = self._workdir / folder / name
        content = json_lines(_plain(record, str(path)) for record in records)
        with prefixed(f'cannot write {path}', OSError):
            path.parent.mkdir(exist_ok=True)
            atomic_write_bytes(path, content)
        digest = hashlib.sha256(content).hexdigest()
        record = {'step': step, 'file': f'{folder}/{name}', 'sha256': digest}
        self._append('digests', record)


def _plain(value: Any, name: str) -> Any:
    """Converts a value to JSON types, with the fewest digits that preserve it."""
    if isinstance(value, Mapping):
        return {key: _plain(item, f'{key} of {name}') for key, item in value.items()}
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        array = np.asarray(value)
        if array.ndim:
            return [_plain(item, name) for item in array]
        if np.issubdtype(array.dtype, np.integer) or array.dtype == bool:
            return array.item()
        # Convert through text: float32 0.1 is 0.10000000149011612 as a double.
        exact = array[()] if array.dtype == np.float64 else array.astype(np.float32)[()]
        value = float(str(exact))
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, float):
        if math.isinf(value):
            raise InputError(f'{name} is {value}: JSON has no infinity')
        return None if math.isnan(value) else value
    return value

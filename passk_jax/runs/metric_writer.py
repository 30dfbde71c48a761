"""The files that a run writes for its readers: metrics, responses, verdicts and more.

``metrics.jsonl`` gets one line per ``write``: step, stage, split and values, no timing.
So an interrupted run and an uninterrupted one write the same bytes. A resumed run
repeats ``resume_step`` and all later steps, so opening the writer removes their lines
of metrics, diagnostics and timings, and their rollout and evaluation files. It also
removes a last line that a kill cut short. :func:`missing_records` says what is gone of
the steps before. TensorBoard and Weights & Biases get copies of the values. Only
process 0 writes; on other processes the methods do nothing.
"""

import contextlib
import json
import math
import os
import pathlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import jax
import numpy as np

from passk_jax.errors import InputError, leave, prefixed
from passk_jax.files import atomic_write_bytes, atomic_write_text

_STEP_OF_FILE = re.compile(r'step_(\d+)\.jsonl$')
_ROLLOUTS = 'step_{:08d}.jsonl'
_SHOWN_STEPS = 5


def evaluation_name(split: str, step: int) -> str:
    """The name of an evaluation's file of records, in ``evaluation/``."""
    return f'{split}_step_{step:08d}.jsonl'


class MetricWriter(contextlib.AbstractContextManager):
    """Context manager that writes a run's metrics and records.

    Args:
        workdir: the prepared run directory.
        tensorboard: whether to write TensorBoard files too.
        wandb_project: Weights & Biases project to log to; ``''``: none.
        resume_step: the first step to be taken; 0 in a new run.
        config: what Weights & Biases shows as the config.

    Attributes:
        stage: the stage that every line of metrics has; 0 at first.

    Raises:
        ValueError: the ``wandb`` package is missing, the directory cannot be written,
            or a metrics file is damaged before its last line.
    """

    def __init__(
        self,
        workdir: str | os.PathLike[str],
        *,
        tensorboard: bool,
        wandb_project: str,
        resume_step: int,
        config: Mapping[str, Any],
    ):
        self.stage = 0
        self._workdir = pathlib.Path(workdir)
        self._streams = {}
        self._tensorboard = None
        self._wandb = None
        if jax.process_index() != 0:
            return
        wandb = import_wandb(wandb_project) if wandb_project else None
        with prefixed(f'cannot write in {self._workdir}', OSError):
            for name in ('metrics', 'timing', 'diagnostics'):
                _drop_lines(self._path(name), resume_step)
            for name in ('metrics', 'timing'):
                self._opened(name)
            _drop_files(self._workdir, resume_step)
            if tensorboard:
                self._tensorboard = _open_tensorboard(self._workdir, resume_step)
            if wandb is not None:
                self._wandb = _open_wandb(wandb, self._workdir, wandb_project, config)

    def _path(self, name: str) -> pathlib.Path:
        return self._workdir / f'{name}.jsonl'

    def _opened(self, name: str) -> TextIO:
        """Opens a file for :meth:`close` to close; diagnostics at their first line."""
        path = self._path(name)
        with prefixed(f'cannot write in {path.parent}', OSError):
            self._streams[name] = path.open('a')
        return self._streams[name]

    def __exit__(self, kind: object, *exception: object) -> None:
        leave(kind, self.close)

    def write(self, step: int, values: Mapping[str, Any], *, split: str) -> None:
        """Appends one line; it is on disk when this returns.

        Args:
            step: the training step, or the number of steps before an evaluation.
            values: numbers by name. ``None`` and NaN mean *undefined* (the diversity
                of no wrong answers) and are left out.
            split: ``'train'`` or the evaluated split.

        Raises:
            ValueError: a value is infinite, a name is reserved, or the disk is full.
        """
        head = {'step': step, 'stage': self.stage, 'split': split}
        self._write('metrics', head, values, split)

    def write_diagnostics(self, step: int, values: Mapping[str, Any]) -> None:
        """Appends numbers and lists of them to ``diagnostics.jsonl``, as :meth:`write`.

        TensorBoard and Weights & Biases get the numbers.
        """
        self._write('diagnostics', {'step': step}, values, 'diagnostics')

    def write_timing(self, step: int, values: Mapping[str, Any]) -> None:
        """Appends seconds, tokens per second and the like to ``timing.jsonl``."""
        self._write('timing', {'step': step}, values, 'timing')

    def write_rollouts(self, step: int, records: Iterable[Mapping[str, Any]]) -> None:
        """Writes or replaces ``rollouts/step_<step>.jsonl``, a line per response."""
        self._write_records('rollouts', _ROLLOUTS.format(step), records)

    def write_evaluation(
        self, split: str, step: int, records: Iterable[Mapping[str, Any]]
    ) -> None:
        """Writes ``evaluation/<split>_step_<step>.jsonl``, a line per problem."""
        self._write_records('evaluation', evaluation_name(split, step), records)

    def close(self) -> None:
        """Flushes and closes everything; ValueError if the disk is full."""
        ends = [stream.close for stream in self._streams.values()]
        if self._tensorboard is not None:
            ends.append(self._tensorboard.close)
        if self._wandb is not None:
            ends.append(self._wandb.finish)
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
        stream = self._streams.get(name) or self._opened(name)
        with prefixed(f'cannot write {stream.name}', OSError):
            stream.write(json.dumps(head | plain) + '\n')
            stream.flush()
            os.fsync(stream.fileno())
        written = {
            f'{group}/{key}': value
            for key, value in plain.items()
            if not isinstance(value, list)
        }
        if self._tensorboard is not None:
            for key, value in written.items():
                self._tensorboard.add_scalar(key, value, head['step'])
        if self._wandb is not None:
            self._wandb.log(written, step=head['step'])

    def _write_records(
        self, folder: str, name: str, records: Iterable[Mapping[str, Any]]
    ) -> None:
        if jax.process_index() != 0:
            return
        path = self._workdir / folder / name
        plain = (_plain(record, str(path)) for record in records)
        text = ''.join(json.dumps(each, ensure_ascii=False) + '\n' for each in plain)
        with prefixed(f'cannot write {path}', OSError):
            path.parent.mkdir(exist_ok=True)
            atomic_write_text(path, text)


def missing_records(
    workdir: pathlib.Path,
    *,
    resume_step: int | None,
    splits_due: Callable[[int], Sequence[str]],
    rollouts_every: int,
    diagnostics_every: int,
) -> list[str]:
    """Names the records from before the step that a run resumes at which are gone.

    Args:
        workdir: the run directory.
        resume_step: the step of the newest checkpoint; ``None``: there is none.
        splits_due: step -> the splits that were evaluated before it.
        rollouts_every: steps between dumps of a step's rollouts; 0: never.
        diagnostics_every: steps between diagnoses of a step; 0: never.

    Raises:
        ValueError: a file of lines is damaged before its last line.
    """
    rows = [row for _, row in _read_rows(workdir / 'metrics.jsonl')]
    lines = {(row.get('split'), row['step']) for row in rows}
    if resume_step is None:
        # The first step is taken from a checkpoint.
        began = any(split == 'train' for split, _ in lines)
        return ['every checkpoint in checkpoints/'] if began else []
    files = {
        folder: {path.name for path in (workdir / folder).glob('*.jsonl')}
        for folder in ('rollouts', 'evaluation')
    }
    diagnoses = {row['step'] for _, row in _read_rows(workdir / 'diagnostics.jsonl')}
    gone: dict[str, list[int]] = {}
    for step in range(resume_step):
        there, splits = {}, splits_due(step)
        for split in ('train', *splits):
            there[f'metrics.jsonl: {split!r} of'] = (split, step) in lines
        if diagnostics_every and step % diagnostics_every == 0:
            there['diagnostics.jsonl: of'] = step in diagnoses
        if rollouts_every and step % rollouts_every == 0:
            there['rollouts/: of'] = _ROLLOUTS.format(step) in files['rollouts']
        for split in splits:
            name = evaluation_name(split, step)
            there[f'evaluation/: {split!r} of'] = name in files['evaluation']
        for what in (what for what, is_there in there.items() if not is_there):
            gone.setdefault(what, []).append(step)
    return [f'{what} {_shown(steps)}' for what, steps in gone.items()]


def _shown(steps: Sequence[int]) -> str:
    first = ', '.join(map(str, steps[:_SHOWN_STEPS]))
    more = len(steps) - _SHOWN_STEPS
    return f'step {first}' + (f' and {more} more' if more > 0 else '')


def _plain(value: Any, name: str) -> Any:
    """The value as JSON can hold it, with the fewest digits that preserve it."""
    if isinstance(value, Mapping):
        return {key: _plain(item, f'{key} of {name}') for key, item in value.items()}
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        array = np.asarray(value)
        if array.ndim:
            return [_plain(item, name) for item in array]
        if np.issubdtype(array.dtype, np.integer) or array.dtype == bool:
            return array.item()
        # Through text, because float32 0.1 is 0.10000000149011612 as a double.
        exact = array[()] if array.dtype == np.float64 else array.astype(np.float32)[()]
        value = float(str(exact))
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, float):
        if math.isinf(value):
            raise InputError(f'{name} is {value}: JSON has no infinity')
        return None if math.isnan(value) else value
    return value


def _read_rows(path: pathlib.Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The lines of a file of steps, each with its content; none if it is absent.

    Leaves out a last line that a kill cut short, if only by its line feed.
    """
    if not path.exists():
        return
    with path.open('rb') as stream:
        lines = list(stream)
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line.decode('utf-8'))
            kinds = {'step': int, 'split': str}
            for name, value in ({'step': None} | row).items():
                if not isinstance(value, kinds.get(name, int | float | list)):
                    raise TypeError(f'{name} is {value!r}')
        except (ValueError, TypeError) as error:
            if number == len(lines):
                return
            message = f'{path}, line {number} is damaged ({error}): repair or remove it'
            raise InputError(message) from error
        if line.endswith(b'\n'):
            yield line, row


def _drop_lines(path: pathlib.Path, resume_step: int) -> None:
    """Removes the lines of ``resume_step`` and later."""
    rows = _read_rows(path)
    retained = b''.join(line for line, row in rows if row['step'] < resume_step)
    if path.exists() and len(retained) < path.stat().st_size:
        atomic_write_bytes(path, retained)


def _drop_files(workdir: pathlib.Path, resume_step: int) -> None:
    for folder in ('rollouts', 'evaluation'):
        for path in sorted((workdir / folder).glob('*.jsonl')):
            match = _STEP_OF_FILE.search(path.name)
            if match and int(match.group(1)) >= resume_step:
                path.unlink()


def _open_tensorboard(workdir: pathlib.Path, resume_step: int) -> Any:
    # Imported here, because it takes a second and may be switched off.
    import tensorboardX

    return tensorboardX.SummaryWriter(
        str(workdir / 'tensorboard'),
        purge_step=resume_step,
        # No limit: a full disk ends its thread, and a full queue would wait forever.
        max_queue=0,
        # File names hold only the second, so a quick restart would overwrite one.
        filename_suffix=f'.from_step_{resume_step}',
    )


def import_wandb(project: str) -> Any:
    """The ``wandb`` package, or a ValueError that says how to do with or without it."""
    try:
        import wandb
    except ImportError as error:
        raise InputError(
            f'log.wandb_project={project!r} needs a package that is not installed: '
            "pip install wandb (or set log.wandb_project='')"
        ) from error
    return wandb


def _open_wandb(
    wandb: Any, workdir: pathlib.Path, project: str, config: Mapping[str, Any]
) -> Any:
    """Starts or resumes the Weights & Biases run whose id the directory keeps."""
    path = workdir / 'wandb_id.txt'
    if not path.exists():
        atomic_write_text(path, uuid.uuid4().hex)
    return wandb.init(
        project=project,
        # The service refuses an id that is damaged.
        id=path.read_text(errors='replace').strip(),
        resume='allow',
        name=workdir.name,
        dir=str(workdir),
        config=dict(config),
    )

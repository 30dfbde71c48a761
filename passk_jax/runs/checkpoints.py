"""Saves and restores checkpoints, so that a resumed run equals an uninterrupted one.

A checkpoint is the state *before* a step, in ``<directory>/<step>/``:

    params/, opt_state/   arrays, one flat dictionary ``path -> array`` each
    memory/               the same, if the estimator has a memory
    commit.json           written last: the caller's JSON, and a digest of each array

A save copies the state to the host and returns; a thread writes it while the run goes
on. A directory without ``commit.json`` is not a checkpoint. A restore checks the digest
of each array, because Orbax does not detect flipped bits. It needs the same shapes and
dtypes, but works on any mesh. Batches are not saved, because a batch is a function of
the step.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
from absl import logging

from passk_jax.errors import InputError, leave
from passk_jax.runs import commits, restoring
from passk_jax.runs.commits import CorruptionError, saved_steps
from passk_jax.runs.retention import Retention
from passk_jax.runs.saving import Saving, named_errors
from passk_jax.runtime import hosts

PyTree = Any
Value = TypeVar('Value')

_SET_ASIDE = '.corrupted'
# The directory of frozen parameters, beside the checkpoints.
_FROZEN = 'frozen'


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A restored state.

    Attributes:
        step: the next step to take.
        meta: the JSON object passed to :meth:`Checkpoints.save`.
        params, opt_state, memory: pytrees with the structure of the targets, bitwise
            equal to the saved ones.
    """

    step: int
    meta: dict[str, Any]
    params: PyTree
    opt_state: PyTree
    memory: PyTree = ()


class Checkpoints(contextlib.AbstractContextManager):
    """The checkpoints of one run; every process of the run must call every method.

    Args:
        directory: the directory of checkpoints; created if absent.
        keep: which checkpoints to keep, or how many of the newest.

    Raises:
        InputError: the directory cannot be created or written.
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep: Retention | int):
        self._keep = Retention(keep) if isinstance(keep, int) else keep
        self._directory = pathlib.Path(directory).absolute()
        self._saving: Saving | None = None
        with named_errors(f'checkpoint directory {self._directory} is unusable'):
            self._directory.mkdir(parents=True, exist_ok=True)
        hosts.barrier('passk_jax checkpoints open')

    def __exit__(self, kind: object, *exception: object) -> None:
        """Waits for the save; after an error, only for this process's part."""
        if kind is None:
            self.wait()
        elif self._saving is not None:
            leave(kind, self._saving.finish)

    def steps(self) -> tuple[int, ...]:
        """Returns the steps of complete checkpoints that process 0 sees, ascending."""
        self.wait()
        return restoring.seen_steps(self._directory)

    def latest_step(self) -> int | None:
        """Returns the step of the newest complete checkpoint, or ``None``."""
        return max(self.steps(), default=None)

    def save(self, step: int, *, meta: Mapping[str, Any], **items: PyTree) -> None:
        """Copies the state before ``step`` and starts writing it.

        Waits first for the previous save. The first checkpoint of a run is on disk when
        this returns, because it marks that the run has begun. If a checkpoint of
        ``step`` exists, it has the same state, and only new metrics are added: a run
        that stopped before an evaluation makes it when it resumes.

        Args:
            step: the step to take next; no earlier than the newest checkpoint.
            meta: a JSON object; :class:`Retention` reads its ``metrics``.
            **items: pytrees of arrays, named as in :class:`Checkpoint`; empty ones are
                not written. The caller may donate them.

        Raises:
            ValueError: ``step`` is earlier than the newest checkpoint, or
                :meth:`wait` raises it.
            NonFiniteError: a value is NaN or infinite; nothing is written.
        """
        steps = self.steps()
        if step in steps:
            logging.info('checkpoint %d exists in %s', step, self._directory)
            self._add_metrics(step, meta.get('metrics', {}))
            return
        if steps and step < steps[-1]:
            raise InputError(
                f'cannot save {step=} in {self._directory}: it has a newer '
                f'checkpoint, {steps[-1]}'
            )
        path = self._directory / str(step)
        self._saving = Saving(path, items, meta, self._remove_others)
        if not steps:
            self.wait()

    def check(self) -> None:
        """Raises this process's error of the running save, if any; does not wait."""
        if self._saving is not None:
            self._saving.check()

    def wait(self) -> None:
        """Waits until the running save is on disk.

        Raises:
            ValueError: the save failed, for example because the disk is full. Earlier
                checkpoints are intact.
        """
        if self._saving is not None:
            saving, self._saving = self._saving, None
            saving.wait()

    def restore(self, *, step: int | None = None, **targets: PyTree) -> Checkpoint:
        """Reads a checkpoint, bit for bit, with the targets' shardings.

        Args:
            step: the checkpoint's step; ``None``: the newest.
            **targets: pytrees like the saved ones, whose leaves have ``shape``,
                ``dtype`` and ``sharding`` (``jax.ShapeDtypeStruct`` or arrays), on any
                mesh. A leaf without a sharding is read to the first local device.

        Raises:
            CorruptionError: the checkpoint is damaged; no other is restored instead.
            ValueError: there is no such checkpoint; or its arrays, shapes or dtypes
                differ from the targets (the message lists every difference).
        """
        newest = self.latest_step()
        path = restoring.choose(self._directory, newest if step is None else step)
        meta, restored = restoring.restore(path, targets)
        return Checkpoint(int(path.name), meta, **restored)

    def _add_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        path = self._directory / str(step)
        if jax.process_index() == 0:
            with named_errors(f'metrics of checkpoint {path} could not be saved'):
                commits.add_metrics(path, metrics)

    def _remove_others(self) -> None:
        """Removes checkpoints that need not be kept, and all incomplete ones."""

        def metrics_of(step: int) -> Mapping[str, Any]:
            # A damaged checkpoint has no metrics.
            with contextlib.suppress(InputError, OSError):
                commit = commits.read_commit(self._directory / str(step))
                return commit.meta.get('metrics', {})
            return {}

        retained = self._keep.retain(saved_steps(self._directory), metrics_of)
        for path in commits.step_directories(self._directory):
            if int(path.name) not in retained:
                commits.remove(path)


def from_intact(run: Callable[[], Value], directory: pathlib.Path) -> Value:
    """Calls ``run`` until it meets no corrupted checkpoint, and returns its result.

    Renames each corrupted checkpoint, so that the previous one becomes the newest. Only
    the last renamed one remains, for inspection.

    Args:
        run: restores the newest checkpoint of ``directory`` before it changes anything.
        directory: the run's checkpoints.

    Raises:
        CorruptionError: the corrupted checkpoint lies elsewhere, or is the only one.
    """
    while True:
        try:
            return run()
        except CorruptionError as error:
            _set_aside(error, directory.absolute())


def _set_aside(error: CorruptionError, directory: pathlib.Path) -> None:
    path = error.path
    seen = restoring.seen_steps(directory)
    other_steps = [step for step in seen if str(step) != path.name]
    if path.parent != directory or not other_steps:
        raise error
    away = path.with_name(path.name + _SET_ASIDE)
    logging.warning(
        'checkpoint %s is corrupted: %s. The run goes on from step %d; the corrupted '
        'files are in %s',
        path,
        error.damage,
        max(other_steps),
        away,
    )
    hosts.barrier('passk_jax checkpoint found corrupted')
    if jax.process_index() == 0:
        for older in directory.glob(f'*{_SET_ASIDE}'):
            shutil.rmtree(older)
        path.rename(away)
    hosts.barrier('passk_jax checkpoint set aside')


def restore_params(
    workdir: str | os.PathLike[str], target: PyTree, *, step: int | None = None
) -> tuple[PyTree, int]:
    """Reads the parameters of a run's checkpoint, without changing the run.

    Also reads the frozen parameters, which lie beside the checkpoints.

    Args, errors: as in :meth:`Checkpoints.restore`; ``workdir`` is the run directory.
    Also raises ValueError if the run, still training, removes the checkpoint meanwhile.

    Returns:
        The parameters, and the step of the checkpoint.
    """
    directory = pathlib.Path(workdir).absolute() / 'checkpoints'
    path = restoring.choose(directory, step)
    frozen = restore_frozen(workdir, target)
    if frozen:
        target = {name: x for name, x in target.items() if name not in frozen}
    try:
        restored = restoring.restore(path, {'params': target})[1]
    except CorruptionError as error:
        if hosts.broadcast(lambda: commits.is_committed(path)):
            raise
        raise InputError(
            f'{path} was removed while it was read: its run goes on, and has '
            f'checkpoints of the steps {restoring.seen_steps(directory)} now'
        ) from error
    params = restored['params']
    return ({**frozen, **params} if frozen else params), int(path.name)


def keep_frozen(
    workdir: str | os.PathLike[str],
    frozen: Mapping[str, Any],
    target: Mapping[str, Any],
) -> dict[str, Any]:
    """Saves a run's frozen parameters for :func:`restore_params`.

    Args, errors: as in :func:`keep_params`. Also raises InputError if a resumed run has
    lost them.
    """
    params = keep_params(workdir, _FROZEN, frozen, target)
    if params is None:
        directory = pathlib.Path(workdir) / _FROZEN
        raise InputError(f'{directory} is gone, which has what the run leaves alone')
    return params


def keep_params(
    workdir: str | os.PathLike[str],
    name: str,
    params: Mapping[str, Any],
    target: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Saves parameters that a new run begins with, and reads them after a resume.

    Args:
        workdir: the run directory.
        name: the name of the directory in it.
        params: parameters of a new run; empty in a resumed run. They replace those of a
            run that died before its first checkpoint.
        target: their shapes, as in :meth:`Checkpoints.restore`; empty: nothing to save.

    Returns:
        The saved parameters; ``None`` if a resumed run saved none.

    Raises:
        ValueError: the resumed run saved parameters of other names.
    """
    if not target:
        return {}
    directory, names = pathlib.Path(workdir) / name, {name: sorted(target)}
    if not params:
        return restore_cached_params(directory, dict(target), fingerprint=names)
    path = _cached(directory)

    def clear() -> None:
        if jax.process_index() == 0 and commits.is_committed(path):
            commits.remove(path)

    hosts.gather(clear)
    save_cached_params(directory, dict(params), fingerprint=names)
    return dict(params)


def restore_frozen(
    workdir: str | os.PathLike[str], target: Mapping[str, Any]
) -> dict[str, Any]:
    """Reads the parameters that :func:`keep_frozen` saved; ``{}`` if none are frozen.

    ``target`` has all parameters of the policy, as in :meth:`Checkpoints.restore`.
    """
    names, path = read_frozen_names(workdir), _cached(pathlib.Path(workdir) / _FROZEN)
    if not names:
        return {}
    frozen = {name: target[name] for name in names if name in target}
    return restoring.restore(path, {'params': frozen})[1]['params']


def read_frozen_names(workdir: str | os.PathLike[str]) -> tuple[str, ...]:
    """Returns the names of the parameters that :func:`keep_frozen` saved."""
    saved = _fingerprint(_cached(pathlib.Path(workdir) / _FROZEN))
    return tuple(saved['frozen']) if saved else ()


def find_step(workdir: str | os.PathLike[str], step: int | None = None) -> int:
    """Returns the step of a run's newest checkpoint, or ``step`` if that is saved.

    Raises:
        InputError: the run has no checkpoint, or none of ``step``.
    """
    directory = pathlib.Path(workdir).absolute() / 'checkpoints'
    return int(restoring.choose(directory, step).name)


def save_cached_params(
    directory: str | os.PathLike[str], params: PyTree, *, fingerprint: Mapping[str, Any]
) -> None:
    """Saves parameters with a fingerprint, a JSON object of all that they depend on.

    Raises:
        InputError: ``directory`` cannot be written, or has parameters already.
    """
    path = _cached(directory)
    if commits.is_committed(path):
        raise InputError(f'{path.parent} holds parameters already')
    with Checkpoints(path.parent, keep=1) as checkpoints:
        meta = {'fingerprint': dict(fingerprint)}
        checkpoints.save(0, params=params, meta=meta)


def restore_cached_params(
    directory: str | os.PathLike[str], target: PyTree, *, fingerprint: Mapping[str, Any]
) -> PyTree | None:
    """Reads the parameters that :func:`save_cached_params` saved; ``None`` if absent.

    ``target`` is like ``params`` in :meth:`Checkpoints.restore`. Raises ValueError as
    that method does, and if the fingerprints differ; the message names the keys.
    """
    path = _cached(directory)
    saved = _fingerprint(path)
    if saved is None:
        return None
    expected = json.loads(json.dumps(dict(fingerprint)))
    keys = saved.keys() | expected.keys()
    differing = [k for k in sorted(keys) if saved.get(k, ...) != expected.get(k, ...)]
    if differing:
        raise InputError(
            f'the parameters cached in {path.parent} were made with another '
            f'{", ".join(differing)}; delete the directory to make them again'
        )
    return restoring.restore(path, {'params': target})[1]['params']


def _cached(directory: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the place of cached parameters in their directory."""
    return pathlib.Path(directory).absolute() / '0'


def _fingerprint(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the fingerprint of cached parameters; ``None`` if there are none."""
    if not hosts.broadcast(lambda: commits.is_committed(path)):
        return None
    return restoring.commit_of(path).meta.get('fingerprint', {})

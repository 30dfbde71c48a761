"""Checkpoints: what makes a resumed run the same run.

A checkpoint is the state *before* a step, in ``<directory>/<step>/``:

    params/, opt_state/   arrays, one flat dictionary ``path -> array`` each
    memory/               the same, if the estimator has one
    commit.json           written last: the caller's JSON, and a digest of each array

A save copies the state to the host and returns; a thread writes it while the run goes
on. Nothing is a checkpoint before its commit. A restore compares the digest of each
array that it read, because Orbax would take a flipped bit for a parameter. It converts
nothing: another shape or dtype is an error, but another mesh is fine. No batch is
saved, because a batch is a function of the step.
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

# Left by versions that renamed a directory to commit it.
_LEFTOVERS = ('.saving', '.deleting')
_SET_ASIDE = '.corrupted'
# Beside the checkpoints.
_FROZEN = 'frozen'


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A restored state.

    Attributes:
        step: the next step to take.
        meta: the JSON object given to :meth:`Checkpoints.save`.
        params, opt_state, memory: structured like the targets, bitwise equal to what
            was saved.
    """

    step: int
    meta: dict[str, Any]
    params: PyTree
    opt_state: PyTree
    memory: PyTree = ()


class Checkpoints(contextlib.AbstractContextManager):
    """The checkpoints of one run; every process of the run calls every method.

    Args:
        directory: created if absent; what old versions left of killed saves is removed.
        keep: which checkpoints to keep, or how many of the newest.

    Raises ValueError if the directory cannot be created or written.
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep: Retention | int):
        self._keep = Retention(keep) if isinstance(keep, int) else keep
        self._directory = pathlib.Path(directory).absolute()
        self._saving: Saving | None = None
        with named_errors(f'checkpoint directory {self._directory} is unusable'):
            self._directory.mkdir(parents=True, exist_ok=True)
            for path in self._directory.iterdir() if jax.process_index() == 0 else ():
                if any(ending in path.name for ending in _LEFTOVERS):
                    logging.info('removing an unfinished checkpoint: %s', path)
                    shutil.rmtree(path)
        hosts.barrier('passk_jax checkpoints open')

    def __exit__(self, kind: object, *exception: object) -> None:
        """Waits for the save; after an error only here: others may not have one."""
        if kind is None:
            self.wait()
        elif self._saving is not None:
            leave(kind, self._saving.finish)

    def steps(self) -> tuple[int, ...]:
        """The steps that have a complete checkpoint, ascending, as process 0 sees."""
        self.wait()
        return restoring.seen_steps(self._directory)

    def latest_step(self) -> int | None:
        """The step of the newest complete checkpoint, or ``None``."""
        return max(self.steps(), default=None)

    def save(self, step: int, *, meta: Mapping[str, Any], **items: PyTree) -> None:
        """Copies the state before ``step`` and begins to write it.

        It waits for the save before. The first save of a run is on disk when this
        returns, because a checkpoint marks a run that has begun. If ``step`` is saved
        already, it holds the same state, and only new metrics are added: a run that
        stops before an evaluation makes it when it goes on.

        Args:
            step: no older than the newest checkpoint.
            meta: a JSON object; :class:`Retention` reads its ``metrics``.
            **items: pytrees of arrays, named as in :class:`Checkpoint`; one without
                leaves is not written. The caller may donate them.

        Raises:
            ValueError: ``step`` is older than the newest checkpoint, or as
                :meth:`wait`.
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
        """Raises what has gone wrong here in a save that is under way; never waits."""
        if self._saving is not None:
            self._saving.check()

    def wait(self) -> None:
        """Waits until the save that is under way is on disk.

        Raises:
            ValueError: it is not, for example because the disk is full. Earlier
                checkpoints stay untouched.
        """
        if self._saving is not None:
            saving, self._saving = self._saving, None
            saving.wait()

    def restore(self, *, step: int | None = None, **targets: PyTree) -> Checkpoint:
        """Reads a checkpoint, bitwise, onto the targets' shardings.

        Args:
            step: ``None`` for the newest.
            **targets: pytrees like those saved, with leaves that have ``shape``,
                ``dtype`` and ``sharding`` (``jax.ShapeDtypeStruct`` or arrays), on any
                mesh. A leaf without a sharding goes to the first local device.

        Raises:
            CorruptionError: it is not what was written; none is restored instead.
            ValueError: there is no such checkpoint; or its arrays, shapes or dtypes
                differ from the targets' (the message lists every difference).
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
        """Removes what need not be kept; half a checkpoint is never kept."""

        def metrics_of(step: int) -> Mapping[str, Any]:
            # One that is damaged, or is older than this, has no metrics.
            with contextlib.suppress(InputError, OSError):
                path = self._directory / str(step)
                if (path / commits.COMMIT).exists():
                    return commits.read_commit(path).meta.get('metrics', {})
            return {}

        retained = self._keep.retain(saved_steps(self._directory), metrics_of)
        for path in commits.step_directories(self._directory):
            if int(path.name) not in retained:
                commits.remove(path)


def from_intact(run: Callable[[], Value], directory: pathlib.Path) -> Value:
    """Calls ``run`` until it finds no corrupted checkpoint, and returns what it does.

    Each corrupted one is renamed, so that the one before becomes the newest. Only the
    one renamed last stays, for a person to look at.

    Args:
        run: restores the newest checkpoint of ``directory`` before it changes anything.
        directory: of the run's own checkpoints.

    Raises:
        CorruptionError: the checkpoint is not the run's own, or the run has no other.
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
        'checkpoint %s is corrupted: %s. The run goes on from step %d; what was found '
        'is in %s',
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
    """Reads only the parameters of a run's checkpoint, without changing the run.

    Those that the run leaves alone are beside its checkpoints.

    Args, errors: as in :meth:`Checkpoints.restore`; ``workdir`` is the run directory.
    It is a ValueError too if the run goes on meanwhile and removes this checkpoint.

    Returns:
        The parameters and the step of their checkpoint.
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
    """Keeps the parameters that a run leaves alone, once, for :func:`restore_params`.

    Args:
        workdir: the run directory.
        frozen: the parameters, of a run that begins.
        target: their shapes, as in :meth:`Checkpoints.restore`.

    Returns:
        What is kept.

    Raises:
        ValueError: the run keeps others, or goes on and has lost them.
    """
    directory = pathlib.Path(workdir) / _FROZEN
    names = {'frozen': sorted(target)}
    kept = restore_cached_params(directory, dict(target), fingerprint=names)
    if kept is not None:
        return kept
    if not frozen:
        raise InputError(f'{directory} is gone, which has what the run leaves alone')
    save_cached_params(directory, dict(frozen), fingerprint=names)
    return dict(frozen)


def restore_frozen(
    workdir: str | os.PathLike[str], target: Mapping[str, Any]
) -> dict[str, Any]:
    """Reads what :func:`keep_frozen` keeps; empty if the run trains everything.

    ``target`` has all parameters of the policy, as in :meth:`Checkpoints.restore`.
    """
    path = pathlib.Path(workdir).absolute() / _FROZEN / '0'
    if not hosts.broadcast(lambda: commits.is_committed(path)):
        return {}
    names = restoring.commit_of(path).meta['fingerprint']['frozen']
    wanted = {name: target[name] for name in names if name in target}
    return restoring.restore(path, {'params': wanted})[1]['params']


def newest_step(workdir: str | os.PathLike[str]) -> int:
    """The step of a run's newest checkpoint; ValueError if the run has none."""
    return int(
        restoring.choose(pathlib.Path(workdir).absolute() / 'checkpoints', None).name
    )


def save_cached_params(
    directory: str | os.PathLike[str], params: PyTree, *, fingerprint: Mapping[str, Any]
) -> None:
    """Saves parameters, and a fingerprint (JSON object) of all that decides them.

    Raises ValueError if ``directory`` cannot be written or holds parameters already.
    """
    path = pathlib.Path(directory).absolute() / '0'
    if commits.is_committed(path):
        raise InputError(f'{path.parent} holds parameters already')
    with Checkpoints(path.parent, keep=1) as checkpoints:
        meta = {'fingerprint': dict(fingerprint)}
        checkpoints.save(0, params=params, meta=meta)


def restore_cached_params(
    directory: str | os.PathLike[str], target: PyTree, *, fingerprint: Mapping[str, Any]
) -> PyTree | None:
    """Reads what :func:`save_cached_params` saved; ``None`` if it saved nothing here.

    ``target`` is like ``params`` in :meth:`Checkpoints.restore`. Raises ValueError as
    that method does, and if the fingerprints differ (the message names the keys).
    """
    path = pathlib.Path(directory).absolute() / '0'
    if not hosts.broadcast(lambda: commits.is_committed(path)):
        return None
    saved = restoring.commit_of(path).meta.get('fingerprint', {})
    wanted = json.loads(json.dumps(dict(fingerprint)))
    keys = saved.keys() | wanted.keys()
    differing = [k for k in sorted(keys) if saved.get(k, ...) != wanted.get(k, ...)]
    if differing:
        raise InputError(
            f'the parameters cached in {path.parent} were made with another '
            f'{", ".join(differing)}; delete the directory to make them again'
        )
    return restoring.restore(path, {'params': target})[1]['params']

"""Checkpoints: what makes a resumed run the same run. The only user of Orbax.

A checkpoint is the state *before* a step, in ``<directory>/<step>/``:

    params/, opt_state/   arrays, by Orbax, one flat dictionary ``path -> array`` each
    meta.json             the caller's JSON, and the version of this layout
    digests/              SHA-256 of every file above, one file a saving process

Everything is written under another name and renamed at the end, so a directory whose
name is a number is complete. Its digests are checked first, because Orbax reads a
flipped bit as a parameter. Restoring never converts: another shape or dtype is an
error, another mesh is not. A batch is a function of the step, so none is kept here.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from passk_jax import hosts
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.runs import digests

PyTree = Any

_FORMAT = 2
_SAVING = '.saving'
_DELETING = '.deleting'


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What was restored.

    Attributes:
        step: the step that comes next.
        params, opt_state: structured as the targets, bitwise as saved.
        meta: the JSON object given to :meth:`Checkpoints.save`.
    """

    step: int
    params: PyTree
    opt_state: PyTree
    meta: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run; every process of the run calls every method.

    Args:
        directory: made if absent; what killed saves left behind in it is removed.
        keep: how many of the newest checkpoints stay, at least 1.

    Raises ValueError if the directory cannot be made or written.
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep: int):
        if keep < 1:
            raise InputError(f'{keep=} must be at least 1')
        self._directory = pathlib.Path(directory).absolute()
        self._keep = keep
        with _named_errors(f'checkpoint directory {self._directory} is unusable'):
            self._directory.mkdir(parents=True, exist_ok=True)
            if jax.process_index() == 0:
                _remove_leftovers(self._directory)
        hosts.barrier('passk_jax checkpoints open')

    def steps(self) -> tuple[int, ...]:
        """The steps that have a complete checkpoint, ascending."""
        return _steps(self._directory)

    def latest_step(self) -> int | None:
        """The newest complete checkpoint's step, ``None`` if there is none."""
        return max(self.steps(), default=None)

    def save(
        self, step: int, *, params: PyTree, opt_state: PyTree, meta: Mapping[str, Any]
    ) -> None:
        """Writes the state before ``step``; it is on the disk when this returns.

        A step that is already saved is left as it is: it holds the same state.

        Args:
            step: at least that of every checkpoint there.
            params, opt_state: pytrees of arrays.
            meta: what JSON can hold.

        Raises:
            ValueError: an older step than the newest, or nothing could be written
                (full disk, lost rights); earlier checkpoints are untouched.
        """
        steps = self.steps()
        if step in steps:
            logging.info('checkpoint %d exists in %s', step, self._directory)
            return
        if steps and step < steps[-1]:
            raise InputError(
                f'cannot save {step=} in {self._directory}: it has a newer '
                f'checkpoint, {steps[-1]}'
            )
        _save(
            self._directory / str(step),
            {'params': params, 'opt_state': opt_state},
            meta,
        )
        if jax.process_index() == 0:
            for old in self.steps()[: -self._keep]:
                _remove(self._directory / str(old))

    def restore(
        self, *, params: PyTree, opt_state: PyTree, step: int | None = None
    ) -> Checkpoint:
        """Reads a checkpoint, bitwise as saved, onto the targets' shardings.

        Args:
            params, opt_state: targets; leaves have ``shape``, ``dtype`` and
                ``sharding`` (``jax.ShapeDtypeStruct`` or arrays), on any mesh. A leaf
                without a sharding goes to the first local device.
            step: ``None`` for the newest.

        Raises:
            ValueError: there is no such checkpoint, it is corrupted (the message
                names the older ones; none is taken instead), or the targets have
                other arrays, shapes or dtypes than it (all of them are listed).
        """
        step = _choose(self._directory, step)
        targets = {'params': params, 'opt_state': opt_state}
        items, meta = _restore(self._directory / str(step), targets)
        return Checkpoint(step, items['params'], items['opt_state'], meta)


def restore_params(
    workdir: str | os.PathLike[str], target: PyTree, *, step: int | None = None
) -> tuple[PyTree, int]:
    """Reads only the parameters of a checkpoint of a run, and says which step's.

    Args:
        workdir: the run's directory; nothing in it changes.
        target, step, errors: as in :meth:`Checkpoints.restore`.
    """
    directory = pathlib.Path(workdir).absolute() / 'checkpoints'
    step = _choose(directory, step)
    return _restore(directory / str(step), {'params': target})[0]['params'], step


def newest_step(workdir: str | os.PathLike[str]) -> int:
    """The newest checkpoint's step of a run; ValueError if it has none."""
    return _choose(pathlib.Path(workdir).absolute() / 'checkpoints', None)


def save_cached_params(
    directory: str | os.PathLike[str], params: PyTree, *, fingerprint: Mapping[str, Any]
) -> None:
    """Keeps parameters, with what they were made from, for a later run to find.

    Args:
        directory: holds this one set of parameters.
        params: pytree of arrays.
        fingerprint: JSON object of everything that decides the values.

    Raises ValueError if it cannot be written, or holds parameters already.
    """
    directory = pathlib.Path(directory).absolute()
    if (directory / '0').exists():
        raise InputError(f'{directory} holds parameters already')
    Checkpoints(directory, keep=1)
    _save(directory / '0', {'params': params}, {'fingerprint': dict(fingerprint)})


def restore_cached_params(
    directory: str | os.PathLike[str], target: PyTree, *, fingerprint: Mapping[str, Any]
) -> PyTree | None:
    """Reads what :func:`save_cached_params` kept, ``None`` if it kept nothing.

    Args:
        directory, target: as given when saving, and as in :meth:`Checkpoints.restore`.
        fingerprint: must equal the one saved.

    Raises ValueError if made from something else (naming the keys that differ), and as
    :meth:`Checkpoints.restore` does.
    """
    directory = pathlib.Path(directory).absolute()
    if not (directory / '0').exists():
        return None
    _verify(directory / '0')
    saved = _read_meta(directory / '0').get('fingerprint', {})
    wanted = json.loads(json.dumps(dict(fingerprint)))
    keys = saved.keys() | wanted.keys()
    differing = [k for k in sorted(keys) if saved.get(k, ...) != wanted.get(k, ...)]
    if differing:
        raise InputError(
            f'the parameters cached in {directory} were made with another '
            f'{", ".join(differing)}; delete the directory to make them again'
        )
    return _restore(directory / '0', {'params': target})[0]['params']


def _save(
    path: pathlib.Path, items: dict[str, PyTree], meta: Mapping[str, Any]
) -> None:
    """Writes ``path`` under another name and renames it once all of it is there."""
    saving = path.with_name(path.name + _SAVING)
    flat = {name: _flatten(tree) for name, tree in items.items()}
    text = json.dumps({'format': _FORMAT, 'meta': dict(meta)}, indent=2) + '\n'
    before = list(_steps(path.parent))
    what = f'checkpoint {path} could not be saved (complete before it: {before})'
    with _named_errors(what):
        with _quiet(), _checkpointer(flat) as checkpointer:
            # Plain SGD has no state, and Orbax refuses an empty tree.
            args = {k: ocp.args.StandardSave(v) for k, v in flat.items() if v}
            checkpointer.save(saving, args=ocp.args.Composite(**args))
        if jax.process_index() == 0:
            atomic_write_text(saving / 'meta.json', text)
        hosts.barrier('passk_jax checkpoint written')
        digests.write_digests(
            saving, process=jax.process_index(), num_processes=jax.process_count()
        )
        hosts.barrier('passk_jax checkpoint digested')
        if jax.process_index() == 0:
            saving.rename(path)
        hosts.barrier('passk_jax checkpoint saved')


def _restore(
    path: pathlib.Path, targets: dict[str, PyTree]
) -> tuple[dict[str, PyTree], dict[str, Any]]:
    """Checks the files, then the structure, then reads the items of ``targets``."""
    _verify(path)
    meta = _read_meta(path)
    flat = {name: _flatten(tree) for name, tree in targets.items()}
    with _quiet(), _checkpointer(flat) as checkpointer:
        stored = checkpointer.metadata(path).item_metadata
        problems = []
        for name, leaves in flat.items():
            held = stored.get(name)
            problems += _differences(name, dict(held.tree) if held else {}, leaves)
        if problems:
            raise InputError(
                f'checkpoint {path} does not fit this run (is it of another model or '
                'dtype?):\n  ' + '\n  '.join(problems)
            )
        args = {
            name: ocp.args.StandardRestore(
                {key: _abstract(leaf) for key, leaf in leaves.items()}
            )
            for name, leaves in flat.items()
            if leaves
        }
        restored = checkpointer.restore(path, args=ocp.args.Composite(**args))
    items = {}
    for name, tree in targets.items():
        values = [restored[name][key] for key in flat[name]]
        items[name] = jax.tree.unflatten(jax.tree.structure(tree), values)
    return items, meta


def _differences(
    name: str, stored: Mapping[str, Any], target: Mapping[str, Any]
) -> list[str]:
    """One line for each array that is not the same in both."""
    lines = []
    for key in sorted(stored.keys() | target.keys()):
        if key not in target:
            lines.append(f'{name}: {key} is in the checkpoint only')
        elif key not in stored:
            lines.append(f'{name}: {key} is not in the checkpoint')
        elif _kind(stored[key]) != _kind(target[key]):
            lines.append(
                f'{name}: {key} is {_kind(stored[key])} in the checkpoint, not '
                f'{_kind(target[key])}'
            )
    return lines


def _kind(leaf: Any) -> str:
    return f'{np.dtype(leaf.dtype).name}{list(leaf.shape)}'


def _flatten(tree: PyTree) -> dict[str, Any]:
    """Leaves by dotted path: no container type is part of a checkpoint."""
    leaves = jax.tree.leaves_with_path(tree)
    flat = {
        jax.tree_util.keystr(path, simple=True, separator='.'): leaf
        for path, leaf in leaves
    }
    if len(flat) != len(leaves):
        raise InputError('two leaves of a pytree to checkpoint have the same path')
    bad = [key for key, leaf in flat.items() if not hasattr(leaf, 'dtype')]
    if bad:
        raise InputError(f'a pytree to checkpoint must hold arrays; not arrays: {bad}')
    return flat


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    sharding = getattr(leaf, 'sharding', None)
    if sharding is None:
        sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _checkpointer(names: Mapping[str, Any]) -> ocp.Checkpointer:
    handlers = {name: ocp.StandardCheckpointHandler() for name in names}
    return ocp.Checkpointer(ocp.CompositeCheckpointHandler(**handlers))


def _steps(directory: pathlib.Path) -> tuple[int, ...]:
    if not directory.is_dir():
        return ()
    names = (path.name for path in directory.iterdir())
    return tuple(sorted(int(n) for n in names if n.isascii() and n.isdigit()))


def _choose(directory: pathlib.Path, step: int | None) -> int:
    steps = _steps(directory)
    if not steps:
        state = 'is empty' if directory.is_dir() else 'does not exist'
        raise InputError(
            f'no checkpoint to restore: {directory} {state}; name the directory of a '
            'run that has saved at least one'
        )
    if step is None:
        return steps[-1]
    if step not in steps:
        raise InputError(f'no checkpoint of {step=} in {directory}; there is {steps}')
    return step


def _verify(path: pathlib.Path) -> None:
    """Compares the files with the digests taken when they were written."""
    damage = digests.find_damage(
        path, process=jax.process_index(), num_processes=jax.process_count()
    )
    if damage is not None:
        others = [step for step in _steps(path.parent) if str(step) != path.name]
        raise InputError(
            f'checkpoint {path} is corrupted: {damage}. Other checkpoints in '
            f'{path.parent}: {others or "none"}; to use the newest of them, delete '
            f'{path} and start again'
        )


def _read_meta(path: pathlib.Path) -> dict[str, Any]:
    content = json.loads((path / 'meta.json').read_text())
    if (found := content['format']) != _FORMAT:
        raise InputError(
            f'checkpoint {path} has format {found}, and this program reads {_FORMAT} '
            '(1 was written before layers were stacked): train it again, or use the '
            "revision in the run's git.json"
        )
    return content['meta']


def _remove(path: pathlib.Path) -> None:
    """Renames first: a removal killed halfway must not look like a checkpoint."""
    doomed = path.with_name(path.name + _DELETING)
    path.rename(doomed)
    shutil.rmtree(doomed)


def _remove_leftovers(directory: pathlib.Path) -> None:
    for path in directory.iterdir():
        if path.name.endswith(_DELETING) or _SAVING in path.name:
            logging.info('removing an unfinished checkpoint: %s', path)
            shutil.rmtree(path)


@contextlib.contextmanager
def _named_errors(what: str) -> Iterator[None]:
    """Turns what the disk or Orbax raise into one error that says what to do.

    TensorStore reports a full disk as a ValueError; Orbax raises bare exceptions.
    """
    try:
        yield
    except Exception as error:
        raise InputError(
            f'{what}: {type(error).__name__}: {error}. Is the disk full, or the '
            'directory not writable?'
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Orbax logs forty lines a checkpoint, and warns of each item that is not read."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(min(verbosity, logging.ERROR))
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)

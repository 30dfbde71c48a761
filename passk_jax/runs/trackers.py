"""Copies of a run's numbers for TensorBoard, Weights & Biases and trackio.

A :class:`Tracker` gets the values of ``metrics.jsonl``, ``diagnostics.jsonl`` and
``timing.jsonl``, except lists. A run never reads from a tracker. After a resume,
TensorBoard drops the steps that are repeated; the services do not.
"""

import importlib
import pathlib
import types
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from passk_jax.config import LogConfig
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text

_SERVICES = ('wandb', 'trackio')


class Tracker(Protocol):
    """A service or file that shows a run's numbers."""

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Shows numbers of a step by their names."""

    def close(self) -> None:
        """Sends pending values, and closes."""


def import_packages(log: LogConfig) -> dict[str, types.ModuleType]:
    """Imports the packages of the services that are on; InputError if one is absent."""
    projects = {name: getattr(log, f'{name}_project') for name in _SERVICES}
    packages = {}
    for name, project in projects.items():
        if not project:
            continue
        try:
            packages[name] = importlib.import_module(name)
        except ImportError as error:
            key = f'log.{name}_project'
            raise InputError(
                f'{key}={project!r} needs a package that is not installed: '
                f"pip install {name} (or set {key}='')"
            ) from error
    return packages


def open_trackers(
    log: LogConfig,
    packages: Mapping[str, types.ModuleType],
    workdir: pathlib.Path,
    *,
    resume_step: int,
    config: Mapping[str, Any],
) -> list[Tracker]:
    """Opens all trackers that are on.

    Args:
        log: selects the trackers.
        packages: from :func:`import_packages`.
        workdir: the run directory.
        resume_step: the first step to be taken; 0 in a new run.
        config: the config that the services show.
    """
    trackers: list[Tracker] = []
    if log.tensorboard:
        trackers.append(_TensorBoard(workdir, resume_step))
    for name, package in packages.items():
        trackers.append(_Service(name, package, workdir, log, config))
    return trackers


class _TensorBoard:
    def __init__(self, workdir: pathlib.Path, resume_step: int):
        # This import takes a second, and the package is optional.
        import tensorboardX

        self.writer = tensorboardX.SummaryWriter(
            str(workdir / 'tensorboard'),
            purge_step=resume_step,
            # No limit: a full disk ends the writing thread, and a full queue would
            # block.
            max_queue=0,
            # File names have only seconds, so a quick restart would overwrite a file.
            filename_suffix=f'.from_step_{resume_step}',
        )

    def write(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class _Service:
    """A run of Weights & Biases or trackio; a resumed run continues it.

    Weights & Biases finds it by the id in ``wandb_id.txt``, trackio by a name that ends
    in ``trackio_id.txt``.
    """

    def __init__(
        self,
        name: str,
        package: Any,
        workdir: pathlib.Path,
        log: LogConfig,
        config: Mapping[str, Any],
    ):
        path = workdir / f'{name}_id.txt'
        if not path.exists():
            atomic_write_text(path, uuid.uuid4().hex)
        # A service rejects a damaged id.
        id = path.read_text(encoding='utf-8', errors='replace').strip()
        address = {'name': f'{workdir.name}-{id[:8]}'}
        if name == 'wandb':
            address = {'name': workdir.name, 'id': id, 'dir': str(workdir)}
        self._run = package.init(
            project=getattr(log, f'{name}_project'),
            **address,
            resume='allow',
            config=dict(config),
        )

    def write(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()

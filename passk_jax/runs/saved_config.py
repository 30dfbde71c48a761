"""Reads the configuration of an existing run, and adapts it to this process's devices.

``evaluate`` and ``export`` may use other devices than training did, with another mesh
and another attention kernel.
"""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from passk_jax import config as configs
from passk_jax.config import ExperimentConfig, InitConfig, MeshConfig, checks
from passk_jax.errors import InputError
from passk_jax.files import read_json


def run_config(workdir: pathlib.Path, mesh: str | None = None) -> ExperimentConfig:
    """Reads a run's configuration and adapts it to this process's devices.

    Attention kernels that some devices lack become ``'auto'``, which chooses the same
    kernel on the run's devices. ``pack_sizes`` becomes 0, because only the learner
    packs.

    Args:
        workdir: the run directory.
        mesh: comma-separated values of the section ``mesh``; the fifth may be left out
            and is then 0; ``None``: the run's mesh.

    Raises:
        ValueError: ``workdir`` is not a run directory, another version of the program
            wrote it, or ``mesh`` is malformed.
    """
    config = _read(config_file(workdir))
    train, model = dataclasses.replace(config.train, pack_sizes=0), config.model
    if model.attention != 'plain':
        model = dataclasses.replace(model, attention='auto')
    if model.experts != 'blocks':
        model = dataclasses.replace(model, experts='auto')
    config = dataclasses.replace(config, train=train, model=model)
    if mesh is None:
        return config
    values = configs.to_dict(config) | {'mesh': parse_mesh(mesh)}
    return configs.from_json_dict(values)


def parse_mesh(mesh: str) -> dict[str, int]:
    """Parses ``--mesh`` into the section ``mesh``; InputError if it is malformed."""
    *axes, last = (field.name for field in dataclasses.fields(MeshConfig))
    sizes = mesh.split(',')
    if len(sizes) == len(axes):
        sizes.append('0')
    if len(sizes) != len(axes) + 1 or not all(re.fullmatch(r'-?\d+', x) for x in sizes):
        raise InputError(
            f'{mesh=} must be {",".join(axes)} or {",".join(axes)},{last}, for example '
            '-1,1,1,1'
        )
    return dict(zip((*axes, last), map(int, sizes), strict=True))


def config_file(workdir: pathlib.Path) -> pathlib.Path:
    """Returns the path of a run's config; InputError if there is none."""
    path = workdir / 'config.json'
    if not path.is_file():
        raise InputError(f'{workdir} is not a run directory: {path} is absent')
    return path


def stage_of(stage: int, init: InitConfig, workdir: pathlib.Path) -> int:
    """Resolves the number of a run's first stage.

    Args:
        stage: the number; -1: one more than the last stage of the run that ``init``
            starts from, or 0 if there is none.
        init: the source of the first policy.
        workdir: the run directory. A run that has begun keeps its number, even if the
            earlier run is gone.

    Raises:
        ValueError: the earlier run has no readable configuration.
    """
    if stage != -1:
        return stage
    if init.kind != 'checkpoint':
        return 0
    path = workdir / 'config.json'
    if path.exists() and (saved := _read(path)).init.checkpoint == init.checkpoint:
        return saved.stage
    earlier = run_config(pathlib.Path(init.checkpoint).expanduser())
    return configs.stages_of(earlier)[-1].config.stage + 1


def _read(path: pathlib.Path) -> ExperimentConfig:
    """Reads a config; InputError if another version of the program wrote it."""
    which = 'git.json beside it says which version of passk_jax wrote it'
    try:
        values = configs.with_new_options(read_json(path))
        differing = values and sorted(_differing_keys(ExperimentConfig, values))
        if not differing:
            return configs.from_json_dict(values)
    except ValueError as error:
        raise InputError(f'{path} is not a config: {error} ({which})') from error
    raise InputError(
        f'{path} is from another version of passk_jax ({which}): the keys {differing} '
        'exist in only one of the two versions'
    )


def _differing_keys(section: type, values: Any, prefix: str = '') -> Iterator[str]:
    """Yields the dotted keys that are only in the section or only in the values."""
    if not isinstance(values, Mapping):
        return
    kinds, other_keys_field = checks.fields(section)
    missing, unknown = kinds.keys() - values, values.keys() - kinds
    differing = missing if other_keys_field else missing | unknown
    yield from (prefix + name for name in differing)
    for name in kinds.keys() & values.keys():
        if dataclasses.is_dataclass(kinds[name]):
            yield from _differing_keys(kinds[name], values[name], f'{prefix}{name}.')

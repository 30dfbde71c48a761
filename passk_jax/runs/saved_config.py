"""The configuration of an existing run, adapted to the devices of this process.

``evaluate`` and ``export`` may use other devices than the training did. Those need
another mesh and another attention kernel.
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

_AXES = tuple(field.name for field in dataclasses.fields(MeshConfig))


def run_config(workdir: pathlib.Path, mesh: str | None = None) -> ExperimentConfig:
    """Reads the configuration a run started with and fits it to this process's devices.

    A kernel that some devices lack becomes ``'auto'``, which chooses the same kernel on
    the run's devices. ``pack_sizes`` becomes 0, because only the learner packs.

    Args:
        workdir: the run directory.
        mesh: comma-separated sizes of the mesh's axes; ``None``: the run's mesh.

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
    """The size of each axis of a mesh, from the flag; ValueError if malformed."""
    sizes = mesh.split(',')
    if len(sizes) != len(_AXES) or not all(re.fullmatch(r'-?\d+', x) for x in sizes):
        raise InputError(f'{mesh=} must be {",".join(_AXES)}, for example -1,1,1,1')
    return dict(zip(_AXES, map(int, sizes), strict=True))


def config_file(workdir: pathlib.Path) -> pathlib.Path:
    """The configuration of a run; InputError if this is not a run directory."""
    path = workdir / 'config.json'
    if not path.is_file():
        raise InputError(f'{workdir} is not a run directory: {path} is absent')
    return path


def stage_of(stage: int, init: InitConfig, workdir: pathlib.Path) -> int:
    """The stage of a run, which may leave it open.

    Args:
        stage: the stage; -1: one more than the last of the run that ``init`` goes on
            from, or else 0.
        init: where the run's parameters come from.
        workdir: the run directory. A run that has begun keeps its stage, so the earlier
            run may be gone.

    Raises:
        ValueError: the earlier run has no readable configuration.
    """
    if stage != -1:
        return stage
    if init.kind != 'checkpoint':
        return 0
    own_file = workdir / 'config.json'
    if (
        own_file.exists()
        and (saved := _read(own_file)).init.checkpoint == init.checkpoint
    ):
        return saved.stage
    earlier = run_config(pathlib.Path(init.checkpoint).expanduser())
    return configs.stages_of(earlier)[-1].config.stage + 1


def _read(path: pathlib.Path) -> ExperimentConfig:
    """Reads the file, which this version of the program must have written."""
    which = 'git.json beside it says which version of passk_jax wrote it'
    try:
        values = configs.with_new_options(read_json(path))
        differing = values and sorted(_differing_keys(ExperimentConfig, values))
        if not differing:
            return configs.from_json_dict(values)
    except ValueError as error:
        raise InputError(f'{path} is not a config: {error} ({which})') from error
    raise InputError(
        f'{path} is from another version of passk_jax ({which}): only one of the two '
        f'has {differing}'
    )


def _differing_keys(section: type, values: Any, prefix: str = '') -> Iterator[str]:
    """Dotted keys that only the section or only the file's values have."""
    if not isinstance(values, Mapping):
        return
    kinds, other_keys_field = checks.fields(section)
    missing, unknown = kinds.keys() - values, values.keys() - kinds
    yield from (
        prefix + name for name in missing | (set() if other_keys_field else unknown)
    )
    for name in kinds.keys() & values.keys():
        if dataclasses.is_dataclass(kinds[name]):
            yield from _differing_keys(kinds[name], values[name], f'{prefix}{name}.')

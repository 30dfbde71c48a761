"""A run that is there already, as the commands that come after training find it.

The flags that ``evaluate`` and ``export`` share, and the run's own configuration with
the mesh and the attention kernel of this process: which devices a run had says nothing
of those it is read on.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from absl import flags

from passk_jax import config as configs
from passk_jax.config import ExperimentConfig, MeshConfig, checks
from passk_jax.errors import InputError

_AXES = tuple(field.name for field in dataclasses.fields(MeshConfig))

# Here because flags are global, and more than one command has them.
STEP = flags.DEFINE_integer('step', None, 'Step of the checkpoint; newest if absent.')
MESH = flags.DEFINE_string(
    'mesh', None, f"{','.join(_AXES)}, of which one may be -1; the run's if absent."
)


def run_config(workdir: pathlib.Path) -> ExperimentConfig:
    """The configuration a run began with, on the devices of this process.

    The mesh is what ``--mesh`` says. A kernel that not every device has becomes
    ``'auto'``, which is the same one where the run's devices are, and responses are not
    packed, which only the learner does.

    Raises:
        ValueError: no run directory, no configuration in it, one of another version of
            the program, or a bad ``--mesh``.
    """
    path = workdir / 'config.json'
    if not path.is_file():
        raise InputError(f'{workdir} is no run directory: {path} is absent')
    config = _read(path)
    # Nothing is trained any more: how the learner packs need not suit these devices.
    train = dataclasses.replace(config.train, pack_sizes=0)
    config = dataclasses.replace(config, train=train)
    if config.model.attention != 'plain':
        model = dataclasses.replace(config.model, attention='auto')
        config = dataclasses.replace(config, model=model)
    if MESH.value is None:
        return config
    sizes = MESH.value.split(',')
    if len(sizes) != len(_AXES) or not all(re.fullmatch(r'-?\d+', x) for x in sizes):
        raise InputError(
            f'mesh={MESH.value!r} must be {",".join(_AXES)}, for example -1,1,1,1'
        )
    values = configs.to_dict(config)
    values['mesh'] = dict(zip(_AXES, map(int, sizes), strict=True))
    return configs.from_json_dict(values)


def _read(path: pathlib.Path) -> ExperimentConfig:
    """What a run wrote, if it was this version of the program."""
    which = 'git.json beside it says which version of passk_jax wrote it'
    try:
        values = json.loads(path.read_text())
        differing = values and sorted(_differing_keys(ExperimentConfig, values))
        if not differing:
            return configs.from_json_dict(values)
    except ValueError as error:
        raise InputError(f'{path} is not a config: {error} ({which})') from error
    raise InputError(
        f'{path} is of another version of passk_jax ({which}): only one of the two has '
        f'{differing}'
    )


def _differing_keys(section: type, values: Any, prefix: str = '') -> Iterator[str]:
    """Dotted keys that only one of a section and what a file says of it has."""
    if not isinstance(values, Mapping):
        return
    kinds, others = checks.fields(section)
    missing, unknown = kinds.keys() - values, values.keys() - kinds
    yield from (prefix + name for name in missing | (set() if others else unknown))
    for name in kinds.keys() & values.keys():
        if dataclasses.is_dataclass(kinds[name]):
            yield from _differing_keys(kinds[name], values[name], f'{prefix}{name}.')

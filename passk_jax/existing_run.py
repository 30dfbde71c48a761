"""A run that is there already, as the commands that come after training find it.

The flags that ``evaluate`` and ``export`` share, and the run's own configuration with
the mesh of this process: which devices a run had says nothing of those it is read on.
"""

import dataclasses
import json
import pathlib
import re

from absl import flags

from passk_jax import config as configs
from passk_jax.config import ExperimentConfig, MeshConfig

_AXES = tuple(field.name for field in dataclasses.fields(MeshConfig))

# Here because flags are global, and more than one command has them.
STEP = flags.DEFINE_integer('step', None, 'Step of the checkpoint; newest if absent.')
MESH = flags.DEFINE_string(
    'mesh', None, f"{','.join(_AXES)}, of which one may be -1; the run's if absent."
)


def run_config(workdir: pathlib.Path) -> ExperimentConfig:
    """The configuration a run began with, on the mesh that ``--mesh`` says.

    Raises:
        ValueError: no run directory, no configuration in it, or a bad ``--mesh``.
    """
    path = workdir / 'config.json'
    if not path.is_file():
        raise ValueError(f'{workdir} is no run directory: {path} is absent')
    try:
        config = configs.from_json_dict(json.loads(path.read_text()))
    except ValueError as error:
        raise ValueError(f'{path} is not a config: {error}') from error
    if MESH.value is None:
        return config
    sizes = MESH.value.split(',')
    if len(sizes) != len(_AXES) or not all(re.fullmatch(r'-?\d+', x) for x in sizes):
        raise ValueError(
            f'mesh={MESH.value!r} must be {",".join(_AXES)}, for example -1,1,1,1'
        )
    values = configs.to_dict(config)
    values['mesh'] = dict(zip(_AXES, map(int, sizes), strict=True))
    return configs.from_json_dict(values)

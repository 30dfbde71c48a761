"""A published model as a run that never trained: for ``evaluate --model``.

Its configuration is that of a config file with the model in the place of the file's.
Without such a file it is ``configs/base.py``.
"""

import dataclasses
import pathlib

import jax

import passk_jax
from passk_jax import config as configs
from passk_jax.cli import config_file
from passk_jax.config import ExperimentConfig
from passk_jax.errors import InputError
from passk_jax.evaluation.other_tasks import split_names
from passk_jax.models.hf.config import source_directory
from passk_jax.runs.digests import digest
from passk_jax.runs.saved_config import parse_mesh
from passk_jax.setup.capacity import host_bytes
from passk_jax.tasks import task_class

_BASE = pathlib.Path(passk_jax.__file__).parents[1] / 'configs' / 'base.py'
_WEIGHTS = ('*.json', '*.safetensors')
# On a CPU: the share of the memory that keys and values may take, one in this many, and
# the most problems at a time.
_CACHE_SHARE, _CPU_BATCH = 4, 8


def published_config(
    source: str, tasks: str, mesh: str | None = None
) -> ExperimentConfig:
    """The configuration with which a published model is evaluated on tasks.

    Args:
        source: a Hugging Face directory or a hub name.
        tasks: names of tasks and config files, as ``evaluate --task`` takes them. The
            first file gives what is not the model's.
        mesh: as for :func:`~passk_jax.runs.saved_config.run_config`; ``None``: all
            devices hold shards.

    Raises:
        InputError: a file that cannot be read, or a value that does not fit.
    """
    names = split_names(tasks)
    files = [name for name in names if '.py' in name]
    if not files and not _BASE.is_file():
        raise InputError(
            f'--model needs {_BASE}, which this installation lacks: name a config file '
            f'in --task={tasks}'
        )
    config = config_file.load(files[0] if files else str(_BASE))
    if not files:
        about = task_class(names[0]).about
        config.task.name = names[0]
        config.task.params = {**about.example, **about.benchmark}
    config.name, config.stage = config.name or 'published', max(config.stage, 0)
    sizes = {name: type(size)() for name, size in config.model.arch.items()}
    config.model.update(family='', source=source, tokenizer='source', arch=sizes)
    config.model.attention = 'auto'
    config.init.update(kind='hf', checkpoint='')
    # Training settings are not used: give them values that pass every check.
    config.train.update(pack_sizes=0, num_prompts=1, mini_batch_prompts=1)
    config.train.micro_batch_prompts = 1
    config.log.diagnostics_every = config.log.difficulty_bins = 0
    config.checkpoint.keep_best = ''
    config.mesh.update(parse_mesh(mesh or '1,-1,1,1'))
    return configs.from_config_dict(config)


def fit_to_devices(config: ExperimentConfig) -> ExperimentConfig:
    """Adapts settings that change nothing but rounding to the devices of this process.

    A CPU multiplies float32 faster than bfloat16, and its keys and values share the
    memory of the host.
    """
    if jax.default_backend() != 'cpu':
        return config
    model = dataclasses.replace(config.model, compute_dtype='float32')
    limit = config.sampling.max_cache_bytes or host_bytes() // _CACHE_SHARE
    sampling = dataclasses.replace(config.sampling, max_cache_bytes=limit)
    size = min(config.eval.batch_size, _CPU_BATCH)
    evaluation = dataclasses.replace(config.eval, batch_size=size)
    return dataclasses.replace(config, model=model, sampling=sampling, eval=evaluation)


def digest_weights(source: str) -> dict[str, str]:
    """The SHA-256 of each file that decides what the model does."""
    directory = source_directory(source, _WEIGHTS)
    paths = sorted(path for pattern in _WEIGHTS for path in directory.glob(pattern))
    return {path.name: digest(path) for path in paths}

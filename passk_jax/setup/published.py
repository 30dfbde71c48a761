"""The configuration that ``evaluate --model`` uses for a published model.

The model replaces the model of the first config file in ``--task``, or else of
``configs/base.py``. The evaluation is like a run's evaluation before its first step.
"""

import dataclasses

import jax

from passk_jax import config as configs
from passk_jax.cli import config_file, config_folder
from passk_jax.config import ExperimentConfig
from passk_jax.errors import InputError
from passk_jax.evaluation.other_tasks import is_config_file, split_names
from passk_jax.models.hf.config import CONSOLIDATED, source_directory
from passk_jax.runs.digests import digest
from passk_jax.runs.saved_config import parse_mesh
from passk_jax.setup.capacity import device_bytes
from passk_jax.setup.model import check_positions
from passk_jax.tasks import task_class

_WEIGHTS = ('*.json', '*.safetensors')
# The KV cache may take 1 / _CACHE_SHARE of a device's memory. On a CPU, a batch has at
# most _CPU_BATCH problems.
_CACHE_SHARE, _CPU_BATCH = 4, 8


def published_config(
    source: str, tasks: str, mesh: str | None = None
) -> ExperimentConfig:
    """Returns the configuration to evaluate a published model on tasks.

    Args:
        source: a Hugging Face directory or a hub name.
        tasks: names of tasks and config files, as ``evaluate --task`` accepts them. The
            first config file sets everything except the model.
        mesh: as for :func:`~passk_jax.runs.saved_config.run_config`; ``None`` shards
            over all devices.

    Raises:
        InputError: a file cannot be read, or a value does not fit.
    """
    names = split_names(tasks)
    files = [name for name in names if is_config_file(name)]
    config = config_file.load(
        files[0] if files else str(config_folder.FOLDER / 'base.py')
    )
    if not files:
        about = task_class(names[0]).about
        config.task.name = names[0]
        config.task.params = {**about.example, **about.benchmark}
    config.name, config.stage = config.name or 'published', max(config.stage, 0)
    config_file.replace_model(config, source)
    config.model.update(attention='auto', train_vision=False)
    config.model.update(frozen=(), frozen_dtype='')
    config.model.lora.update(configs.NO_ADAPTERS)
    config.init.update(kind='hf', checkpoint='')
    # Settings that only training reads must not raise an error.
    config.train.update(pack_sizes=0, num_prompts=1, mini_batch_prompts=1)
    config.train.micro_batch_prompts = 1
    config.model.replay_routing, config.loss.router_aux_coef = False, 0.0
    config.stages = {}
    config.log.diagnostics_every = config.log.difficulty_bins = 0
    config.checkpoint.keep_best = ''
    config.mesh.update(parse_mesh(mesh or '1,-1,1,1'))
    return configs.from_config_dict(config)


def fit_to_devices(config: ExperimentConfig) -> ExperimentConfig:
    """Adapts settings to this process's devices; results change only by rounding.

    The KV cache has a part of the memory. A CPU multiplies float32 faster than
    bfloat16.
    """
    memory = device_bytes(jax.local_devices()[0])
    limit = config.sampling.max_cache_bytes or memory // _CACHE_SHARE
    sampling = dataclasses.replace(config.sampling, max_cache_bytes=limit)
    config = dataclasses.replace(config, sampling=sampling)
    if jax.default_backend() != 'cpu':
        return config
    model = dataclasses.replace(config.model, compute_dtype='float32')
    size = min(config.eval.batch_size or _CPU_BATCH, _CPU_BATCH)
    evaluation = dataclasses.replace(config.eval, batch_size=size)
    return dataclasses.replace(config, model=model, eval=evaluation)


def check_lengths(config: ExperimentConfig) -> None:
    """Checks that the model can address the longest prompt with its response.

    Raises:
        InputError: it cannot; the message names the flags of ``evaluate``.
    """
    try:
        check_positions(config.model, config.data, config.sampling)
    except InputError as error:
        raise InputError(
            f'{error}. A config file in --task sets data.max_prompt_tokens, which is '
            f'{config.data.max_prompt_tokens}, as --task=configs/maze_tiny.py does; '
            '--max_response_tokens sets the other'
        ) from error


def digest_weights(source: str) -> dict[str, str]:
    """Returns the SHA-256 of each weight and configuration file of a model."""
    directory = source_directory(source, _WEIGHTS)
    paths = sorted(path for pattern in _WEIGHTS for path in directory.glob(pattern))
    return {x.name: digest(x) for x in paths if not x.match(CONSOLIDATED)}

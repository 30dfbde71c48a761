"""The first policy of a run: warm start, Hugging Face weights, another run, scratch.

The result of a warm start is stored in ``<workdir>/warm_start``. For a policy from
another run, ``<workdir>/initial.json`` records the step.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
from absl import logging
from jax.sharding import Mesh

from passk_jax import plugins, sampling
from passk_jax.config import InitConfig, ModelConfig, TaskConfig
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text, read_json
from passk_jax.initial.warm_start import WarmStartData, warm_start
from passk_jax.models import policy as policies
from passk_jax.models.hf import adapters as hf_adapters
from passk_jax.models.hf import weights
from passk_jax.models.lora import Lora, merge
from passk_jax.models.policy import Params, Policy
from passk_jax.models.tokenizer import CHAT_DATE
from passk_jax.runs import checkpoints
from passk_jax.runs.directory import has_begun
from passk_jax.runs.saved_config import run_config
from passk_jax.runtime import hosts

ONLY_ROUNDING = (
    'model.attention',
    'model.experts',
    'model.head_chunk_tokens',
    'model.remat',
    'train.micro_batch_prompts',
    'train.micro_batch_rollouts',
    'train.pack_sizes',
    'train.packing',
    'train.scoped_vmem_kib',
)
"""Keys whose values change only rounding, as the mesh does."""

EXAMPLES_NAME, EXAMPLES = 'examples.jsonl', 3
"""Where a run keeps the first demonstrations of its warm start, and how many."""


def initial_params(
    policy: Policy,
    mesh: Mesh,
    workdir: pathlib.Path,
    *,
    init: InitConfig,
    model: ModelConfig,
    task: TaskConfig,
    demonstrations: WarmStartData,
    stop: Callable[[], bool],
    on_step: Callable[[int], None],
) -> Params | None:
    """Makes or reads the parameters before step 0, on the mesh, without adapters.

    Args:
        policy, mesh: the policy, and the mesh that holds its parameters. If it has
            adapters, these are the parameters of its base, for :func:`add_adapters`.
        workdir: the run directory.
        init: where the parameters come from.
        model, task: sections of the configuration. ``model`` names published weights,
            and both identify a stored warm start.
        demonstrations: for a warm start; their seed is also that of random parameters.
        stop: returns whether to stop; called at every step of a warm start.
        on_step: called with each step of a warm start before it begins.

    Returns:
        The parameters; ``None`` if ``stop`` returned true.

    Raises:
        ValueError: the source does not fit the model.
    """
    policy = _base_of(policy, init)

    def published_or_random() -> Params:
        if model.source and init.kind != 'scratch':
            return weights.load_params(policy, model.source, mesh)
        return random_params(policy, mesh, seed=demonstrations.seed)

    if init.kind == 'checkpoint':
        return _from_run(policy, mesh, init.checkpoint, workdir / 'initial.json')
    if init.kind != 'warm_start':
        return published_or_random()
    cache = workdir / 'warm_start'
    if jax.process_index() == 0:
        lines = map(json.dumps, demonstrations.examples(EXAMPLES))
        cache.mkdir(parents=True, exist_ok=True)
        atomic_write_text(cache / EXAMPLES_NAME, ''.join(f'{x}\n' for x in lines))
    made_of = _fingerprint(policy, model, task, demonstrations)
    shapes = policies.param_shapes(policy, mesh)
    params = checkpoints.restore_cached_params(cache, shapes, fingerprint=made_of)
    if params is not None:
        logging.info('warm start: read from %s', cache)
        return params
    start = published_or_random()
    params = warm_start(policy, start, demonstrations, mesh, stop=stop, on_step=on_step)
    if params is not None:
        checkpoints.save_cached_params(cache, params, fingerprint=made_of)
    return params


def _base_of(policy: Policy, init: InitConfig) -> Policy:
    """Returns the policy without adapters whose parameters are made first."""
    if policy.arch.lora is None:
        return policy
    if init.kind == 'warm_start':
        # A warm start trains the base, in the dtype of trained parameters.
        return dataclasses.replace(policy.base, frozen=frozenset(), frozen_dtype='')
    return policy.base


def add_adapters(
    policy: Policy, params: Params, mesh: Mesh, *, source: str, seed: int
) -> Params:
    """Adds adapters to the parameters of :func:`initial_params`, if ``policy`` has any.

    Args:
        policy, mesh: as in :func:`initial_params`.
        params: the parameters of the base, which get the dtype of frozen parameters.
        source: a PEFT directory with the adapters; ``''``: new adapters, which change
            nothing yet.
        seed: the seed of new adapters.

    Raises:
        InputError: the directory does not fit the policy.
    """
    if policy.arch.lora is None:
        return params
    shapes = policies.param_shapes(policy, mesh)
    params = {name: x.astype(shapes[name].dtype) for name, x in params.items()}
    if source:
        return params | hf_adapters.load_adapters(policy, source, mesh)
    key = _first_key(seed)
    return params | policies.init_params(policy, key, mesh, only_adapters=True)


def random_params(policy: Policy, mesh: Mesh, *, seed: int) -> Params:
    """Draws random parameters, which the seed determines."""
    return policies.init_params(policy, _first_key(seed), mesh)


def _first_key(seed: int) -> jax.Array:
    return sampling.step_key(seed=seed, purpose=sampling.Purpose.PARAMETERS, step=0)


def _fingerprint(
    policy: Policy, model: ModelConfig, task: TaskConfig, demonstrations: WarmStartData
) -> Mapping[str, Any]:
    """Returns everything that determines the result of a warm start."""
    fields, data = _options(model), demonstrations.data
    options = {
        'system_prompt': data.system_prompt,
        'chat_template_kwargs': dict(data.chat_template_kwargs),
        'chat_date': data.chat_date if data.chat_date != CHAT_DATE else '',
        'frozen': sorted(policy.frozen),
        'few_shot': list(data.few_shot),
        # A list, because an empty instruction differs from the task's own.
        'instruction': [data.instruction] if data.instruction != 'task' else [],
        'max_picture_pixels': data.max_picture_pixels,
        'blank_pictures': data.blank_pictures,
        'plugins': plugins.digests_in(dataclasses.asdict(task)),
    }
    # No sampler chose the experts of a demonstration.
    without = (*ONLY_ROUNDING, 'model.replay_routing', 'model.lora')
    # frozen_dtype rounds only frozen parameters; a warm start trains those of a base.
    without += () if policy.frozen else ('model.frozen_dtype',)
    return {
        'seed': demonstrations.seed,
        'model': {k: v for k, v in fields.items() if f'model.{k}' not in without},
        'task': {'name': task.name, 'params': dict(task.params)},
        'warm_start': dataclasses.asdict(demonstrations.warm_start),
        'max_prompt_tokens': data.max_prompt_tokens,
        'max_response_tokens': demonstrations.max_response_tokens,
        # Leave out options that are off, because older warm starts lack them.
        **{name: value for name, value in options.items() if value},
    }


def _options(section: Any) -> dict[str, Any]:
    """Returns the fields of a section, without options that are off.

    Warm starts that are older than an option lack it.
    """
    values = {}
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        is_section = dataclasses.is_dataclass(value)
        # A section is off if all of its fields are.
        stated = dataclasses.asdict(value) if is_section else value
        if field.metadata.get('off', ...) != stated:
            values[field.name] = _options(value) if is_section else value
    return values


def _from_run(policy: Policy, mesh: Mesh, source: str, note: pathlib.Path) -> Params:
    """Reads the newest parameters of another run; a resumed run reads the same again.

    The other run may go on, so the file ``note`` records the step that was read.
    """
    noted_source, path, step = hosts.broadcast(lambda: _noted(note))
    path = pathlib.Path(path)
    if noted_source != source:
        path = pathlib.Path(source).expanduser().absolute()
        step = checkpoints.find_step(path)
    params = _restored(policy, mesh, path, step)
    logging.info('initial parameters: step %d of %s', step, path)
    if jax.process_index() == 0:
        noted = {'checkpoint': source, 'path': str(path), 'step': step}
        atomic_write_text(note, json.dumps(noted, indent=2) + '\n')
    return params


def _restored(policy: Policy, mesh: Mesh, path: pathlib.Path, step: int) -> Params:
    """Reads a checkpoint of another run, in the dtypes of that run, and converts it.

    Merges the adapters of that run.
    """
    shapes = policies.param_shapes(policy, mesh)
    if not hosts.broadcast((path / 'config.json').exists):
        return checkpoints.restore_params(path, shapes, step=step)[0]
    model = run_config(path).model
    lora = Lora.configured(model.lora)
    arch = dataclasses.replace(policy.arch, lora=lora, param_dtype=model.param_dtype)
    # Of another model, names may be unknown; reading says what does not fit.
    frozen = shapes.keys() & {*checkpoints.read_frozen_names(path)}
    storage = {'frozen': frozenset(frozen), 'frozen_dtype': model.frozen_dtype}
    earlier = dataclasses.replace(policy, arch=arch, **storage)
    earlier_shapes = policies.param_shapes(earlier, mesh)
    params, _ = checkpoints.restore_params(path, earlier_shapes, step=step)
    if lora is not None:
        params = merge(params, lora, policy.arch.param_dtype)
    return {name: x.astype(shapes[name].dtype) for name, x in params.items()}


def _noted(note: pathlib.Path) -> tuple[str, str, int]:
    """Reads the source that the run began with, its directory and its step."""
    if not note.exists() or not has_begun(note.parent):
        return '', '', 0
    try:
        noted = read_json(note)
        return noted['checkpoint'], noted['path'], noted['step']
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f'{note} is damaged ({error!r}): it must have "checkpoint", "path" and '
            '"step", the initial parameters of this run; repair it'
        ) from error

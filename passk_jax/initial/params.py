"""The first policy of a run: warm start, Hugging Face weights, another run, scratch.

A warm start is made once and kept in ``<workdir>/warm_start``; the reference policy
of a KL penalty is the initial policy, so a resumed run gets it from here as well: of
another run, ``<workdir>/initial.json`` says which step it was.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable

import jax
from absl import logging

from passk_jax import hosts, sampling
from passk_jax.data import make_batches
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.initial.warm_start import warm_start
from passk_jax.models import policy as policies
from passk_jax.models.hf import weights
from passk_jax.models.policy import Params
from passk_jax.runs import checkpoints
from passk_jax.setup import Setup

ONLY_ROUNDING = (
    'model.attention',
    'model.head_chunk_tokens',
    'model.remat',
    'train.micro_batch_prompts',
    'train.pack_sizes',
)
"""Keys that say how devices compute the policy and its update, and not which: like
another mesh, another value rounds differently and has no other effect."""


def initial_params(
    setup: Setup, workdir: pathlib.Path, *, stop: Callable[[], bool] = lambda: False
) -> Params | None:
    """Parameters before step 0, on the mesh, as ``config.init`` says.

    Args:
        setup: the run's fixed parts.
        workdir: the run directory.
        stop: asked while they are being made.

    Returns:
        The parameters, ``None`` if told to stop.

    Raises:
        ValueError: an unknown kind, or a source that does not fit the model.
    """
    config = setup.config
    kind = config.init.kind
    if kind == 'hf':
        return weights.load_params(setup.policy, config.model.source, setup.mesh)
    if kind == 'checkpoint':
        return _of_other_run(setup, workdir / 'initial.json')
    if kind == 'warm_start':
        return _cached_warm_start(setup, workdir / 'warm_start', stop)
    if kind == 'scratch':
        return _random_params(setup)
    raise InputError(
        f"{kind=} is none of 'warm_start', 'hf', 'checkpoint' and 'scratch'"
    )


def _random_params(setup: Setup) -> Params:
    key = sampling.step_key(
        seed=setup.config.seed, purpose=sampling.Purpose.PARAMETERS, step=0
    )
    return policies.init_params(setup.policy, key, setup.mesh)


def _of_other_run(setup: Setup, note: pathlib.Path) -> Params:
    """The newest parameters of another run, and of the same step ever after.

    The other run may go on, and a resumed run asks again for its KL penalty: what was
    read first, and where, is noted.
    """
    source = setup.config.init.checkpoint
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    noted = json.loads(note.read_text()) if note.exists() else {}
    if noted.get('checkpoint') == source:
        return checkpoints.restore_params(noted['path'], shapes, step=noted['step'])[0]
    path = pathlib.Path(source).absolute()
    # Another host may see a newer one, if the other run is being trained.
    step = hosts.agreed(checkpoints.newest_step(path))
    params, _ = checkpoints.restore_params(path, shapes, step=step)
    logging.info('initial parameters: step %d of %s', step, path)
    if jax.process_index() == 0:
        noted = {'checkpoint': source, 'path': str(path), 'step': step}
        atomic_write_text(note, json.dumps(noted, indent=2) + '\n')
    return params


def _cached_warm_start(
    setup: Setup, directory: pathlib.Path, stop: Callable[[], bool]
) -> Params | None:
    config = setup.config
    model = dataclasses.asdict(config.model)
    # Everything that decides the values; another config makes its own.
    fingerprint = {
        'seed': config.seed,
        'model': {k: v for k, v in model.items() if f'model.{k}' not in ONLY_ROUNDING},
        'task': {'name': config.task.name, 'params': dict(config.task.params)},
        'warm_start': dataclasses.asdict(config.init.warm_start),
        'max_prompt_tokens': config.data.max_prompt_tokens,
        'max_response_tokens': config.sampling.max_response_tokens,
    }
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    cached = checkpoints.restore_cached_params(
        directory, shapes, fingerprint=fingerprint
    )
    if cached is not None:
        logging.info('warm start: read from %s', directory)
        return cached
    source = setup.task.source('train', data_dir=config.data.dir)
    if (wanted := config.init.warm_start.num_problems) > len(source):
        raise InputError(
            f'init.warm_start.num_problems={wanted} of the {len(source)} there are'
        )
    source = source[: wanted or len(source)]
    batches = make_batches(
        source,
        setup.encode,
        num_prompts=config.init.warm_start.batch_size,
        # Another order than the RL's, which would meet the same problems again.
        seed=(config.seed, sampling.Purpose.WARM_START),
        max_prompt_tokens=config.data.max_prompt_tokens,
        overlong=config.data.overlong,
    )
    if config.model.source:
        start = weights.load_params(setup.policy, config.model.source, setup.mesh)
    else:
        start = _random_params(setup)
    params = warm_start(setup, start, batches, stop=stop)
    if params is not None:
        checkpoints.save_cached_params(directory, params, fingerprint=fingerprint)
    return params

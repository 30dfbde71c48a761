"""The memory of a run: its KV cache on any device, and all of its memory on a CPU.

``python -m passk_jax.plan`` computes a run's memory on accelerators, from compiled
programs.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping

import jax
from absl import logging
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.config import ExperimentConfig
from passk_jax.errors import InputError
from passk_jax.models import policy as policies
from passk_jax.models.arch import REMAT, Arch
from passk_jax.models.frozen import split_weights
from passk_jax.models.policy import Policy
from passk_jax.sampling import sampler
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.setup.capacity import host_bytes
from passk_jax.setup.model import as_evaluated

# The number of problems, and of responses to each.
Sizes = tuple[int, int]
_LESS = (
    ': smaller train.micro_batch_prompts, sampling.max_cache_bytes or '
    "model.head_chunk_tokens, or model.remat='full', take less"
)


def warn_of_memory(
    config: ExperimentConfig, policy: Policy, mesh: Mesh, *, prompt_tokens: int
) -> None:
    """Logs the memory that training needs on a CPU, and warns if less is free.

    Logs nothing on other devices or on meshes of several devices. ``prompt_tokens`` is
    the width of the training prompts.
    """
    if mesh.size > 1 or mesh.devices.flat[0].platform != 'cpu':
        return
    parts = estimate_memory(config, policy, mesh, prompt_tokens=prompt_tokens)
    needed, free = sum(parts.values()), free_bytes()
    text = ', '.join(f'{name} {part / 2**30:.1f}' for name, part in parts.items())
    log, advice = (logging.warning, _LESS) if needed > free else (logging.info, '')
    log(
        'memory on this CPU: about %.1f GiB (%s); %.1f GiB are free%s',
        needed / 2**30,
        text,
        free / 2**30,
        advice,
    )


def estimate_memory(
    config: ExperimentConfig, policy: Policy, mesh: Mesh, *, prompt_tokens: int
) -> dict[str, int]:
    """Estimates the bytes of each part of training's memory on one CPU device.

    Every response counts with its maximum length.
    """
    arch, train, sampling = policy.arch, config.train, config.sampling
    num_rollouts = train.micro_batch_rollouts or sampling.num_rollouts
    limit = sampling.max_response_tokens
    tokens = train.micro_batch_prompts * (prompt_tokens + num_rollouts * limit)
    if config.init.kind == 'warm_start':
        # A warm start processes its batch in one pass.
        batch = config.init.warm_start.batch_size * (prompt_tokens + limit)
        tokens = max(tokens, batch)
    # All layers save some of their values, and one layer recomputes the others.
    saved = _saved_values(arch, arch.remat)
    values = (arch.num_layers - 1) * saved + _saved_values(arch, 'none')
    chunk = min(config.model.head_chunk_tokens, tokens)
    return {
        'weights, optimizer and gradient': _state_bytes(config, policy, mesh),
        'keys and values': check_cache(config, policy, mesh),
        'activations': (2 if arch.dtype == 'bfloat16' else 4) * tokens * values,
        'logits': 3 * 4 * chunk * arch.vocab_size,
        'programs and libraries': 2**30,
    }


def _saved_values(arch: Arch, remat: str) -> int:
    """Counts the values of a position that a layer saves for its backward pass."""
    queries, keys = (n * arch.head_dim for n in (arch.num_heads, arch.num_kv_heads))
    # What each setting saves besides what the next one saves.
    parts = {
        'none': 6 * arch.embed_dim + arch.mlp_dim,
        'gate_up': 2 * arch.mlp_dim,
        'qkv': queries + 2 * keys,
        'attention': queries,
        'full': arch.embed_dim,
    }
    return sum(parts[setting] for setting in REMAT[REMAT.index(remat) :])


def _state_bytes(config: ExperimentConfig, policy: Policy, mesh: Mesh) -> int:
    """Counts the bytes of weights, and of moments and gradients of trained ones.

    Moments and gradients are float32. With adapters, sampling copies the base if it
    casts any weight, and a warm start trains all of it.
    """

    def count(params: Mapping[str, jax.ShapeDtypeStruct]) -> int:
        return sum(x.size * x.dtype.itemsize for x in params.values())

    def count_training(params: Mapping[str, jax.ShapeDtypeStruct]) -> int:
        return 3 * 4 * sum(x.size for x in params.values())

    weights = split_weights(policy, policies.param_shapes(policy, mesh))
    needed = count(weights.merged) + count_training(weights.trained)
    if policy.arch.lora is None:
        return needed
    casts = any(x.dtype != policy.arch.dtype for x in weights.merged.values())
    frozen = count(weights.frozen) if casts else 0
    if config.init.kind == 'warm_start':
        learner = dataclasses.replace(policy.base, frozen=frozenset(), frozen_dtype='')
        frozen = count_training(policies.param_shapes(learner, mesh))
    return needed + frozen


def free_bytes() -> int:
    """Returns the bytes of memory that are free on this host."""
    try:
        text = pathlib.Path('/proc/meminfo').read_text(encoding='utf-8')
        fields = dict(line.split(':', 1) for line in text.splitlines())
        return int(fields['MemAvailable'].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return host_bytes()


def check_cache(config: ExperimentConfig, policy: Policy, mesh: Mesh) -> int:
    """Returns the largest KV cache of a device, in bytes.

    Raises InputError if ``sampling.max_cache_bytes`` is too small to sample with.
    """
    sizes = _shares(mesh)
    if config.eval.batch_size:
        sizes = config.eval.batch_size, config.eval.num_responses
    return max(
        training_cache(config, policy, mesh),
        _cache('evaluation', sizes, config, as_evaluated(policy), mesh),
    )


def training_cache(config: ExperimentConfig, policy: Policy, mesh: Mesh) -> int:
    """Returns the KV cache of a device in a training step, in bytes."""
    sizes = config.train.num_prompts, config.sampling.num_rollouts
    return _cache('training', sizes, config, policy, mesh)


def least_cache(config: ExperimentConfig, policy: Policy, mesh: Mesh) -> int:
    """Returns the KV cache of a device that decodes one response at a time, in bytes.

    The cache includes the prompts of the next problems.
    """
    num_prompts, num_rollouts = _shares(mesh)
    sizes = 2 * num_prompts, num_rollouts
    return _fit(sizes, config, policy, mesh, limit=0)[0].least_bytes


def _shares(mesh: Mesh) -> Sizes:
    """Returns a mesh's shards of problems, and of the responses to a problem."""
    count = functools.partial(sharding.count_shards, mesh)
    return count('batch'), count('rollouts')


def _cache(
    name: str, sizes: Sizes, config: ExperimentConfig, policy: Policy, mesh: Mesh
) -> int:
    """Returns the KV cache of a device for a batch; ``name`` is for errors."""
    limit = config.sampling.max_cache_bytes
    try:
        work, size = _fit(sizes, config, policy, mesh, limit=limit)
    except ValueError as error:
        raise InputError(f'{name}: sampling.{error}') from error
    return work.cache_bytes(size)


def _fit(
    sizes: Sizes, config: ExperimentConfig, policy: Policy, mesh: Mesh, *, limit: int
) -> tuple[Work, Size]:
    """Fits a device's part of a batch into ``limit`` bytes; 0: no limit."""
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        return sampler.fit_grid(
            policy,
            num_prompts=sizes[0],
            num_rollouts=sizes[1],
            prompt_tokens=config.data.max_prompt_tokens,
            max_response_tokens=config.sampling.max_response_tokens,
            max_cache_bytes=limit,
        )

"""What every command makes of a configuration before it does its own work.

The order is the order in which things can fail: names and sizes first, then files,
then devices. :class:`Setup` holds what stays the same through a run.
"""

import dataclasses
import math
from typing import Any

from absl import logging
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.config import ExperimentConfig
from passk_jax.models import hf_weights
from passk_jax.models import policy as policies
from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.policy import Policy
from passk_jax.tasks import make_task


@dataclasses.dataclass(frozen=True)
class Setup:
    """The fixed parts of a run.

    Attributes:
        config: the whole configuration.
        task: where problems come from and how they are verified.
        tokenizer: a transformers tokenizer.
        stop_tokens: ids that end a response; demonstrations end on the first.
        policy: the static half of the policy.
        mesh: the device mesh.
    """

    config: ExperimentConfig
    task: Any
    tokenizer: Any
    stop_tokens: tuple[int, ...]
    policy: Policy
    mesh: Mesh

    def encode(self, text: str) -> list[int]:
        """Tokens of a problem's prompt."""
        return tokenizers.encode_prompt(self.tokenizer, text)


def make_setup(config: ExperimentConfig) -> Setup:
    """Makes task, tokenizer, policy and mesh.

    Raises:
        ValueError: from whichever of them the configuration does not fit.
    """
    task = make_task(config.task.name, config.task.params)
    task.check_answerable(config.sampling.max_response_tokens)
    tokenizer, stop_tokens = _tokenizer(config, task)
    policy = policies.make_policy(config.model, _architecture(config, len(tokenizer)))
    mesh = sharding.make_mesh(**dataclasses.asdict(config.mesh))
    logging.info('devices: %d x %s', mesh.size, mesh.devices.flat[0].device_kind)
    _warn_of_whole_batches(config, mesh)
    return Setup(
        config=config,
        task=task,
        tokenizer=tokenizer,
        stop_tokens=stop_tokens,
        policy=policy,
        mesh=mesh,
    )


def _warn_of_whole_batches(config: ExperimentConfig, mesh: Mesh) -> None:
    """Names the batches that every device computes whole: they are not divided."""
    sizes = {
        'train.num_prompts': config.train.num_prompts,
        'train.micro_batch_prompts': config.train.micro_batch_prompts,
        'eval.batch_size': config.eval.batch_size,
    }
    if config.init.kind == 'warm_start':
        sizes['init.warm_start.batch_size'] = config.init.warm_start.batch_size
    shares = math.prod(mesh.shape[axis] for axis in sharding.RULES['batch'])
    if whole := {name: size for name, size in sizes.items() if size % shares}:
        logging.warning(
            'mesh.data x mesh.fsdp = %d divides none of these batches, so each of '
            'these devices computes all of them (right, but %d times the work): %s',
            shares,
            shares,
            ', '.join(f'{name}={size}' for name, size in whole.items()),
        )


def _tokenizer(config: ExperimentConfig, task: Any) -> tuple[Any, tuple[int, ...]]:
    kind = config.model.tokenizer
    if kind == 'characters':
        tokenizer = tokenizers.character_tokenizer(task.alphabet)
        return tokenizer, tokenizers.stop_token_ids(tokenizer)
    source = config.model.source if kind == 'source' else kind
    tokenizer = tokenizers.load_tokenizer(source)
    generation = tokenizers.load_generation_config(source)
    return tokenizer, tokenizers.stop_token_ids(tokenizer, generation)


def _architecture(config: ExperimentConfig, vocab_size: int):
    model = config.model
    if not model.source:
        return policies.arch_from_config(model, vocab_size=vocab_size)
    return hf_weights.arch_from_hf(
        model.source,
        param_dtype=model.param_dtype,
        compute_dtype=model.compute_dtype,
        remat=model.remat,
    )

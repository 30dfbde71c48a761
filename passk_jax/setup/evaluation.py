"""The batch size of an evaluation, and its memory for keys and values.

``eval.batch_size=0`` samples all problems in one call. Prompts then run as rows become
free, so the memory that a training step has for keys and values is enough for any
number of problems.
"""

from absl import logging
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.config import EvalConfig, ExperimentConfig
from passk_jax.data.batches import TokenizedProblems
from passk_jax.models.policy import Policy
from passk_jax.setup import capacity, memory, model

# Keys and values of an evaluation take at most 1 / _LARGEST_PART of a device's memory.
_LARGEST_PART = 2


def batch_size(
    config: ExperimentConfig,
    mesh: Mesh,
    decode_mesh: Mesh,
    tokenized: TokenizedProblems,
) -> int:
    """Returns the number of problems in a batch: ``eval.batch_size``, or all.

    All problems are rounded up to a multiple of the mesh's shards. A batch is no larger
    than a training batch if problems have pictures, which devices hold all at once, or
    if responses cannot wait, because the mesh of sampling does not divide them.
    """
    return count_together(
        config.eval,
        len(tokenized.indices),
        shares=sharding.count_shards(mesh, 'batch'),
        rollout_shares=sharding.count_shards(decode_mesh, 'rollouts'),
        of_step=(config.train.num_prompts, config.sampling.num_rollouts),
        pictured=bool(tokenized.pictured),
    )


def count_together(
    evaluation: EvalConfig,
    num_problems: int,
    *,
    shares: int,
    rollout_shares: int,
    of_step: tuple[int, int],
    pictured: bool,
) -> int:
    """Counts the problems of a batch; see :func:`batch_size`.

    Args:
        evaluation: the section ``eval``.
        num_problems: problems of the evaluation.
        shares, rollout_shares: shards of the problems on the mesh, and shards of the
            responses to a problem in sampling.
        of_step: P and N of a training step.
        pictured: whether the problems have pictures.
    """
    if evaluation.batch_size:
        return evaluation.batch_size
    size, responses = -(-num_problems // shares), evaluation.num_responses
    if pictured or not can_wait(evaluation, rollout_shares):
        num_prompts, num_rollouts = of_step
        local = num_rollouts // rollout_shares
        most = num_prompts * min(responses, local) // responses
        size = min(size, max(1, most // shares))
    return size * shares


def can_wait(evaluation: EvalConfig, rollout_shares: int) -> bool:
    """Returns whether responses can wait for rows: all shards have equally many."""
    return evaluation.num_responses % rollout_shares == 0


def cache_limit(config: ExperimentConfig, policy: Policy, mesh: Mesh) -> int:
    """Returns the most bytes of an evaluation's keys and values; 0: no limit.

    This is ``sampling.max_cache_bytes``. If that is 0, an evaluation of all problems at
    once gets the memory of a training step's keys and values, and enough for one
    response: training may hold them as int8. The limit is at most a part of the
    device's memory, because a run may be evaluated on smaller devices.
    """
    limit = config.sampling.max_cache_bytes
    waits = can_wait(config.eval, sharding.count_shards(mesh, 'rollouts'))
    if config.eval.batch_size or limit or not waits:
        return limit
    room = capacity.device_bytes(mesh.local_devices[0]) // _LARGEST_PART
    least = memory.least_cache(config, model.as_evaluated(policy), mesh)
    return min(max(least, memory.training_cache(config, policy, mesh)), room)


def warn_of_idle_devices(config: ExperimentConfig, mesh: Mesh) -> None:
    """Warns of an evaluation that decodes much less at a time than a training step.

    It does not warn on CPU devices, which share a host.
    """
    if mesh.size == 1 or mesh.devices.flat[0].platform == 'cpu':
        return
    size = config.eval.batch_size * config.eval.num_responses
    of_step = config.train.num_prompts * config.sampling.num_rollouts
    if config.eval.every and 0 < 2 * size < of_step:
        logging.warning(
            'eval.batch_size=%d decodes %d responses at a time, and a training step '
            '%d: an evaluation leaves devices idle. eval.batch_size=0 samples all '
            'problems in the memory of a step',
            *(config.eval.batch_size, size, of_step),
        )

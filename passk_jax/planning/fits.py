"""Where the memory of a plan ends: what would fit, and what to do if it does not.

A device's memory is affine in the response tokens: a part that stays (the state, the
gradients, the weights that sampling reads) and a part for each token. The slope is a
model, unless a second compilation measured it:

* ``train``, ``score``: temporaries less the gradients, which are as large as the
  parameters, belong to the tokens of a micro-batch, in proportion;
* ``decode``: the cache and the recorded rollouts, which are exact; the temporaries of
  one token stay.

So are all figures here estimates, to be tried and not believed.
"""

import dataclasses
import math
from typing import Any

from passk_jax import sharding
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.chips import GIB
from passk_jax.planning.programs import Builder, shard_bytes

# Responses of a multiple of this fill the tiles of every chip.
_TILE = 128


@dataclasses.dataclass(frozen=True)
class Fit:
    """The edge of one program on a device; ``None``: no limit, or none known.

    Attributes:
        longest_response: response tokens that fit; 0: none do.
        batch: name of the key that says the batch that lies in memory at one time.
        largest_batch: the largest value of it that fits; 0: none does.
    """

    longest_response: int | None
    batch: str
    largest_batch: int | None


def fit(analysis: Analysis, builder: Builder, *, per_token: float | None = None) -> Fit:
    """Where the memory of a program ends, as an estimate.

    Args:
        analysis: of the program.
        builder: that made it.
        per_token: bytes for each more response token, if they were measured.
    """
    train, memory = builder.config.train, analysis.memory
    by_pass = analysis.program.name in ('train', 'score')
    key = 'train.micro_batch_prompts' if by_pass else 'train.num_prompts'
    unknown = memory.temporaries is None and analysis.program.name != 'decode'
    if not memory.limit or unknown:
        return Fit(None, key, None)
    if per_token is None:
        per_token = _slope(analysis, builder)
    room = memory.limit - memory.total
    longest = None
    if per_token:
        T = builder.config.sampling.max_response_tokens
        longest = max(0, T + math.floor(room / per_token))
        longest -= longest % _TILE if longest > _TILE else 0
    batch = train.micro_batch_prompts if by_pass else train.num_prompts
    of_batch = _of_batch(analysis, builder, per_token)
    largest = batch + math.floor(batch * room / of_batch) if of_batch else batch
    divided = train.mini_batch_prompts if by_pass else None
    return Fit(longest, key, _usable(largest, divided, builder))


def _slope(analysis: Analysis, builder: Builder) -> float:
    """Bytes for each more response token."""
    sampling = builder.config.sampling
    S, N = builder.config.data.max_prompt_tokens, sampling.num_rollouts
    T = sampling.max_response_tokens
    recorded = shard_bytes(builder.rollouts()) / T
    if analysis.program.name == 'prefill':
        return 0.0
    if analysis.program.name == 'decode':
        return shard_bytes(builder.cache()) / max(T - 1, 1) + recorded
    return _activations(analysis, builder) / (S / N + T) + recorded


def _activations(analysis: Analysis, builder: Builder) -> float:
    """Bytes of the temporaries that belong to the tokens of a pass."""
    temporaries = analysis.memory.temporaries or 0.0
    if analysis.program.name == 'train':
        temporaries -= shard_bytes(builder.state().params)
    return max(0.0, temporaries)


def _of_batch(analysis: Analysis, builder: Builder, per_token: float) -> float:
    """Bytes that belong to the batch."""
    name, sampling = analysis.program.name, builder.config.sampling
    if name in ('train', 'score'):
        tokens = builder.config.data.max_prompt_tokens / sampling.num_rollouts
        tokens += sampling.max_response_tokens
        return max(0.0, per_token * tokens - shard_bytes(builder.rollouts()))
    held = [builder.prefix()]
    if name == 'decode':
        held += [builder.cache(), builder.rollouts()]
    return shard_bytes(held) + (analysis.memory.temporaries or 0.0)


def _usable(largest: int, of: int | None, builder: Builder) -> int:
    """The largest batch up to this that divides ``of`` and is shared by all devices."""
    shares = math.prod(builder.mesh.shape[axis] for axis in sharding.RULES['batch'])
    largest = min(largest, of or largest)
    for batch in range(largest - largest % shares, 0, -shares):
        if of is None or of % batch == 0:
            return batch
    return 0


def ways_out(analysis: Analysis, builder: Builder, edge: Fit) -> list[str]:
    """The three cheapest changes to a program that does not fit, cheapest first."""
    memory = analysis.memory
    ways = [
        *_batch_ways(analysis, builder, edge),
        *_layout_ways(analysis, builder),
    ]
    shortest = edge.longest_response
    if shortest and shortest < builder.config.sampling.max_response_tokens:
        ways.append(f'--config.sampling.max_response_tokens={shortest}')
    factor = math.ceil(memory.total / memory.limit)
    ways.append(
        f'a topology of about {factor * analysis.topology.num_chips} chips, with '
        f'mesh.fsdp or mesh.rollout {factor} times as large'
    )
    return ways[:3]


def _batch_ways(analysis: Analysis, builder: Builder, edge: Fit) -> list[str]:
    """Changes that cost no more than the order of the work."""
    config, ways = builder.config, []
    if analysis.program.name not in ('train', 'score'):
        if edge.largest_batch:
            ways.append(
                f'--config.{edge.batch}={edge.largest_batch}, which changes the '
                'experiment: it is the batch of an RL step'
            )
        return ways
    micro = config.train.micro_batch_prompts
    smallest = _usable(micro - 1, config.train.mini_batch_prompts, builder)
    if edge.largest_batch:
        ways.append(f'--config.{edge.batch}={edge.largest_batch}')
    elif smallest:
        ways.append(f'--config.{edge.batch}={smallest}, which alone is not enough')
    logits = 4.0 * config.model.head_chunk_tokens * builder.policy.arch.vocab_size
    logits /= builder.mesh.shape['tensor']
    if logits > 0.02 * analysis.memory.total:
        ways.append(
            f'--config.model.head_chunk_tokens={config.model.head_chunk_tokens // 2} '
            f'(about {logits / GIB:.1f} GiB less)'
        )
    if analysis.program.name == 'train' and config.model.remat != 'full':
        ways.append('--config.model.remat=full (a third more products)')
    return ways


def _layout_ways(analysis: Analysis, builder: Builder) -> list[str]:
    """Changes of the mesh on the same chips."""
    shape: Any = builder.mesh.shape
    ways = []
    if shape['data'] > 1:
        state = shard_bytes((builder.state(), builder.reference()))
        saved = state * (1 - 1 / shape['data'])
        ways.append(
            f'--config.mesh.data=1 --config.mesh.fsdp={shape["data"] * shape["fsdp"]} '
            f'(about {saved / GIB:.1f} GiB less)'
        )
    heads = builder.policy.arch.num_kv_heads
    doubled = 2 * shape['tensor']
    sharded = next((axis for axis in ('fsdp', 'rollout') if shape[axis] % 2 == 0), None)
    if sharded and heads % doubled == 0:
        ways.append(
            f'--config.mesh.tensor={doubled} --config.mesh.{sharded}='
            f'{shape[sharded] // 2} (halves what a device holds of each layer, of the '
            'weights that sampling reads and of the cache)'
        )
    return ways

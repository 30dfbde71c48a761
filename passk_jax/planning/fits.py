"""Estimates the largest sizes that fit in memory from shapes.

:func:`estimate` estimates what a program needs after its configuration changes, without
compiling it again. What a device holds before the program runs follows from shapes.
What the program allocates has two parts:

* The *known* bytes follow from shapes too. ``train`` allocates gradients, activations
  for the backward pass and logits; ``weights`` the weights; ``prefill`` keys and
  values; ``decode`` a copy of keys and values.
* The *other* bytes, such as recomputed activations, may grow with the hidden states of
  a pass on a device. The estimate assumes that they never shrink, so it may understate
  what a change saves.

:func:`fit` solves for the sizes at which the estimate meets the limit.
"""

import dataclasses
import functools
import math

import jax
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.layers import BETWEEN_LAYERS
from passk_jax.models.policy import Policy
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.builder import Builder, abstract_mesh, shard_bytes, tree_bytes
from passk_jax.planning.decoding import is_scheduled
from passk_jax.planning.programs import PICTURES, Program, build, make_diagnose
from passk_jax.types import Prompts

# The kernels of every chip work on tiles of this many tokens.
_TILE = 128


@dataclasses.dataclass(frozen=True)
class Fit:
    """The largest sizes that fit a device.

    A size is ``None`` if there is no limit or it is not known, and 0 if nothing fits.
    ``weights`` has neither size.

    Attributes:
        longest_response: response tokens that fit, a multiple of 128.
        largest_batch: prompts that fit and divide evenly among the devices: of
            ``train.micro_batch_prompts`` if :func:`works_by_pass`, else of
            ``train.num_prompts``.
    """

    longest_response: int | None
    largest_batch: int | None


def works_by_pass(name: str) -> bool:
    """Returns whether a program works on one micro-batch at a time."""
    return name in ('train', 'score', 'diagnose')


def samples(name: str) -> bool:
    """Returns whether a program is a part of sampling, and runs on its mesh."""
    return name in ('weights', 'prefill', 'decode')


def estimate(
    analysis: Analysis, builder: Builder, other: Builder, *, hopeful: bool = False
) -> float:
    """Estimates a device's bytes for the same program of another builder, ``other``.

    If ``hopeful``, the bytes that do not follow from shapes may also shrink with the
    hidden states.
    """
    name, memory = analysis.program.name, analysis.memory
    new_bytes = (memory.outputs or 0.0) + (memory.temporaries or 0.0)
    known_bytes, changed_bytes = (_count_known_bytes(x, name) for x in (builder, other))
    if name == 'decode' and is_scheduled(other) and not is_scheduled(builder):
        # The scheduled loop's cache is an argument; the plain loop allocates it.
        changed_bytes = 0.0
    # The compiler may allocate less than the shapes say; scale only what it allocated.
    scaled_bytes = min(new_bytes, known_bytes)
    total = memory.total - initial_bytes(analysis.program)
    total += count_initial_bytes(other, name)
    if known_bytes:
        total += scaled_bytes * (changed_bytes / known_bytes - 1)
    if name in ('train', 'diagnose'):
        total += max(0.0, _backward(other)[1] - _backward(builder)[1])
    growth = _hidden_bytes(other, name)[0] / _hidden_bytes(builder, name)[0]
    if not hopeful:
        growth = max(1.0, growth)
    return total + (new_bytes - scaled_bytes) * (growth - 1)


def with_temporaries(analysis: Analysis, builder: Builder) -> Analysis:
    """Adds temporaries, estimated from shapes, to an analysis without compilation."""
    if analysis.memory.temporaries is not None:
        return analysis
    program = analysis.program
    temporaries = count_bytes(builder, program.name) - initial_bytes(program)
    memory = dataclasses.replace(analysis.memory, temporaries=temporaries)
    return dataclasses.replace(analysis, memory=memory)


def count_bytes(builder: Builder, name: str) -> float:
    """Counts the bytes that a device needs for a program, as far as shapes tell."""
    # The schedule's cache is an argument.
    scheduled = name == 'decode' and is_scheduled(builder)
    new_bytes = 0.0 if scheduled else _count_known_bytes(builder, name)
    return count_initial_bytes(builder, name) + new_bytes


def count_initial_bytes(builder: Builder, name: str) -> float:
    """Counts the bytes that a device holds before a builder's program runs."""
    return initial_bytes(build(builder, name))


def initial_bytes(program: Program) -> float:
    """Counts the bytes that a device holds before a program runs."""
    return shard_bytes(program.arguments) + program.resident


def _count_known_bytes(builder: Builder, name: str) -> float:
    """Counts the bytes that a program allocates on a device, as far as shapes tell."""
    if samples(name):
        builder = builder.sampling_run
    if name == PICTURES:
        return shard_bytes(builder.prompts().features)
    if name == 'prefill':
        return shard_bytes(builder.prefix(builder.rows()[0]))
    if name == 'weights':
        return shard_bytes(builder.decoding_weights())
    V = builder.policy.arch.vocab_size
    if name == 'decode':
        G, K = builder.rows()
        axes = ('batch', 'rollouts', 'vocab')
        logits = builder.array(axes, (G, K, V), jnp.float32)
        return shard_bytes((builder.prefix(G), builder.cache(), logits))
    shape = (builder.policy.head_chunk_tokens, V)
    logits = shard_bytes(builder.array((None, 'vocab'), shape, jnp.float32))
    if name == 'score':
        return logits
    gradients = shard_bytes(builder.state().params)
    if name == 'diagnose':
        # The gradients of a pass, and their sums over the batch.
        gradients *= 2 * make_diagnose(builder).num_gradients
    return gradients + _backward(builder)[0] + logits


def _backward(builder: Builder) -> tuple[float, float]:
    """Counts the bytes saved for the backward pass, and those of its recomputation."""
    arch, train = builder.policy.arch, builder.train
    policy = Policy(arch, head_chunk_tokens=1, frozen=builder.policy.frozen)
    train = dataclasses.replace(train, num_prompts=train.micro_batch_prompts)
    prompts = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype),
        dataclasses.replace(builder, train=train).prompts(),
    )
    saved_bytes, all_bytes = (
        _activation_bytes(
            dataclasses.replace(policy, arch=dataclasses.replace(arch, remat=remat)),
            prompts,
            builder.pass_rollouts,
            builder.sampling.max_response_tokens,
        )
        for remat in (arch.remat, 'none')
    )
    on_device, everywhere = _hidden_bytes(builder, 'train')
    share = on_device / everywhere
    # One layer is recomputed at a time.
    return share * saved_bytes, share * (all_bytes - saved_bytes) / arch.num_layers


def _hidden_bytes(builder: Builder, name: str) -> tuple[float, float]:
    """Counts the hidden states of a pass: on one device, and on all of them."""
    if samples(name):
        builder = builder.sampling_run
    train, arch = builder.train, builder.policy.arch
    P, N = train.num_prompts, builder.sampling.num_rollouts
    if works_by_pass(name):
        P, N = train.micro_batch_prompts, builder.pass_rollouts
    S = builder.data.max_prompt_tokens
    T = 1 if name == 'decode' else builder.sampling.max_response_tokens
    prompts, responses = (
        builder.array((*axes, None), (*shape, arch.embed_dim), jnp.dtype(arch.dtype))
        for axes, shape in zip(BETWEEN_LAYERS, ((P, 1, S), (P, N, T)), strict=True)
    )
    alone = {'weights': prompts, 'prefill': prompts, 'decode': responses}
    alone[PICTURES] = prompts
    arrays = alone.get(name, (prompts, responses))
    return shard_bytes(arrays), tree_bytes(arrays)


@functools.lru_cache(maxsize=1024)
def _activation_bytes(
    policy: Policy,
    prompts: Prompts[jax.ShapeDtypeStruct],
    num_rollouts: int,
    num_tokens: int,
) -> float:
    """Counts activations between forward and backward pass, on all devices."""
    log_probs = functools.partial(policies.token_log_probs, policy, temperature=1.0)

    def saved_arrays(
        params: policies.Params, prompts: Prompts, tokens: jax.Array
    ) -> object:
        # The backward function is a pytree of the arrays it needs.
        return jax.vjp(lambda params: log_probs(params, prompts, tokens), params)[1]

    shape = len(prompts.lengths), num_rollouts, num_tokens
    tokens = jax.ShapeDtypeStruct(shape, jnp.int32)
    # A mesh of one device splits nothing.
    mesh = abstract_mesh(dict.fromkeys(sharding.MESH_AXES, 1))
    with jax.sharding.use_abstract_mesh(mesh):
        params = policies.param_shapes(policy, mesh)
        tree = jax.eval_shape(saved_arrays, params, prompts, tokens)
    return max(0.0, tree_bytes(tree) - tree_bytes(params))


def fit(analysis: Analysis, builder: Builder) -> Fit:
    """Estimates the largest sizes that fit, for a program and its builder."""
    name, train = analysis.program.name, builder.train
    if name == 'weights':
        return Fit(None, None)
    unknown = analysis.memory.temporaries is None and name != 'decode'
    # A limited cache grows with neither the response nor the batch.
    limited = name == 'decode' and builder.sampling.max_cache_bytes
    if not analysis.memory.limit or unknown or limited:
        return Fit(None, None)
    longest = _edge(analysis, builder, 'sampling.max_response_tokens', _TILE)
    shares = sharding.count_shards(builder.mesh, 'batch')
    mini = train.mini_batch_prompts
    if not works_by_pass(name):
        step = math.lcm(shares, mini)
        return Fit(longest, _edge(analysis, builder, 'train.num_prompts', step))
    largest = _edge(analysis, builder, 'train.micro_batch_prompts', shares)
    if largest is not None:
        sizes = range(shares, min(largest, mini) + 1, shares)
        largest = max((size for size in sizes if mini % size == 0), default=0)
    return Fit(longest, largest)


def _edge(analysis: Analysis, builder: Builder, key: str, step: int) -> int | None:
    """Returns the largest multiple of ``step`` that fits as a key's value.

    Memory is affine in multiples of ``step``, so two points determine it. ``None``: any
    multiple fits.
    """

    def needed(steps: int) -> float:
        return estimate(analysis, builder, builder.changed({key: steps * step}))

    section, _, field = key.partition('.')
    first = math.ceil(getattr(getattr(builder, section), field) / step)
    room = analysis.memory.limit - needed(first)
    second = 2 * first if room >= 0 else first // 2
    if not second:
        return 0
    slope = (needed(second) - needed(first)) / (second - first)
    if slope <= 0:
        return None if room >= 0 else 0
    return step * max(0, first + math.floor(room / slope))

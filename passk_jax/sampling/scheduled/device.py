"""The device's part of scheduled sampling: rows that are refilled while they decode.

1. :func:`prefill` runs each prompt once.
2. :func:`begin` makes the state and chooses every row's first token.
3. :func:`advance` decodes: rows that end take the next rollout of their slot, until
   something wants the host's decision (:func:`_goes_on`), which host.py takes.

A row that has just been taken decodes nothing that is used: its first token comes from
its prompt's hidden state, so a step gives every live row one token.
"""

import dataclasses
import functools

import jax
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax import sharding
from passk_jax.config import SamplingOptions
from passk_jax.models import policy as policies
from passk_jax.models.policy import Cache, Params, Policy
from passk_jax.sampling import keys
from passk_jax.sampling.distribution import choose
from passk_jax.sampling.plain_loop import empty_rollouts
from passk_jax.sampling.scheduled.state import (
    PREFIX_AXES,
    ROW_AXES,
    Slots,
    State,
    placed,
    refilled,
)
from passk_jax.sharding import shard
from passk_jax.types import Prompts, Rollouts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StopWhen:
    """When :func:`advance` comes back, besides the end.

    Attributes:
        outstanding: int32 scalar, nothing waits any more and no cell has more rollouts
            than that.
        unstarted: ``[shards]`` bool, a shard of the batch has problems for a slot.
        steps: int32 scalar, so many steps are done.
    """

    outstanding: jax.Array
    unstarted: jax.Array
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class Static:
    """What a program of sampling is compiled for, besides shapes.

    Attributes:
        policy: the policy.
        greedy, truncate: as :func:`passk_jax.sampling.distribution.choose` has them.
        limit: tokens of a response.
        stride: steps between two looks at whether to go on.
    """

    policy: Policy
    greedy: bool
    truncate: bool
    limit: int
    stride: int


Weights = tuple[Params, SamplingOptions, jax.Array]
"""Parameters for decoding, traced options and stop tokens."""


@functools.partial(jax.jit, static_argnums=0)
def prefill(
    policy: Policy, params: Params, prompts: Prompts, key: jax.Array
) -> tuple[Params, Slots]:
    """The weights that decoding reads, and all problems, each in a slot."""
    params = policies.for_decoding(policy, params)
    hidden, prefix = policies.prefill(policy, params, prompts)
    P = prompts.tokens.shape[0]
    shards = sharding.num_shards('batch', P)
    return params, Slots(
        problem=shard(jnp.arange(P) % (P // shards), 'batch'),
        keys=shard(keys.problem_keys(key, prompts.problem_ids), 'batch'),
        hidden=shard(hidden, 'batch', None),
        prefix=jax.tree.map(lambda x: shard(x, *PREFIX_AXES[: x.ndim]), prefix),
    )


@functools.partial(
    jax.jit,
    static_argnums=0,
    static_argnames=('num_prompts', 'num_rollouts', 'rows', 'ring'),
)
def begin(
    static: Static,
    weights: Weights,
    slots: Slots,
    waiting: Int[Array, 'G R 2'],
    *,
    num_prompts: int,
    num_rollouts: int,
    rows: int,
    ring: int,
) -> State:
    """The state after the first token of every row.

    Args:
        static: what is static.
        weights: parameters, options, stop tokens.
        slots: the problems in the slots.
        waiting: all rollouts that the slots begin with.
        num_prompts, num_rollouts: P and N of what is recorded.
        rows: K.
        ring: tokens that the cache has room for.
    """
    G = slots.problem.shape[0]
    cache = policies.empty_cache(
        static.policy, num_prompts=G, num_rollouts=rows, num_tokens=ring
    )
    state = State(
        rollout=jnp.full((G, rows), -1),
        position=jnp.zeros((G, rows), jnp.int32),
        last=jnp.zeros((G, rows), jnp.int32),
        waiting=waiting,
        layers=cache.layers,
        index=cache.index,
        rollouts=empty_rollouts(num_prompts, num_rollouts, static.limit),
        steps=jnp.int32(0),
    )
    hidden = jnp.broadcast_to(slots.hidden[:, None], (G, rows, slots.hidden.shape[-1]))
    return placed(_extend(static, weights, slots, refilled(state), hidden))


@functools.partial(jax.jit, static_argnums=0, donate_argnums=3)
def advance(
    static: Static, weights: Weights, slots: Slots, state: State, stop: StopWhen
) -> tuple[State, dict[str, jax.Array]]:
    """Decodes until there is something to decide.

    Returns:
        The state, and what the host wants to know of it, whole on every device.
    """

    def step(_: int, state: State) -> State:
        # The newest token is the one that is run now.
        before = jnp.maximum(state.position - 1, 0)
        cache = Cache(layers=state.layers, index=state.index, lengths=before)
        hidden, cache = policies.decode(
            static.policy, weights[0], state.last, slots.prefix, cache
        )
        begun = (state.position > 0)[..., None]
        hidden = jnp.where(begun, hidden, slots.hidden[:, None])
        state = dataclasses.replace(state, layers=cache.layers, index=cache.index)
        return _extend(static, weights, slots, state, hidden)

    with jax.named_scope('decode'):
        # A look costs an accelerator a word with its host.
        state = jax.lax.while_loop(
            functools.partial(_goes_on, static, stop),
            lambda state: jax.lax.fori_loop(0, static.stride, step, state),
            state,
        )
    return placed(state), {
        'rollout': shard(state.rollout, None, None),
        'waiting': shard(state.waiting, None, None, None),
        'longest': _longest(state),
        'steps': state.steps,
    }


def _longest(state: State) -> jax.Array:
    """Tokens of the longest response that is not done."""
    return jnp.where(state.rollout >= 0, state.position, 0).max()


def _goes_on(static: Static, stop: StopWhen, state: State) -> jax.Array:
    """Whether there is nothing to decide, and something to do."""
    G, K = state.rollout.shape
    shards, R = stop.unstarted.shape[0], state.waiting.shape[1]
    live = (state.rollout >= 0).reshape(shards, G // shards, R, K // R)
    waiting = (state.waiting[..., 1] - state.waiting[..., 0]).reshape(shards, -1, R)
    # The grid could be smaller.
    many = (live.sum(axis=(1, 3)).max() > stop.outstanding) | (waiting > 0).any()
    many |= stop.unstarted.any()
    # A slot has nothing to do, and there is something.
    free = ~live.any(axis=(2, 3)) & (waiting.sum(axis=2) == 0)
    useful = stop.unstarted | (waiting.sum(axis=(1, 2)) > 0)
    busy = ~(free.any(axis=1) & useful).any()
    goes_on = live.any() & many & busy & (state.steps < stop.steps)
    ring = state.layers[0].values.shape[3]
    if ring < static.limit - 1:
        # Some row's next tokens would overwrite its first.
        goes_on &= _longest(state) + static.stride - 1 <= ring
    return goes_on


def _extend(
    static: Static,
    weights: Weights,
    slots: Slots,
    state: State,
    hidden: Float[Array, 'G K D'],
) -> State:
    """Chooses and records the token after each hidden state; refills ended rows."""
    params, options, stop_tokens = weights
    live = state.rollout >= 0
    with jax.named_scope('choose'):
        logits = policies.logits(static.policy, params, hidden)
        row_keys = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)))(
            slots.keys, state.rollout
        )
        choice = choose(
            # Whole rows: choosing looks at all of the vocabulary.
            shard(logits, 'batch', 'rollouts', None),
            keys.position_uniforms(row_keys, state.position),
            options,
            greedy=static.greedy,
            truncate=static.truncate,
        )
    stopped = (choice.tokens[..., None] == stop_tokens).any(axis=-1)
    position = state.position + live
    values = {
        'lengths': position,
        'stopped': stopped,
        **{f.name: getattr(choice, f.name) for f in dataclasses.fields(choice)},
    }
    ended = stopped | (position == static.limit)
    return refilled(
        dataclasses.replace(
            state,
            rollout=jnp.where(ended, -1, state.rollout),
            position=position,
            last=choice.tokens,
            rollouts=_record(state, slots, values),
            steps=state.steps + 1,
        )
    )


def _record(state: State, slots: Slots, values: dict[str, jax.Array]) -> Rollouts:
    """Writes what the live rows have at their rollouts' positions."""
    N = state.rollouts.lengths.shape[1]
    local = N // sharding.num_shards('rollouts', N)
    # A number past the end is dropped.
    number = jnp.where(state.rollout < 0, local, state.rollout % local)

    def write(buffer, value, problem, number, position):
        at = (problem[:, None], number, position)[: buffer.ndim]
        return buffer.at[at].set(value, mode='drop', unique_indices=True)

    written = {}
    for name, value in values.items():
        buffer = getattr(state.rollouts, name)
        axes = ('batch', 'rollouts', None)[: buffer.ndim]
        written[name] = sharding.on_each_device(
            write,
            (buffer, value.astype(buffer.dtype), slots.problem, number, state.position),
            (axes, ROW_AXES, ('batch',), ROW_AXES, ROW_AXES),
            axes,
        )
    return dataclasses.replace(state.rollouts, **written)

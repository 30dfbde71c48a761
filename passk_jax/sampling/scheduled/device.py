"""The device's part of scheduled sampling: it refills rows while they decode.

1. :func:`prefill` runs each prompt once.
2. :func:`begin` makes the state and chooses every row's first token.
3. :func:`advance` decodes, and gives a row whose rollout has ended the next rollout of
   its slot, until the host (host.py) must decide something; see :func:`_goes_on`.

Each step gives every live row one token. A refilled row takes its first token from its
prompt's hidden state; its decoded output in that step is ignored.
"""

import dataclasses
import functools
from typing import Generic

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.policy import Cache, Params, Policy
from passk_jax.sampling import keys
from passk_jax.sampling.plain_loop import (
    Record,
    Request,
    empty_record,
    first_routing,
    next_tokens,
)
from passk_jax.sampling.scheduled.state import (
    ROW_AXES,
    Slots,
    State,
    map_with_axes,
    placed,
    refilled,
)
from passk_jax.sharding import shard
from passk_jax.types import Leaf, Prompts

# Empty slots get work once they are one _EMPTY_PART-th of the slots.
_EMPTY_PART = 8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StopWhen:
    """When :func:`advance` returns before all rollouts have ended.

    Attributes:
        outstanding: int32 scalar. Return when no rollout waits and no cell has more
            live rows than this.
        unstarted: ``[shards]`` bool, the shards of the batch with problems that have
            had no slot. Return when enough slots of such a shard are empty.
        steps: int32 scalar. Return when the call has made this many steps in all.
    """

    outstanding: jax.Array | np.int32
    unstarted: jax.Array | np.ndarray
    steps: jax.Array | np.int32


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=('params', 'request'),
    meta_fields=('policy', 'stride'),
)
@dataclasses.dataclass(frozen=True)
class Decoder(Generic[Leaf]):
    """The constants of decoding.

    ``params`` are the weights for decoding. ``policy`` and ``stride``, the steps
    between two checks whether to go on, are static.
    """

    policy: Policy
    stride: int
    params: dict[str, Leaf]
    request: Request


@functools.partial(jax.jit, static_argnames=('policy', 'count'))
def prefill(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    key: jax.Array,
    first: Int[Array, 'shards'] | None = None,
    *,
    count: int = 0,
) -> Slots:
    """Runs the prompts; returns a slot for each.

    With ``first``, only ``count`` prompts of each shard of the batch run, from
    ``first`` on; ``None``: all.
    """
    shards = sharding.num_shards('batch', prompts.tokens.shape[0])
    if first is not None:
        prompts = jax.tree.map(lambda x: _take_problems(x, first, count=count), prompts)
    hidden, prefix = policies.prefill(policy, params, prompts)
    P = prompts.tokens.shape[0]
    problem = jnp.arange(P) % (P // shards)
    if first is not None:
        problem += jnp.repeat(first, count)
    slots = Slots(
        problem=problem,
        keys=keys.problem_keys(key, prompts.problem_ids),
        hidden=hidden,
        prefix=prefix,
    )
    return map_with_axes(lambda axes, x: shard(x, *axes), slots)


def _take_problems(
    x: Shaped[Array, 'P ...'], first: Int[Array, 'shards'], *, count: int
) -> jax.Array:
    """Takes ``count`` problems of each shard, from ``first`` on."""
    axes = ('batch', *(None,) * (x.ndim - 1))
    return sharding.on_each_device(
        lambda x, first: jax.lax.dynamic_slice_in_dim(x, first[0], count),
        (x, first),
        (axes, ('batch',)),
        axes,
    )


@functools.partial(jax.jit, static_argnames=('num_prompts', 'rows', 'ring'))
def begin(
    decoder: Decoder,
    slots: Slots,
    waiting: Int[Array, 'G R 2'],
    *,
    num_prompts: int,
    rows: int,
    ring: int,
) -> State:
    """Makes the state after the first token of every row.

    ``waiting`` has the rollouts that each slot starts with; ``rows`` is K; the cache
    has room for ``ring`` tokens.
    """
    G, request = slots.problem.shape[0], decoder.request
    cache = policies.empty_cache(
        decoder.policy, num_prompts=G, num_rollouts=rows, num_tokens=ring
    )
    state = State(
        rollout=jnp.full((G, rows), -1),
        position=jnp.zeros((G, rows), jnp.int32),
        last=jnp.zeros((G, rows), jnp.int32),
        waiting=waiting,
        layers=cache.layers,
        index=cache.index,
        record=empty_record(
            decoder.policy, num_prompts, request.num_rollouts, request.limit
        ),
        steps=jnp.int32(0),
    )
    hidden = jnp.broadcast_to(slots.hidden[:, None], (G, rows, slots.hidden.shape[-1]))
    routing = first_routing(slots.prefix, rows)
    return placed(_extend(decoder, slots, refilled(state), hidden, routing))


@functools.partial(jax.jit, donate_argnums=2)
def advance(
    decoder: Decoder, slots: Slots, state: State, stop: StopWhen
) -> tuple[State, dict[str, jax.Array]]:
    """Decodes until the host must decide something.

    Returns:
        The state, and the arrays of it that the host reads, replicated.
    """

    first = first_routing(slots.prefix, state.last.shape[1])

    def step(_: int, state: State) -> State:
        hidden, cache = policies.decode(
            decoder.policy, decoder.params, state.last, slots.prefix, cache_of(state)
        )
        begun = (state.position > 0)[..., None]
        hidden = jnp.where(begun, hidden, slots.hidden[:, None])
        routing = first
        if routing is not None and cache.routing is not None:
            routing = jnp.where(begun[..., None], cache.routing, routing)
        state = dataclasses.replace(state, layers=cache.layers, index=cache.index)
        return _extend(decoder, slots, state, hidden, routing)

    with jax.named_scope('decode'):
        # Each check makes an accelerator exchange a message with its host.
        state = jax.lax.while_loop(
            functools.partial(_goes_on, decoder, stop),
            lambda state: jax.lax.fori_loop(0, decoder.stride, step, state),
            state,
        )
    return placed(state), {
        'rollout': shard(state.rollout, None, None),
        'waiting': shard(state.waiting, None, None, None),
        'longest': _longest(state),
        'steps': state.steps,
    }


def cache_of(state: State) -> Cache:
    """Returns the cache of all tokens before the newest; a free row has none."""
    before = jnp.maximum(state.position - 1, 0)
    before = jnp.where(state.rollout >= 0, before, 0)
    return Cache(layers=state.layers, index=state.index, lengths=before)


def _longest(state: State) -> jax.Array:
    return jnp.where(state.rollout >= 0, state.position, 0).max()


def _goes_on(decoder: Decoder, stop: StopWhen, state: State) -> jax.Array:
    """Returns whether some rollout is live and the host has nothing to decide."""
    G, K = state.rollout.shape
    shards, R = stop.unstarted.shape[0], state.waiting.shape[1]
    live = (state.rollout >= 0).reshape(shards, G // shards, R, K // R)
    waiting = (state.waiting[..., 1] - state.waiting[..., 0]).reshape(shards, -1, R)
    # With fewer live rows, the grid could shrink.
    many = (live.sum(axis=(1, 3)).max() > stop.outstanding) | (waiting > 0).any()
    many |= stop.unstarted.any()
    # An empty slot could get work.
    free = ~live.any(axis=(2, 3)) & (waiting.sum(axis=2) == 0)
    useful = stop.unstarted | (waiting.sum(axis=(1, 2)) > 0)
    # One empty slot of many costs less than the host's decision.
    enough = max(1, free.shape[1] // _EMPTY_PART)
    busy = ~((free.sum(axis=1) >= enough) & useful).any()
    goes_on = live.any() & many & busy & (state.steps < stop.steps)
    if state.ring < decoder.request.limit - 1:
        # In a full ring, a row's next tokens would overwrite its first.
        goes_on &= _longest(state) + decoder.stride - 1 <= state.ring
    return goes_on


def _extend(
    decoder: Decoder,
    slots: Slots,
    state: State,
    hidden: Float[Array, 'G K D'],
    routing: Int[Array, 'G K L k'] | None,
) -> State:
    """Chooses and records the token after each hidden state; refills ended rows."""
    policy, params, request = decoder.policy, decoder.params, decoder.request
    row_keys = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)))(
        slots.keys, state.rollout
    )
    choice, stopped = next_tokens(
        policy, params, request, hidden, row_keys, state.position
    )
    position = state.position + (state.rollout >= 0)
    values = {'lengths': position, 'stopped': stopped, **vars(choice)}
    if routing is not None:
        values['routing'] = routing
    ended = stopped | (position == request.limit)
    return refilled(
        dataclasses.replace(
            state,
            rollout=jnp.where(ended, -1, state.rollout),
            position=position,
            last=choice.tokens,
            record=_record(state, slots, values),
            steps=state.steps + 1,
        )
    )


def _record(state: State, slots: Slots, values: dict[str, jax.Array]) -> Record:
    """Writes the live rows' values at their rollouts' positions."""
    number = record_numbers(state.rollout, state.record.lengths.shape[1])

    def write(buffer, value, problem, number, position):
        at = (problem[:, None], number, position)[: buffer.ndim]
        return buffer.at[at].set(value, mode='drop', unique_indices=True)

    written = {}
    for name, value in values.items():
        buffer = getattr(state.record, name)
        axes, of_value = ((*ROW_AXES, *(None,) * (x.ndim - 2)) for x in (buffer, value))
        written[name] = sharding.on_each_device(
            write,
            (buffer, value.astype(buffer.dtype), slots.problem, number, state.position),
            (axes, of_value, ('batch',), ROW_AXES, ROW_AXES),
            axes,
        )
    return dataclasses.replace(state.record, **written)


def record_numbers(rollout: Int[Array, 'G K'], num_rollouts: int) -> Int[Array, 'G K']:
    """Returns where each row writes among its device's rollouts of its problem.

    The place of a free row is past the end, so that its write is dropped. Every free
    row has a different place, because ``unique_indices`` promises that.
    """
    local = sharding.local_size('rollouts', num_rollouts)
    past = local + jnp.arange(rollout.size).reshape(rollout.shape)
    return jnp.where(rollout < 0, past, rollout % local)

"""Samples responses to prompts in one jitted prefill and decode loop.

1. Prefill runs each prompt once, however many rollouts it has.
2. Its hidden states give the first token of every rollout.
3. A ``while_loop`` runs the newest tokens and chooses the next ones, until every
   rollout has stopped or reached the limit.

A stopped row stays in the loop as token 0 and records nothing.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Generic

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from passk_jax.config import SamplingOptions
from passk_jax.errors import InputError
from passk_jax.models import policy as policies
from passk_jax.models.experts import empty_routing
from passk_jax.models.policy import Cache, Params, Policy, Prefix
from passk_jax.sampling import keys
from passk_jax.sampling.distribution import (
    Choice,
    TracedOptions,
    choose,
    traced_options,
)
from passk_jax.sharding import shard
from passk_jax.types import Leaf, Prompts, Rollouts

# Stop tokens are padded to a multiple of this, so a new number rarely recompiles.
_STOP_TOKENS_MULTIPLE = 8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Record(Generic[Leaf]):
    """The fields of :class:`~passk_jax.types.Rollouts` that decoding writes."""

    tokens: Leaf
    lengths: Leaf
    stopped: Leaf
    sampler_log_probs: Leaf
    untruncated_log_probs: Leaf
    entropies: Leaf
    routing: Leaf | None = None

    def rollouts(
        self, prompts: Prompts[Leaf], routing: Leaf | None = None
    ) -> Rollouts[Leaf]:
        """Makes the rollouts: adds the prompts, and the experts that ran them."""
        prompts = dataclasses.replace(prompts, routing=routing)
        return Rollouts(prompts=prompts, **vars(self))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _State:
    """The state of the decode loop.

    Every response has ``position`` tokens so far (int32 scalar). The newest, ``last [P,
    N]``, have not run through the policy yet; ``cache`` holds the tokens before them.
    """

    position: jax.Array
    last: jax.Array
    cache: Cache
    record: Record


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=('options', 'stop_tokens'),
    meta_fields=('num_rollouts', 'limit', 'greedy', 'truncate'),
)
@dataclasses.dataclass(frozen=True)
class Request:
    """The checked settings of a call; all but the last two are static.

    ``limit`` is T, the most tokens in a response. For ``greedy`` and ``truncate`` see
    :func:`passk_jax.sampling.distribution.choose`. -1 pads the stop tokens, int32.
    """

    num_rollouts: int
    limit: int
    greedy: bool
    truncate: bool
    options: TracedOptions
    stop_tokens: np.ndarray


def checked_request(
    policy: Policy,
    *,
    num_rollouts: int,
    max_response_tokens: int,
    options: SamplingOptions,
    stop_tokens: Sequence[int],
) -> Request:
    """Checks the settings of :func:`passk_jax.sampling.sample`, which explains them.

    Raises:
        ValueError: a setting is out of range.
    """
    if num_rollouts < 1 or max_response_tokens < 1:
        raise InputError(f'{num_rollouts=}, {max_response_tokens=} must be at least 1')
    vocab_size = policy.arch.vocab_size
    return Request(
        num_rollouts=num_rollouts,
        limit=max_response_tokens,
        greedy=options.greedy,
        truncate=options.truncates,
        options=traced_options(options, vocab_size=vocab_size),
        stop_tokens=stop_array(stop_tokens, vocab_size=vocab_size),
    )


@functools.partial(jax.jit, static_argnames='policy')
def sample(
    policy: Policy, params: Params, prompts: Prompts, key: jax.Array, request: Request
) -> Rollouts:
    """Samples like :func:`passk_jax.sampling.sample`, without a schedule.

    ``params`` are the weights for decoding; ``request`` is a :func:`checked_request`.
    """
    P, N, T = prompts.tokens.shape[0], request.num_rollouts, request.limit
    row_keys = keys.rollout_keys(key, prompts.problem_ids, num_rollouts=N)

    def extend(state: _State, hidden: jax.Array) -> _State:
        choice = next_tokens(policy, params, request, hidden, row_keys, state.position)
        return _record(state, *choice, state.cache.routing)

    def goes_on(state: _State) -> jax.Array:
        return (state.position < T) & ~state.record.stopped.all()

    def step(prefix: Prefix, state: _State) -> _State:
        hidden, cache = policies.decode(policy, params, state.last, prefix, state.cache)
        return extend(dataclasses.replace(state, cache=cache), hidden)

    with jax.named_scope('prefill'):
        hidden, prefix = policies.prefill(policy, params, prompts)
    state = _State(
        position=jnp.int32(0),
        last=jnp.zeros((P, N), jnp.int32),
        # A response's last token never runs, so it needs no slot.
        cache=policies.empty_cache(
            policy, num_prompts=P, num_rollouts=N, num_tokens=max(T - 1, 1)
        ),
        record=empty_record(policy, P, N, T),
    )
    cache = dataclasses.replace(state.cache, routing=first_routing(prefix, N))
    state = dataclasses.replace(state, cache=cache)
    # All rollouts of a prompt start from its single hidden state.
    state = extend(state, jnp.broadcast_to(hidden[:, None], (P, N, hidden.shape[-1])))
    with jax.named_scope('decode'):
        state = jax.lax.while_loop(goes_on, functools.partial(step, prefix), state)
    return state.record.rollouts(prompts, prefix.routing)


def first_routing(prefix: Prefix, num_rollouts: int) -> Int[Array, 'P N L k'] | None:
    """Returns the experts of the prompts' last tokens, repeated for every rollout."""
    if prefix.routing is None:
        return None
    last = (prefix.lengths - 1)[:, None, None, None]
    routing = jnp.take_along_axis(prefix.routing, last, axis=1)
    P, _, *experts = routing.shape
    return jnp.broadcast_to(routing, (P, num_rollouts, *experts))


def next_tokens(
    policy: Policy,
    params: Params,
    request: Request,
    hidden: Float[Array, 'P N D'],
    row_keys: Key[Array, 'P N'],
    positions: Int[Array, '#P #N'],
) -> tuple[Choice, Bool[Array, 'P N']]:
    """Chooses the token after each hidden state, and marks the stop tokens."""
    with jax.named_scope('choose'):
        logits = policies.logits(policy, params, hidden)
        choice = choose(
            # Split the logits like the head, or XLA would gather the head.
            shard(logits, 'batch', 'rollouts', 'vocab'),
            keys.position_uniforms(row_keys, positions),
            request.options,
            greedy=request.greedy,
            truncate=request.truncate,
        )
    return choice, (choice.tokens[..., None] == request.stop_tokens).any(axis=-1)


def empty_record(
    policy: Policy, num_prompts: int, num_rollouts: int, num_tokens: int
) -> Record:
    """Makes the record of ``[P, N]`` empty rollouts with room for T tokens."""

    def zeros(dtype: jax.typing.DTypeLike, *shape: int) -> jax.Array:
        x = jnp.zeros((num_prompts, num_rollouts, *shape), dtype)
        return shard(x, 'batch', 'rollouts', *(None,) * len(shape))

    return Record(
        tokens=zeros(jnp.int32, num_tokens),
        lengths=zeros(jnp.int32),
        stopped=zeros(jnp.bool_),
        sampler_log_probs=zeros(jnp.float32, num_tokens),
        untruncated_log_probs=zeros(jnp.float32, num_tokens),
        entropies=zeros(jnp.float32, num_tokens),
        routing=empty_routing(policy.arch, num_prompts, num_rollouts, num_tokens)
        if policy.replay_routing
        else None,
    )


def _record(
    state: _State, choice: Choice, stops: jax.Array, routing: jax.Array | None
) -> _State:
    """Writes the chosen tokens of unfinished rollouts at ``state.position``."""
    before = state.record
    live = ~before.stopped

    def write(buffer: jax.Array, values: jax.Array) -> jax.Array:
        rows = live.reshape(*live.shape, *(1 for _ in values.shape[2:]))
        values = jnp.expand_dims(jnp.where(rows, values, 0), 2)
        return jax.lax.dynamic_update_slice_in_dim(buffer, values, state.position, 2)

    chosen = vars(choice) | ({} if routing is None else {'routing': routing})
    record = dataclasses.replace(
        before,
        lengths=before.lengths + live,
        stopped=before.stopped | stops,
        **{name: write(getattr(before, name), x) for name, x in chosen.items()},
    )
    return dataclasses.replace(
        state,
        position=state.position + 1,
        last=jnp.where(live, choice.tokens, 0),
        record=record,
    )


def stop_array(stop_tokens: Sequence[int], *, vocab_size: int) -> np.ndarray:
    """Pads the stop tokens with -1, which matches no token.

    Raises:
        ValueError: a stop token is outside the vocabulary.
    """
    for token in stop_tokens:
        if not 0 <= token < vocab_size:
            raise InputError(f'stop token {token} is not in [0, {vocab_size})')
    multiple = _STOP_TOKENS_MULTIPLE
    padding = -len(stop_tokens) % multiple if stop_tokens else multiple
    return np.array([*stop_tokens, *[-1] * padding], np.int32)

"""Responses to prompts: one jitted prefill and decode loop.

1. Prefill runs each prompt once, whatever the number of its rollouts.
2. The first tokens of all rollouts are chosen from it.
3. A ``while_loop`` runs the last tokens and chooses the next ones, until every rollout
   has stopped or the limit is reached.

Rows that have stopped go on through the loop as token 0 and are not recorded. Nothing
here knows of rewards, text or steps; the caller's key says which draw this is.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax.config import SamplingOptions
from passk_jax.errors import InputError
from passk_jax.models import policy as policies
from passk_jax.models.policy import Cache, Params, Policy, Prefix
from passk_jax.sampling import keys
from passk_jax.sampling.distribution import Choice, choose, traced_options
from passk_jax.sharding import shard
from passk_jax.types import Prompts, Rollouts

# Stop tokens are padded to a multiple of this, so that their number is no shape.
_STOP_TOKENS_MULTIPLE = 8
_NO_TOKEN = -1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _State:
    """What the decode loop carries.

    Attributes:
        position: int32 scalar, response tokens chosen so far.
        last: ``[P, N]`` the newest tokens, not yet run through the policy.
        cache: keys and values of the tokens before them.
        rollouts: what is recorded; zeros at and past ``position``.
    """

    position: jax.Array
    last: jax.Array
    cache: Cache
    rollouts: Rollouts


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked of every response, checked.

    Attributes:
        num_rollouts: responses to each prompt.
        limit: tokens of a response.
        greedy, truncate: as :func:`passk_jax.sampling.distribution.choose` has them.
        options: traced.
        stop_tokens: padded.
    """

    num_rollouts: int
    limit: int
    greedy: bool
    truncate: bool
    options: SamplingOptions
    stop_tokens: np.ndarray


def checked_request(
    policy: Policy,
    *,
    num_rollouts: int,
    max_response_tokens: int,
    options: SamplingOptions,
    stop_tokens: Sequence[int],
) -> Request:
    """What :func:`passk_jax.sampling.sample` is asked for, in the form that is run.

    Raises:
        ValueError: a setting is out of range.
    """
    check_counts(num_rollouts, max_response_tokens)
    vocab_size = policy.arch.vocab_size
    return Request(
        num_rollouts=num_rollouts,
        limit=max_response_tokens,
        greedy=options.greedy,
        truncate=options.truncates,
        options=traced_options(options, vocab_size=vocab_size),
        stop_tokens=stop_array(stop_tokens, vocab_size=vocab_size),
    )


def sample(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    *,
    key: jax.Array,
    **settings: Any,
) -> Rollouts:
    """What :func:`passk_jax.sampling.sample` gives, by the plain loop.

    Args:
        policy, params, prompts, key: as there.
        settings: of :func:`checked_request`.
    """
    return run(policy, params, prompts, key, checked_request(policy, **settings))


def run(
    policy: Policy, params: Params, prompts: Prompts, key: jax.Array, request: Request
) -> Rollouts:
    """:func:`sample` of what has been checked."""
    # These few host numbers are meant to cross, in a guarded training loop too.
    with jax.transfer_guard_host_to_device('allow'):
        return _sample(
            policy,
            params,
            prompts,
            key,
            request.options,
            request.stop_tokens,
            num_rollouts=request.num_rollouts,
            max_response_tokens=request.limit,
            greedy=request.greedy,
            truncate=request.truncate,
        )


@functools.partial(
    jax.jit,
    static_argnames=(
        'policy',
        'num_rollouts',
        'max_response_tokens',
        'greedy',
        'truncate',
    ),
)
def _sample(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    key: jax.Array,
    options: SamplingOptions,
    stop_tokens: jax.Array,
    *,
    num_rollouts: int,
    max_response_tokens: int,
    greedy: bool,
    truncate: bool,
) -> Rollouts:
    params = policies.for_decoding(policy, params)
    P, N, T = prompts.tokens.shape[0], num_rollouts, max_response_tokens
    row_keys = keys.rollout_keys(key, prompts.problem_ids, num_rollouts=N)

    def extend(state: _State, hidden: jax.Array) -> _State:
        """Chooses and records the token that follows each hidden state."""
        with jax.named_scope('choose'):
            logits = policies.logits(policy, params, hidden)
            choice = choose(
                # Whole rows: choosing looks at all of the vocabulary.
                shard(logits, 'batch', 'rollouts', None),
                keys.position_uniforms(row_keys, state.position),
                options,
                greedy=greedy,
                truncate=truncate,
            )
        return _record(state, choice, stop_tokens)

    def goes_on(state: _State) -> jax.Array:
        below_limit = state.position < T
        some_unfinished = ~state.rollouts.stopped.all()
        return below_limit & some_unfinished

    def step(prefix: Prefix, state: _State) -> _State:
        hidden, cache = policies.decode(policy, params, state.last, prefix, state.cache)
        return extend(dataclasses.replace(state, cache=cache), hidden)

    with jax.named_scope('prefill'):
        hidden, prefix = policies.prefill(policy, params, prompts)
    state = _State(
        position=jnp.int32(0),
        last=jnp.zeros((P, N), jnp.int32),
        # The last token a response may have is never run, so it needs no slot.
        cache=policies.empty_cache(
            policy, num_prompts=P, num_rollouts=N, num_tokens=max(T - 1, 1)
        ),
        rollouts=empty_rollouts(P, N, T),
    )
    # All rollouts of a prompt start from its one hidden state.
    first = jnp.broadcast_to(hidden[:, None], (P, N, hidden.shape[-1]))
    state = extend(state, first)
    with jax.named_scope('decode'):
        state = jax.lax.while_loop(goes_on, functools.partial(step, prefix), state)
    return dataclasses.replace(state.rollouts, prompts=prompts)


def empty_rollouts(num_prompts: int, num_rollouts: int, num_tokens: int) -> Rollouts:
    """Rollouts of length 0, without their prompts."""

    def zeros(dtype: type, *shape: int) -> jax.Array:
        x = jnp.zeros((num_prompts, num_rollouts, *shape), dtype)
        return shard(x, 'batch', 'rollouts', *(None,) * len(shape))

    return Rollouts(
        prompts=None,
        tokens=zeros(jnp.int32, num_tokens),
        lengths=zeros(jnp.int32),
        stopped=zeros(jnp.bool_),
        sampler_log_probs=zeros(jnp.float32, num_tokens),
        untruncated_log_probs=zeros(jnp.float32, num_tokens),
        entropies=zeros(jnp.float32, num_tokens),
    )


def _record(state: _State, choice: Choice, stop_tokens: jax.Array) -> _State:
    """Writes the chosen tokens at ``state.position``, unless a rollout has stopped."""
    before = state.rollouts
    live = ~before.stopped

    def write(buffer: jax.Array, values: jax.Array) -> jax.Array:
        values = jnp.where(live, values, 0)[..., None]
        return jax.lax.dynamic_update_slice_in_dim(buffer, values, state.position, 2)

    ended = (choice.tokens[..., None] == stop_tokens).any(axis=-1)
    rollouts = dataclasses.replace(
        before,
        tokens=write(before.tokens, choice.tokens),
        lengths=before.lengths + live,
        stopped=before.stopped | ended,
        sampler_log_probs=write(before.sampler_log_probs, choice.sampler_log_probs),
        untruncated_log_probs=write(
            before.untruncated_log_probs, choice.untruncated_log_probs
        ),
        entropies=write(before.entropies, choice.entropies),
    )
    return dataclasses.replace(
        state,
        position=state.position + 1,
        last=jnp.where(live, choice.tokens, 0),
        rollouts=rollouts,
    )


def check_counts(num_rollouts: int, max_response_tokens: int) -> None:
    """Raises ValueError if there is nothing to sample."""
    if num_rollouts < 1 or max_response_tokens < 1:
        raise InputError(f'{num_rollouts=}, {max_response_tokens=} must be at least 1')


def stop_array(stop_tokens: Sequence[int], *, vocab_size: int) -> np.ndarray:
    """Stop tokens, padded with -1, which is no token.

    Raises:
        ValueError: one is not in the vocabulary.
    """
    for token in stop_tokens:
        if not 0 <= token < vocab_size:
            raise InputError(f'stop token {token} is not in [0, {vocab_size})')
    multiple = _STOP_TOKENS_MULTIPLE
    width = max(1, -(-len(stop_tokens) // multiple)) * multiple
    padded = np.full(width, _NO_TOKEN, np.int32)
    padded[: len(stop_tokens)] = stop_tokens
    return padded

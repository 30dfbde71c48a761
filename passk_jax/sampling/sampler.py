"""Responses to prompts, without waiting for the longest.

Each prompt is run once. Then as many rollouts as the memory allows are decoded at one
time; a rollout that ends makes place for one that waits; and when nothing waits any
more, the rows that are left move together, into fewer and fewer. The device decodes
(device.py) until there is something to decide; the host decides it (host.py, by
the arithmetic of grid.py), every host the same; and the rows move (state.py).

A rollout's tokens do not depend on any of this: its randomness is addressed. The plain
loop (plain_loop.py) says what they are, and runs where there is nothing to gain.
"""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import SamplingOptions
from passk_jax.errors import InputError
from passk_jax.models import policy as policies
from passk_jax.models.arch import Arch
from passk_jax.models.policy import Params, Policy
from passk_jax.sampling import plain_loop
from passk_jax.sampling.scheduled import grid, host
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.sampling.scheduled.hand_over import OnEnded, gather
from passk_jax.types import Prompts, Rollouts


def sample(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    *,
    key: jax.Array,
    num_rollouts: int,
    max_response_tokens: int,
    options: SamplingOptions,
    stop_tokens: Sequence[int],
    max_cache_bytes: int = 0,
    on_ended: OnEnded | None = None,
) -> Rollouts:
    """Samples ``num_rollouts`` responses to each prompt.

    A rollout depends on (params, prompt, key, problem id, rollout index, settings): not
    on the rest of the batch, its order, the padding, the mesh, the memory or the number
    of rollouts; a larger limit only goes on from a smaller one. Exactly so in float32;
    in bfloat16 products of other shapes round differently, and a token may fall on the
    other side. Settings and stop tokens may change without a new compilation, but for
    the first greedy or truncated call.

    Args:
        policy: the policy.
        params: its parameters.
        prompts: the prompts, placed on the mesh by the caller.
        key: of :func:`passk_jax.sampling.keys.step_key`.
        num_rollouts: responses to each prompt.
        max_response_tokens: limit of a response, the stop token included.
        options: the distribution that tokens are drawn from.
        stop_tokens: token ids that end a response; may be empty.
        max_cache_bytes: a device's keys and values of prompts and responses; rollouts
            that do not fit wait for others to end. 0: no limit.
        on_ended: is given every response once, the first while others are still being
            decoded (where that is long enough to be worth it).

    Returns:
        The rollouts, sharded over their prompts as the prompts are.

    Raises:
        ValueError: a setting is out of range, or not even one response fits.
    """
    request = plain_loop.checked_request(
        policy,
        num_rollouts=num_rollouts,
        max_response_tokens=max_response_tokens,
        options=options,
        stop_tokens=stop_tokens,
    )
    P, S = prompts.tokens.shape
    work, first = at_one_time(
        policy.arch,
        num_prompts=P,
        num_rollouts=num_rollouts,
        prompt_tokens=S,
        max_response_tokens=max_response_tokens,
        max_cache_bytes=max_cache_bytes,
    )
    if _nothing_to_gain(work, first, num_prompts=P, num_rollouts=num_rollouts):
        rollouts = plain_loop.run(policy, params, prompts, key, request)
        if on_ended:
            on_ended(gather(rollouts, np.full((P, num_rollouts), True)))
        return rollouts
    rollouts = host.decode(policy, params, prompts, key, request, work, first, on_ended)
    return dataclasses.replace(rollouts, prompts=prompts)


def at_one_time(
    arch: Arch,
    *,
    num_prompts: int,
    num_rollouts: int,
    prompt_tokens: int,
    max_response_tokens: int,
    max_cache_bytes: int,
) -> tuple[Work, Size]:
    """What a cell has to do, and what of it is decoded at one time, to begin with.

    A cell is what one device has of the batch; see scheduled/grid.py.

    Args:
        arch: the policy's.
        num_prompts, num_rollouts, prompt_tokens: P, N and S.
        max_response_tokens, max_cache_bytes: as :func:`sample` has them.

    Raises:
        ValueError: a number below 1; not even one response fits; or rollouts would
            have to wait and the mesh does not divide the batch, so that every device
            has all of it.
    """
    plain_loop.check_counts(num_rollouts, max_response_tokens)
    heads = sharding.local_size('kv_heads', arch.num_kv_heads)
    token_bytes = 2 * heads * arch.head_dim * jnp.dtype(arch.dtype).itemsize
    work = Work(
        problems=sharding.local_size('batch', num_prompts),
        rollouts=sharding.local_size('rollouts', num_rollouts),
        prompt_tokens=prompt_tokens,
        response_tokens=policies.cache_slots(max_response_tokens - 1),
        token_bytes=token_bytes * arch.num_layers,
        num_layers=arch.num_layers,
    )
    first = grid.first_size(work, max_bytes=max_cache_bytes)
    if first != work.everything and not _divided(num_prompts, num_rollouts):
        raise InputError(
            f'{max_cache_bytes=} is too small for {num_prompts} prompts with '
            f'{num_rollouts} rollouts on every device, and a mesh that does not divide '
            f'them cannot let them wait'
        )
    return work, first


def _nothing_to_gain(
    work: Work, first: Size, *, num_prompts: int, num_rollouts: int
) -> bool:
    """Whether the plain loop is as good: all fits, and is short or cannot move."""
    # In a short response's time no row is worth moving.
    short = work.response_tokens <= grid.SHORT_RESPONSE
    divided = _divided(num_prompts, num_rollouts)
    return first == work.everything and (short or not divided)


def _divided(num_prompts: int, num_rollouts: int) -> bool:
    return sharding.divides('batch', num_prompts) and sharding.divides(
        'rollouts', num_rollouts
    )

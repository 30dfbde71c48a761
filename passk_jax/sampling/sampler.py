"""Samples responses to prompts without waiting for the longest one.

Each prompt runs once. Then as many rollouts decode together as fit in memory. When one
ends, a waiting rollout takes its row; when none waits, the remaining rows move into
smaller and smaller grids. The device decodes (device.py) until there is a decision to
make. Every host makes the same decision (host.py, with the arithmetic of grid.py), and
state.py moves the rows.

The schedule changes no token of a rollout, because its random keys are addressed: a
rollout depends only on (params, prompt, key, problem id, rollout index, settings). The
rest of the batch, its order, the padding, the mesh, the memory and the number of
rollouts do not change it. A larger token limit only extends it. This is exact in
float32. Elsewhere, products of other shapes may round differently and change a token:
in bfloat16; with int8 keys and values, which may round to the next step; and on a CPU
with a real vocabulary and tied embeddings (see ``score_tokens``).

The plain loop (plain_loop.py) defines the tokens, and runs where a schedule would cost
more than it can gain (cost.py). New values of the options or the stop tokens do not
recompile, except at the first greedy or truncated call.
"""

from collections.abc import Sequence

import jax
import numpy as np

from passk_jax import sharding
from passk_jax.config import SamplingOptions
from passk_jax.errors import InputError
from passk_jax.models import moved_weights
from passk_jax.models import policy as policies
from passk_jax.models.policy import Params, Policy
from passk_jax.models.quantized import empty_layer
from passk_jax.sampling import plain_loop
from passk_jax.sampling.plain_loop import Request
from passk_jax.sampling.scheduled import grid, host
from passk_jax.sampling.scheduled.cost import Account, open_account
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
    """Samples responses to each prompt, split over devices as ``prompts`` are.

    Args:
        policy, params, options: the distribution that tokens are drawn from.
        prompts: placed on the mesh by the caller.
        key: from :func:`passk_jax.sampling.keys.step_key`.
        num_rollouts, max_response_tokens: responses to a prompt, and the most tokens of
            one, including its stop token.
        stop_tokens: ids of the tokens that end a response; may be empty.
        max_cache_bytes: memory on each device for the keys and values of prompts and
            responses. Rollouts that do not fit wait until others end. 0: no limit.
        on_ended: receives every response once. If decoding is long enough, it receives
            the first ones while others decode.

    Raises:
        ValueError: a setting is out of range, or not even one response fits.
    """
    counts = {'num_rollouts': num_rollouts, 'max_response_tokens': max_response_tokens}
    request = plain_loop.checked_request(
        policy, options=options, stop_tokens=stop_tokens, **counts
    )
    P, S = prompts.tokens.shape
    sizes = counts | {'num_prompts': P, 'prompt_tokens': S}
    work, first = fit_grid(policy, max_cache_bytes=max_cache_bytes, **sizes)
    params = moved_weights.weights_of_sampling(policy, params)
    account = open_account(policy.arch, params)
    inputs = (policy, params, prompts, key, request)
    # Allow a few numbers to reach the device from a guarded training loop.
    with jax.transfer_guard_host_to_device('allow'):
        if schedules(account, work, first, num_prompts=P, request=request):
            return host.decode(*inputs, account, work, first, on_ended)
        rollouts = plain_loop.sample(*inputs)
        if on_ended:
            on_ended(gather(rollouts, np.full((P, num_rollouts), True)))
        return rollouts


def schedules(
    account: Account, work: Work, first: Size, *, num_prompts: int, request: Request
) -> bool:
    """Returns whether :func:`sample` runs the schedule instead of the plain loop.

    ``work`` and ``first`` are from :func:`fit_grid`.
    """
    # Rows can move only if the mesh divides them.
    return first != work.everything or (
        _is_divided(num_prompts, request.num_rollouts)
        and host.gains(account, work, first, request.limit)
    )


def fit_grid(
    policy: Policy,
    *,
    num_prompts: int,
    num_rollouts: int,
    prompt_tokens: int,
    max_response_tokens: int,
    max_cache_bytes: int,
) -> tuple[Work, Size]:
    """Returns a cell's work, and the size of the grid that it starts with.

    A cell is one device's part of the batch; see scheduled/grid.py. The first three
    numbers are P, N and S.

    Raises:
        ValueError: not even one response fits. Or rollouts would have to wait, but the
            mesh does not divide the batch, so every device holds all of it.
    """
    arch = policy.arch
    lead = (sharding.local_size('kv_heads', arch.num_kv_heads),)
    token = jax.eval_shape(lambda: empty_layer(arch, lead, 1, policy.quantizes_cache))
    token_bytes = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(token))
    work = Work(
        problems=sharding.local_size('batch', num_prompts),
        rollouts=sharding.local_size('rollouts', num_rollouts),
        prompt_tokens=prompt_tokens,
        response_tokens=policies.cache_slots(max_response_tokens - 1),
        token_bytes=token_bytes * arch.num_layers,
        num_layers=arch.num_layers,
    )
    first = grid.first_size(work, max_bytes=max_cache_bytes)
    if first != work.everything and not _is_divided(num_prompts, num_rollouts):
        raise InputError(
            f'{max_cache_bytes=} is too small for {num_prompts} prompts with '
            f'{num_rollouts} rollouts on every device, and rollouts can wait only on a '
            f'mesh that divides both numbers: raise it, or change the mesh'
        )
    return work, first


def _is_divided(num_prompts: int, num_rollouts: int) -> bool:
    return sharding.divides('batch', num_prompts) and sharding.divides(
        'rollouts', num_rollouts
    )

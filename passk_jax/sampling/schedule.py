"""Responses to prompts, without waiting for the longest.

Each prompt is run once. Then as many rollouts as the memory allows are decoded at one
time; a rollout that ends makes place for one that waits; and when nothing waits any
more, the rows that are left move together, into fewer and fewer. The device decodes
(decoding.py) until there is something to decide; the host decides it (grid.py), every
host the same; and the rows move (slots.py).

A rollout's tokens do not depend on any of this: its randomness is addressed. The plain
loop (sampler.py) says what they are, and is what runs where there is nothing to gain.
"""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
from absl import logging
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models.arch import Arch
from passk_jax.models.policy import Params, Policy
from passk_jax.sampling import decoding, grid, sampler, slots
from passk_jax.sampling.decoding import How, Until
from passk_jax.sampling.ended import OnEnded, gather
from passk_jax.sampling.grid import Size, Work
from passk_jax.sampling.slots import Slots, State
from passk_jax.types import Prompts, Rollouts

_NO_LIMIT = 2**30
# Steps between two looks at whether to go on: each costs an accelerator a word with its
# host.
_STRIDE = {'cpu': 1}
# Times that responses are handed over while others go on.
_HAND_OVERS = 16
# Rows that did not fit a smaller grid are tried again when this part of them has ended.
_RETRY_PART = 16


def sample(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    *,
    key: jax.Array,
    num_rollouts: int,
    max_response_tokens: int,
    temperature: float,
    top_p: float,
    top_k: int,
    stop_tokens: Sequence[int],
    max_cache_bytes: int = 0,
    on_ended: OnEnded | None = None,
) -> Rollouts:
    """Samples ``num_rollouts`` responses to each prompt.

    A rollout depends on (params, prompt, key, problem id, rollout index, settings): not
    on the rest of the batch, its order, the padding, the mesh, the memory or the number
    of rollouts; a larger limit only goes on from a smaller one. Settings and stop
    tokens may change without a new compilation, but for the first greedy or truncated
    call.

    Args:
        policy: the policy.
        params: its parameters.
        prompts: the prompts, placed on the mesh by the caller.
        key: of :func:`passk_jax.sampling.keys.step_key`.
        num_rollouts: responses to each prompt.
        max_response_tokens: limit of a response, the stop token included.
        temperature: divides the logits; 0: greedy, which uses no randomness.
        top_p: keep the smallest set of most probable tokens with at least this much
            of the probability that ``top_k`` left; 1: off.
        top_k: keep this many most probable tokens; 0: off.
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
    vocab_size = policy.arch.vocab_size
    settings = sampler.checked_settings(
        temperature, top_p, top_k, vocab_size=vocab_size
    )
    stops = sampler.stop_array(stop_tokens, vocab_size=vocab_size)
    if num_rollouts < 1 or max_response_tokens < 1:
        raise ValueError(f'{num_rollouts=}, {max_response_tokens=} must be at least 1')
    work = _work_of_a_cell(policy.arch, prompts, num_rollouts, max_response_tokens)
    first = grid.first_size(work, max_bytes=max_cache_bytes)
    if not _gains(work, first, P=prompts.tokens.shape[0], N=num_rollouts):
        rollouts = sampler.sample(
            policy,
            params,
            prompts,
            key=key,
            num_rollouts=num_rollouts,
            max_response_tokens=max_response_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            stop_tokens=stop_tokens,
        )
        if on_ended:
            on_ended(gather(rollouts, np.ones(rollouts.lengths.shape, bool)))
        return rollouts
    how = How(
        policy=policy,
        greedy=temperature == 0,
        truncate=top_p < 1 or top_k > 0,
        limit=max_response_tokens,
        stride=_STRIDE.get(jax.default_backend(), 8),
    )
    # The few numbers of a decision are meant to cross, in a guarded loop too.
    with jax.transfer_guard_host_to_device('allow'):
        params, problems = decoding.prefill(policy, params, prompts, key)
        weights = (params, settings, stops)
        run = Decoding(how, weights, problems, work, first, num_rollouts)
        run.finish(on_ended)
    return dataclasses.replace(run.state.rollouts, prompts=prompts)


class Decoding:
    """One call's decoding: what the host knows, and the device's arrays.

    Attributes:
        size: of the grid now.
        smaller: sizes that it may shrink to.
        few: so few outstanding rollouts are worth a look at smaller sizes.
        shards: who sits where, one a shard of the batch.
        row_steps: rows decoded so far, live or not, of all cells.
        state: the device's.
    """

    def __init__(
        self,
        how: How,
        weights: decoding.Weights,
        problems: Slots,
        work: Work,
        size: Size,
        num_rollouts: int,
    ):
        P = problems.problem.shape[0]
        R = num_rollouts // work.rollouts
        self.how, self.weights, self.problems, self.work = how, weights, problems, work
        self.size, self.smaller = size, grid.smaller_sizes(work, size)
        self.ring = grid.first_ring(work.response_tokens)
        self.num_cells = P // work.problems * R
        self.steps = self.row_steps = 0
        self.shards = [
            grid.seat(work, size, rollout_shards=R) for _ in range(P // work.problems)
        ]
        self.few = self.smaller[0].total if self.smaller else 0
        self.slots = problems if size.slots == work.problems else self.taken()
        self.state: State = decoding.begin(
            how,
            weights,
            self.slots,
            self.whole('waiting'),
            num_prompts=P,
            num_rollouts=num_rollouts,
            rows=size.rows * R,
            ring=self.ring,
        )

    def whole(self, name: str) -> np.ndarray:
        """An array of the shards together."""
        parts = [getattr(shard, name) for shard in self.shards]
        return np.concatenate(parts).astype(np.int32)

    def taken(self) -> Slots:
        """The slots with the problems that sit there."""
        return slots.take_slots(self.problems, self.whole('problem'))

    def finish(self, on_ended: OnEnded | None) -> None:
        """Decodes to the end, and hands over what has ended on the way."""
        steps = max(1, self.how.limit // _HAND_OVERS) if on_ended else _NO_LIMIT
        given = np.zeros(self.state.rollouts.lengths.shape, bool)
        more = True
        while more:
            more = self.advance(steps)
            if not on_ended:
                continue
            ended = [grid.ended(shard, self.work) for shard in self.shards]
            new = np.concatenate(ended) & ~given
            if new.any():
                on_ended(gather(self.state.rollouts, new))
                given |= new
        logging.info('sampled in %d row-steps', self.row_steps)

    def advance(self, steps: int) -> bool:
        """Decodes until there is something to decide, and decides it.

        Returns:
            Whether there is more to decode.
        """
        until = Until(
            outstanding=np.int32(self.few),
            unstarted=np.array([bool(shard.unstarted) for shard in self.shards]),
            steps=np.int32(steps),
        )
        self.state, report = decoding.advance(
            self.how, self.weights, self.slots, self.state, until
        )
        report = jax.device_get(report)
        steps = int(report['steps'])
        self.row_steps += (steps - self.steps) * self.size.total * self.num_cells
        self.steps = steps
        parts = len(self.shards)
        waiting = np.split(np.array(report['waiting']), parts)
        rollout = report['rollout'].reshape(
            len(report['rollout']), waiting[0].shape[1], -1
        )
        for shard, mine, left in zip(
            self.shards, np.split(rollout, parts), waiting, strict=True
        ):
            shard.rollout, shard.waiting = mine, left
        outstanding = max(shard.outstanding for shard in self.shards)
        if not outstanding and not any(shard.unstarted for shard in self.shards):
            return False
        given = [grid.give_work(shard, self.work) for shard in self.shards]
        if any(given):
            self.slots = self.taken()
            self.state = slots.refill(self.state, self.whole('waiting'))
            return True
        if outstanding <= self.few and not self.shrink():
            self.few = outstanding - max(1, outstanding // _RETRY_PART)
        room = self.ring - self.how.stride + 1
        if report['longest'] > room and self.ring < self.work.response_tokens:
            self.grow()
        return True

    def shrink(self) -> bool:
        """Moves the rows into the smallest grid that holds them, if one does."""
        if not all(shard.all_started for shard in self.shards):
            return False
        for i, size in reversed(list(enumerate(self.smaller))):
            packed = [grid.pack(shard, size) for shard in self.shards]
            if None in packed:
                continue
            self.shards = [shard for shard, _ in packed]
            self.size, self.smaller = size, self.smaller[i + 1 :]
            self.few = self.smaller[0].total if self.smaller else 0
            self.slots = self.taken()
            self.move([source for _, source in packed], self.ring)
            return True
        return False

    def grow(self) -> None:
        """Makes the ring longer."""
        R = self.shards[0].rollout.shape[1]
        size = self.size
        source = np.arange(size.total).reshape(size.slots, 1, size.rows)
        source = np.broadcast_to(source, (size.slots, R, size.rows))
        ring = grid.next_ring(self.ring, self.work.response_tokens)
        waiting = self.whole('waiting')
        self.move([source] * len(self.shards), ring)
        self.state = slots.refill(self.state, waiting)

    def move(self, sources: list[np.ndarray], ring: int) -> None:
        """Moves the rows of every shard, a layer at a time: memory holds one twice."""
        source = np.concatenate(sources).astype(np.int32)
        source = source.reshape(len(source), -1)
        rollout = self.whole('rollout').reshape(source.shape)
        layers, recorded = list(self.state.cache.layers), self.state.rollouts
        old = self.state.cache.index
        cache = dataclasses.replace(self.state.cache, layers=())
        self.state = dataclasses.replace(self.state, cache=cache, rollouts=None)
        moved = []
        while layers:
            moved.append(slots.move_cache(layers.pop(0), source, old, ring=ring))
        # In a longer ring what was written ends where the old one did.
        index = np.int32(self.ring) if ring > self.ring else old
        state = slots.move_rows(self.state, rollout, source, index)
        cache = dataclasses.replace(state.cache, layers=tuple(moved))
        self.state = dataclasses.replace(state, cache=cache, rollouts=recorded)
        self.ring = ring


def _work_of_a_cell(
    arch: Arch, prompts: Prompts, num_rollouts: int, max_response_tokens: int
) -> Work:
    P, S = prompts.tokens.shape
    heads = sharding.local_size('kv_heads', arch.num_kv_heads)
    itemsize = jnp.dtype(arch.dtype).itemsize
    return Work(
        problems=sharding.local_size('batch', P),
        rollouts=sharding.local_size('rollouts', num_rollouts),
        prompt_tokens=S,
        response_tokens=max(max_response_tokens - 1, 1),
        slot_bytes=2 * arch.num_layers * heads * arch.head_dim * itemsize,
    )


def _gains(work: Work, first: Size, *, P: int, N: int) -> bool:
    """Whether there is anything to schedule.

    Raises:
        ValueError: there is, but the mesh does not divide the batch, so that every
            device has all of it.
    """
    all_at_once = first == Size(work.problems, work.rollouts)
    divided = sharding.divides('batch', P) and sharding.divides('rollouts', N)
    if not all_at_once and not divided:
        raise ValueError(
            f'max_cache_bytes is too small for {P} prompts with {N} rollouts on every '
            f'device, and a mesh that does not divide them cannot let them wait'
        )
    # In a short response's time no row is worth moving.
    return divided and not (all_at_once and work.response_tokens <= grid.SHORT_RESPONSE)

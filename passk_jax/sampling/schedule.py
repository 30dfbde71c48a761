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
from passk_jax.models import policy as policies
from passk_jax.models.arch import Arch
from passk_jax.models.policy import Params, Policy
from passk_jax.sampling import decoding, grid, sampler, slots
from passk_jax.sampling.decoding import Static, StopWhen
from passk_jax.sampling.ended import OnEnded, gather
from passk_jax.sampling.grid import Size, Work
from passk_jax.sampling.slots import Slots, State
from passk_jax.types import Prompts, Rollouts

_NO_LIMIT = 2**30


@dataclasses.dataclass(frozen=True)
class Pace:
    """How often something is decided.

    Attributes:
        stride: steps between two looks at whether to go on.
        part: of its rows is what the grid shrinks to.
        times: as long is the next ring.
    """

    stride: int
    part: float
    times: int


# A look costs an accelerator a word with its host; a program costs it up to minutes to
# compile, and an idle row little of a step, which reads all weights anyway.
_PACE = {'cpu': Pace(stride=1, part=2 / 3, times=2)}
_PACE_OF_ACCELERATORS = Pace(stride=8, part=1 / 4, times=4)
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
    pace = _PACE.get(jax.default_backend(), _PACE_OF_ACCELERATORS)
    static = Static(
        policy=policy,
        greedy=temperature == 0,
        truncate=top_p < 1 or top_k > 0,
        limit=max_response_tokens,
        stride=pace.stride,
    )
    # The few numbers of a decision are meant to cross, in a guarded loop too.
    with jax.transfer_guard_host_to_device('allow'):
        params, problems = decoding.prefill(policy, params, prompts, key)
        weights = (params, settings, stops)
        run = Decoding(static, pace, weights, problems, work, first, num_rollouts)
        run.finish(on_ended)
    return dataclasses.replace(run.state.rollouts, prompts=prompts)


class Decoding:
    """One call's decoding: what the host knows, and the device's arrays.

    Attributes:
        size: of the grid now.
        smaller: sizes that it may shrink to.
        look_below: so few live rows are worth a look at smaller sizes.
        ring: tokens that the cache has room for now.
        shards: who sits where, one a shard of the batch.
        row_steps: rows decoded so far, live or not, of all cells.
        slots: the prompts that the rows read.
        state: the device's.
    """

    def __init__(
        self,
        static: Static,
        pace: Pace,
        weights: decoding.Weights,
        problems: Slots,
        work: Work,
        size: Size,
        num_rollouts: int,
    ):
        P = problems.problem.shape[0]
        R = num_rollouts // work.rollouts
        self.static, self.pace, self.weights = static, pace, weights
        self.problems, self.work = problems, work
        self.size = size
        self.smaller = grid.smaller_sizes(work, size, part=pace.part)
        self.ring = grid.first_ring(work.response_tokens)
        self.num_cells = P // work.problems * R
        self.steps = self.row_steps = 0
        self.shards = [
            grid.seat(work, size, rollout_shards=R) for _ in range(P // work.problems)
        ]
        self.look_below = self.largest_smaller()
        self.slots = problems
        if size.slots < work.problems:
            self.seat()
        self.state: State = decoding.begin(
            static,
            weights,
            self.slots,
            self.joined('waiting'),
            num_prompts=P,
            num_rollouts=num_rollouts,
            rows=size.rows * R,
            ring=self.ring,
        )

    def finish(self, on_ended: OnEnded | None = None) -> None:
        """Decodes to the end, and hands over what has ended on the way."""
        steps = max(1, self.static.limit // _HAND_OVERS) if on_ended else _NO_LIMIT
        given = np.zeros(self.state.rollouts.lengths.shape, bool)
        while self.outstanding or self.unstarted.any():
            longest = self.advance(steps)
            if on_ended:
                ended = [grid.ended(shard, self.work) for shard in self.shards]
                new = np.concatenate(ended) & ~given
                if new.any():
                    on_ended(gather(self.state.rollouts, new))
                    given |= new
            self.decide(longest)
        logging.info('sampled in %d row-steps', self.row_steps)

    def advance(self, steps: int) -> int:
        """Decodes until there is something to decide; the longest live response."""
        stop = StopWhen(
            outstanding=np.int32(self.look_below),
            unstarted=self.unstarted,
            steps=np.int32(self.steps + steps),
        )
        self.state, report = decoding.advance(
            self.static, self.weights, self.slots, self.state, stop
        )
        report = jax.device_get(report)
        done = int(report['steps'])
        self.row_steps += (done - self.steps) * self.size.total * self.num_cells
        self.steps = done
        parts = len(self.shards)
        waiting = np.split(np.array(report['waiting']), parts)
        G, R, _ = report['waiting'].shape
        rollout = np.split(report['rollout'].reshape(G, R, -1), parts)
        for shard, mine, left in zip(self.shards, rollout, waiting, strict=True):
            shard.rollout, shard.waiting = mine, left
        return int(report['longest'])

    def decide(self, longest: int) -> None:
        """Gives empty slots work, or moves the rows, where there is reason to."""
        given = [grid.give_work(shard, self.work) for shard in self.shards]
        if any(given):
            self.seat()
            self.state = slots.refill(self.state, self.joined('waiting'))
            return
        outstanding = self.outstanding
        all_started = all(shard.all_started for shard in self.shards)
        if 0 < outstanding <= self.look_below and all_started:
            if self.shrink():
                self.look_below = self.largest_smaller()
            else:
                self.look_below = outstanding - max(1, outstanding // _RETRY_PART)
        room = self.ring - self.pace.stride + 1
        if longest > room and self.ring < self.work.response_tokens:
            self.grow()

    @property
    def outstanding(self) -> int:
        """Rollouts of the fullest cell that are in its slots and have not ended."""
        return max(shard.outstanding for shard in self.shards)

    @property
    def unstarted(self) -> np.ndarray:
        """``[shards]`` bool: there are problems that no slot has had."""
        return np.array([bool(shard.unstarted) for shard in self.shards])

    def largest_smaller(self) -> int:
        """Rows of the next smaller size; 0: there is none."""
        return self.smaller[0].total if self.smaller else 0

    def joined(self, name: str) -> np.ndarray:
        """An array of the shards together."""
        parts = [getattr(shard, name) for shard in self.shards]
        return np.concatenate(parts).astype(np.int32)

    def seat(self) -> None:
        """Brings the prompts of the problems that sit in the slots there."""
        # What was there makes room first.
        self.slots = None
        self.slots = slots.take_slots(self.problems, self.joined('problem'))

    def shrink(self) -> bool:
        """Moves the rows into the smallest grid that holds them, if one does."""
        for i, size in reversed(list(enumerate(self.smaller))):
            packed = [grid.pack(shard, size) for shard in self.shards]
            if None in packed:
                continue
            self.shards = [shard for shard, _ in packed]
            self.size, self.smaller = size, self.smaller[i + 1 :]
            self.seat()
            self.move([source for _, source in packed], self.ring)
            return True
        return False

    def grow(self) -> None:
        """Makes the ring longer."""
        R = self.shards[0].rollout.shape[1]
        stay = np.arange(self.size.total).reshape(self.size.slots, 1, self.size.rows)
        stay = np.broadcast_to(stay, (self.size.slots, R, self.size.rows))
        ring = grid.next_ring(
            self.ring, self.work.response_tokens, times=self.pace.times
        )
        self.move([stay] * len(self.shards), ring)

    def move(self, sources: list[np.ndarray], ring: int) -> None:
        """Moves the rows of every shard, a layer at a time: memory holds one twice."""
        source = np.concatenate(sources).astype(np.int32)
        source = source.reshape(len(source), -1)
        old, layers, moved = self.state, list(self.state.layers), []
        self.state = None
        old = dataclasses.replace(old, layers=())
        while layers:
            moved.append(slots.move_cache(layers.pop(0), source, old.index, ring=ring))
        self.state = slots.settle(
            dataclasses.replace(
                old,
                rollout=self.joined('rollout').reshape(source.shape),
                position=slots.move_rows(old.position, source),
                last=slots.move_rows(old.last, source),
                waiting=self.joined('waiting'),
                layers=tuple(moved),
                # In a longer ring what was written ends where the old one did.
                index=np.int32(self.ring) if ring > self.ring else old.index,
            )
        )
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
        response_tokens=policies.cache_slots(max_response_tokens - 1),
        token_bytes=2 * arch.num_layers * heads * arch.head_dim * itemsize,
        num_layers=arch.num_layers,
    )


def _gains(work: Work, first: Size, *, P: int, N: int) -> bool:
    """Whether there is anything to schedule.

    Raises:
        ValueError: there is, but the mesh does not divide the batch, so that every
            device has all of it.
    """
    all_at_once = first == work.everything
    divided = sharding.divides('batch', P) and sharding.divides('rollouts', N)
    if not all_at_once and not divided:
        raise ValueError(
            f'max_cache_bytes is too small for {P} prompts with {N} rollouts on every '
            f'device, and a mesh that does not divide them cannot let them wait'
        )
    # In a short response's time no row is worth moving.
    return divided and not (all_at_once and work.response_tokens <= grid.SHORT_RESPONSE)

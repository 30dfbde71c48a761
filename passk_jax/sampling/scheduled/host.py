"""The host's part of scheduled sampling: decisions between two device programs.

:func:`decode` runs the prompts. Then the device decodes (device.py) and the host hands
over the responses that have ended, until all have. The host may also give empty slots
work, move the rows into a smaller grid, or lengthen the ring. It hands over and shrinks
only as often as decoding has paid for (cost.py). On an accelerator a thread compiles
what the next decision may need (ahead.py).
"""

import functools
from collections.abc import Callable, Hashable

import jax
import numpy as np
from absl import logging

from passk_jax.models.policy import Params, Policy
from passk_jax.sampling.plain_loop import Request
from passk_jax.sampling.scheduled import device, grid, state
from passk_jax.sampling.scheduled.ahead import Ahead, is_possible
from passk_jax.sampling.scheduled.cost import Account
from passk_jax.sampling.scheduled.device import Decoder, StopWhen
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.sampling.scheduled.hand_over import OnEnded, gather
from passk_jax.sampling.scheduled.state import Arrays, Slots
from passk_jax.types import Prompts, Rollouts

_NO_LIMIT = 2**30
# Responses are handed over at most this often in a batch while others decode.
_HAND_OVERS = 16
# If the rows fit no smaller grid, try again when one _RETRY_PART-th of them has ended.
_RETRY_PART = 16


def decode(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    key: jax.Array,
    request: Request,
    account: Account,
    work: Work,
    size: Size,
    on_ended: OnEnded | None,
) -> Rollouts:
    """Decodes all rollouts of a batch; see :func:`passk_jax.sampling.sample`.

    ``params`` are the weights for decoding; ``work`` and ``size`` are a cell's.
    """
    decoder = Decoder(policy, account.pace.stride, params, request)
    shards = prompts.tokens.shape[0] // work.problems
    inputs = policy, params, prompts, key
    run = Decoding(decoder, account, inputs, shards, work, size)
    try:
        run.finish(on_ended)
    finally:
        if run.ahead is not None:
            run.ahead.stop()
    return run.arrays.state.record.rollouts(prompts, run.routing)


def first_ring(account: Account, work: Work, size: Size) -> int:
    """Returns the shortest first ring that has paid for its growth when it is full."""
    ring = grid.shortest_ring(work.response_tokens)
    while ring < work.response_tokens:
        longer = min(account.pace.times * ring, work.response_tokens)
        cost = cost_to_move(account, work, size, longer)
        if account.steps_until_paid(cost, size.total) <= ring:
            break
        ring = longer
    return ring


def cost_to_move(account: Account, work: Work, size: Size, ring: int) -> float:
    """Returns the seconds of a move to a grid of this size with rings this long."""
    return account.decision(2 * work.used_bytes(size, ring))


def gains(account: Account, work: Work, size: Size, limit: int) -> bool:
    """Returns whether the grid could shrink or the ring grow before decoding ends."""
    smaller = grid.smaller_sizes(work, size, part=account.pace.part)
    grows = first_ring(account, work, size) < work.response_tokens
    # The schedule itself costs about as much as a decision.
    first = account.steps_until_paid(2 * account.decision(), size.total)
    return bool(smaller or grows) and first < limit


class Decoding:
    """The state of one call, on the host and on the device.

    Attributes:
        size, smaller: the cell's present size, and the sizes that it may shrink to.
        look_below: the number of live rows at which to try smaller sizes.
        ring: the present length of the ring, in tokens.
        shards: the rollouts that decode and wait in each shard of the batch.
        row_steps: steps times rows so far, in all cells, live or not.
        arrays: the prompts that the rows read, and the device's state.
        seated: for each shard, the problems whose prompts are in the slots.
        window, ready: the prompts of the window, and for each shard their problems.
        routing: the experts of all prompts so far; ``None``: not recorded.
        ahead: compiles programs ahead in a thread; ``None``: no thread does.
    """

    def __init__(
        self,
        decoder: Decoder,
        account: Account,
        inputs: tuple[Policy, Params, Prompts, jax.Array],
        num_shards: int,
        work: Work,
        size: Size,
    ):
        R = decoder.request.num_rollouts // work.rollouts
        self.decoder, self.account, self.pace = decoder, account, account.pace
        self.prefill = functools.partial(device.prefill, *inputs)
        self.work, self.size = work, size
        self.smaller = grid.smaller_sizes(work, size, part=self.pace.part)
        self.ring = first_ring(account, work, size)
        self.num_cells = num_shards * R
        self.steps = self.row_steps = 0
        account.spent += account.decision()
        self.shards = [
            grid.seat(work, size, rollout_shards=R) for _ in range(num_shards)
        ]
        self.look_below = self.largest_smaller()
        self.window: Slots | None = None
        self.ready = [range(0)] * num_shards
        self.routing: jax.Array | None = None
        slots = self.run_prompts(np.zeros(num_shards, np.int32), size.slots)
        self.seated = [shard.problem.copy() for shard in self.shards]
        begun = device.begin(
            decoder,
            slots,
            self.joined('waiting'),
            num_prompts=num_shards * work.problems,
            rows=size.rows * R,
            ring=self.ring,
        )
        self.arrays = Arrays(slots, begun)
        self.ahead: Ahead | None = None
        if self.pace.ahead and is_possible():
            refills = size != work.everything
            self.ahead = Ahead(decoder, inputs, num_shards, refills)
        self.look_ahead()

    def finish(self, on_ended: OnEnded | None = None) -> None:
        """Decodes to the end and hands over responses as they end."""
        handed_over = np.zeros(self.arrays.state.record.lengths.shape, bool)
        cost = self.account.decision()
        every = max(1, self.decoder.request.limit // _HAND_OVERS)
        hand_over_at = self.step_after(cost, every) if on_ended else _NO_LIMIT
        while self.going_on:
            longest = self.advance(hand_over_at)
            if on_ended and (self.steps >= hand_over_at or not self.going_on):
                ended = [grid.ended(shard, self.work) for shard in self.shards]
                new = np.concatenate(ended) & ~handed_over
                if new.any():
                    on_ended(gather(self.arrays.state.record, new))
                    handed_over |= new
                # Even without new responses, the check interrupts the device.
                self.account.spent += cost
                hand_over_at = self.step_after(cost, every)
            self.decide(longest)
        logging.debug('sampled in %d row-steps', self.row_steps)

    def look_ahead(self) -> None:
        """Lets a thread compile what may come next, the likeliest first."""
        if (ahead := self.ahead) is None:
            return
        jobs: dict[Hashable, Callable[[Arrays], None]] = {}
        if self.unstarted.any():
            window = self.work.window(self.size)
            jobs['window', self.size, self.ring] = functools.partial(
                ahead.run_window, window
            )
        if ahead.refills and not all(shard.all_started for shard in self.shards):
            jobs['refill', self.size, self.ring] = ahead.refill
        if self.ring < self.work.response_tokens:
            ring = self.longer_ring()
            jobs[self.size, ring] = functools.partial(ahead.lengthen, ring)
        if self.smaller:
            size = self.smaller[0]
            jobs[size, self.ring] = functools.partial(ahead.shrink, size)
        ahead.plan(jobs, self.arrays)

    def claim(self, *change: Hashable) -> None:
        """Waits for the programs of a change that the thread compiles now."""
        if self.ahead is not None:
            self.ahead.claim(*change)

    def advance(self, until: int) -> int:
        """Decodes until a decision is due; returns the longest live row's length."""
        look_below = self.look_below
        paid_at = self.step_after(self.cost_to_shrink())
        if self.smaller and paid_at > self.steps:
            look_below, until = 0, min(until, paid_at)
        stop = StopWhen(np.int32(look_below), self.unstarted, np.int32(until))
        arrays = self.arrays
        arrays.state, report = device.advance(
            self.decoder, arrays.slots, arrays.state, stop
        )
        report = jax.device_get(report)
        new_steps = int(report['steps']) - self.steps
        self.steps += new_steps
        self.row_steps += new_steps * self.size.total * self.num_cells
        self.account.decoded += new_steps * self.account.step(self.size.total)
        waiting = np.array(report['waiting'])
        rollout = report['rollout'].reshape(*waiting.shape[:2], -1)
        parts = (np.split(x, len(self.shards)) for x in (rollout, waiting))
        for shard, *arrays in zip(self.shards, *parts, strict=True):
            shard.rollout, shard.waiting = arrays
        return int(report['longest'])

    def decide(self, longest: int) -> None:
        """Gives empty slots work; else may shrink the grid and lengthen the ring."""
        pairs = list(zip(self.shards, self.ready, strict=True))
        if any(
            x.empty.size and x.unstarted and x.unstarted[0] not in ready
            for x, ready in pairs
        ):
            self.run_window()
            pairs = list(zip(self.shards, self.ready, strict=True))
        assignments = [grid.give_work(x, self.work, ready) for x, ready in pairs]
        if any(assignments):
            self.claim('refill', self.size, self.ring)
            self.seat()
            self.arrays.settle(waiting=self.joined('waiting'))
            return
        outstanding = self.outstanding
        all_started = all(shard.all_started for shard in self.shards)
        before, cost = (self.size, self.ring), self.cost_to_shrink()
        paid = self.step_after(cost) <= self.steps
        if 0 < outstanding <= self.look_below and all_started and paid:
            if self.shrink():
                self.account.spent += cost
                self.look_below = self.largest_smaller()
            else:
                self.look_below = outstanding - max(1, outstanding // _RETRY_PART)
        room = self.ring - self.pace.stride + 1
        if longest > room and self.ring < self.work.response_tokens:
            self.grow()
        if (self.size, self.ring) != before:
            self.look_ahead()

    def step_after(self, cost: float, least: int = 0) -> int:
        """Returns the step that has paid for a cost, at least ``least`` steps ahead."""
        steps = self.account.steps_until_paid(cost, self.size.total)
        return self.steps + max(least, steps)

    def cost_to_shrink(self) -> float:
        """Returns the seconds of a move to the next smaller size; 0 without one."""
        if not self.smaller:
            return 0.0
        return cost_to_move(self.account, self.work, self.smaller[0], self.ring)

    @property
    def going_on(self) -> bool:
        """Whether some rollout has not ended."""
        return bool(self.outstanding or self.unstarted.any())

    @property
    def outstanding(self) -> int:
        """Unfinished rollouts in the slots of the fullest cell."""
        return max(shard.outstanding for shard in self.shards)

    @property
    def unstarted(self) -> np.ndarray:
        """``[shards]`` bool: whether some problem has never been in a slot."""
        return np.array([bool(shard.unstarted) for shard in self.shards])

    def largest_smaller(self) -> int:
        """Returns the rows of the next smaller size; 0 without one."""
        return self.smaller[0].total if self.smaller else 0

    def joined(self, name: str) -> np.ndarray:
        """Concatenates an array of all shards."""
        parts = [getattr(shard, name) for shard in self.shards]
        return np.concatenate(parts).astype(np.int32)

    def run_window(self) -> None:
        """Runs the prompts of the problems that get the next slots."""
        self.claim('window', self.size, self.ring)
        count, last = self.work.window(self.size), self.work.problems
        starts = [min((x.unstarted or [last])[0], last - count) for x in self.shards]
        # Free the old window first.
        self.window = None
        self.window = self.run_prompts(np.array(starts, np.int32), count)
        self.ready = [range(start, start + count) for start in starts]

    def run_prompts(self, first: np.ndarray, count: int) -> Slots:
        """Runs ``count`` prompts of each shard, from these problems on."""
        if count == self.work.problems:
            slots = self.prefill()
            self.routing = slots.prefix.routing
            return slots
        slots = self.prefill(first, count=count)
        if (routing := slots.prefix.routing) is not None:
            if self.routing is None:
                P = len(first) * self.work.problems
                self.routing = state.zeros_like(routing, size=P)
            self.routing = state.put(self.routing, routing, slots.problem)
        return slots

    def seat(self) -> None:
        """Makes the slots hold the prompts of their problems."""
        size, width = len(self.shards[0].problem), len(self.ready[0])
        places = np.full((len(self.shards), width), size)
        sources = []
        for i, (shard, old) in enumerate(zip(self.shards, self.seated, strict=True)):
            source = np.zeros(size, np.int32)
            for slot, problem in enumerate(shard.problem):
                if problem in old:
                    # Prefer the slot where the prompt is already.
                    stays = slot < len(old) and old[slot] == problem
                    source[slot] = slot if stays else np.argmax(old == problem)
                elif problem >= 0:
                    source[slot] = min(slot, len(old) - 1)
                    places[i, problem - self.ready[i].start] = slot
            sources.append(source)
        if size != len(self.seated[0]) or (np.array(sources) != np.arange(size)).any():
            self.arrays.take_slots(np.concatenate(sources))
        if (places < size).any():
            places = places.reshape(-1).astype(np.int32)
            self.arrays.slots = state.put(self.arrays.slots, self.window, places)
        self.seated = [shard.problem.copy() for shard in self.shards]
        if not self.unstarted.any():
            self.window = None

    def shrink(self) -> bool:
        """Moves the rows into the smallest grid that holds them, if one does."""
        for i, size in reversed(list(enumerate(self.smaller))):
            packed = [grid.pack(shard, size) for shard in self.shards]
            fitting = [pair for pair in packed if pair is not None]
            if len(fitting) < len(packed):
                continue
            self.shards = [shard for shard, _ in fitting]
            self.claim(size, self.ring)
            self.size, self.smaller = size, self.smaller[i + 1 :]
            self.seat()
            source = np.concatenate([source for _, source in fitting])
            source = source.astype(np.int32).reshape(len(source), -1)
            rollout = self.joined('rollout').reshape(source.shape)
            self.arrays.move(source, rollout, self.joined('waiting'))
            return True
        return False

    def longer_ring(self) -> int:
        """Returns how many tokens the next ring holds."""
        return min(self.pace.times * self.ring, self.work.response_tokens)

    def grow(self) -> None:
        """Lengthens the ring."""
        ring = self.longer_ring()
        self.claim(self.size, ring)
        self.account.spent += cost_to_move(self.account, self.work, self.size, ring)
        # If all rows began together, this is 0, and ``None`` copies faster.
        oldest = np.int32(jax.device_get(self.arrays.state.index) % self.ring) or None
        self.arrays.lengthen(oldest, ring)
        self.ring = ring

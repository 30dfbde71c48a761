"""The host's part of scheduled sampling: what is decided between two programs.

:func:`decode` runs the prompts and then, until all rollouts have ended: the device
decodes (device.py), the host reads who has ended, hands that over, and gives empty
slots work, moves the rows into a smaller grid, or makes the ring longer.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import logging

from passk_jax.models.attention import KeyValues
from passk_jax.models.policy import Params, Policy
from passk_jax.sampling.plain_loop import Request
from passk_jax.sampling.scheduled import device, grid, state
from passk_jax.sampling.scheduled.device import Static, StopWhen
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.sampling.scheduled.hand_over import OnEnded, gather
from passk_jax.sampling.scheduled.state import Slots, State
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


def decode(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    key: jax.Array,
    request: Request,
    work: Work,
    size: Size,
    on_ended: OnEnded | None,
) -> Rollouts:
    """Decodes all rollouts of a batch.

    Args:
        policy, params, prompts, key: as :func:`passk_jax.sampling.sample` has them.
        request: what is asked of every response.
        work: of a cell.
        size: of the grid to begin with.
        on_ended: is given every response once.

    Returns:
        The rollouts, without their prompts.
    """
    pace = _PACE.get(jax.default_backend(), _PACE_OF_ACCELERATORS)
    static = Static(
        policy, request.greedy, request.truncate, request.limit, pace.stride
    )
    # The few numbers of a decision are meant to cross, in a guarded loop too.
    with jax.transfer_guard_host_to_device('allow'):
        params, problems = device.prefill(policy, params, prompts, key)
        weights = (params, request.options, request.stop_tokens)
        N = request.num_rollouts
        run = Decoding(static, pace, weights, problems, work, size, N)
        run.finish(on_ended)
    return run.state.rollouts


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
        weights: device.Weights,
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
        self.state: State = device.begin(
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
        self.state, report = device.advance(
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
            self.state = state.refill(self.state, self.joined('waiting'))
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
        self.slots = state.take_slots(self.problems, self.joined('problem'))

    def shrink(self) -> bool:
        """Moves the rows into the smallest grid that holds them, if one does."""
        for i, size in reversed(list(enumerate(self.smaller))):
            packed = [grid.pack(shard, size) for shard in self.shards]
            if None in packed:
                continue
            self.shards = [shard for shard, _ in packed]
            self.size, self.smaller = size, self.smaller[i + 1 :]
            self.seat()
            self.move([source for _, source in packed])
            return True
        return False

    def grow(self) -> None:
        """Makes the ring longer."""
        ring = grid.next_ring(
            self.ring, self.work.response_tokens, times=self.pace.times
        )
        # 0 where all rows began together.
        oldest = np.int32(jax.device_get(self.state.index) % self.ring) or None
        self.replace_layers(functools.partial(state.lengthen, oldest=oldest, ring=ring))
        # What was written ends where the old ring did.
        self.settle(index=np.int32(self.ring))
        self.ring = ring

    def move(self, sources: list[np.ndarray]) -> None:
        """Moves the rows of every shard."""
        source = np.concatenate(sources).astype(np.int32)
        source = source.reshape(len(source), -1)
        self.replace_layers(functools.partial(state.move_cache, source=source))
        self.settle(
            rollout=self.joined('rollout').reshape(source.shape),
            position=state.move_rows(self.state.position, source),
            last=state.move_rows(self.state.last, source),
            waiting=self.joined('waiting'),
        )

    def replace_layers(self, fn: Callable[[KeyValues], KeyValues]) -> None:
        """Puts other layers of the cache in place, of which memory holds one twice."""
        layers = list(self.state.layers)
        self.state = dataclasses.replace(self.state, layers=())
        moved = []
        while layers:
            moved.append(fn(layers.pop(0)))
        self.state = dataclasses.replace(self.state, layers=tuple(moved))

    def settle(self, **changes: Any) -> None:
        """Brings what the host has changed to where the next program finds it."""
        self.state = state.settle(dataclasses.replace(self.state, **changes))

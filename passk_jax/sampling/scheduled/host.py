"""The host's part of scheduled sampling: decisions between two device programs.

:func:`decode` runs the prompts. Then, until all rollouts have ended, the device decodes
(device.py), and the host hands over the responses that have ended. It may also give
empty slots work, move the rows into a smaller grid, or lengthen the ring.
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
from passk_jax.sampling.scheduled.device import Decoder, StopWhen
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.sampling.scheduled.hand_over import OnEnded, gather
from passk_jax.sampling.scheduled.state import Slots, State
from passk_jax.types import Prompts, Rollouts

_NO_LIMIT = 2**30


@dataclasses.dataclass(frozen=True)
class Pace:
    """How often the host decides, and how much each decision changes.

    Attributes:
        stride: steps between two checks whether to go on.
        part: the fraction of its rows that the grid shrinks to.
        times: how many times longer the next ring is.
    """

    stride: int
    part: float
    times: int


# An accelerator pays for each check with a message to its host, and for each program
# with up to minutes of compilation. An idle row costs it little, because a step reads
# all weights anyway.
_PACE = {'cpu': Pace(stride=1, part=2 / 3, times=2)}
_PACE_OF_ACCELERATORS = Pace(stride=8, part=1 / 4, times=4)
# How often ended responses are handed over while others go on.
_HAND_OVERS = 16
# If the rows fit no smaller grid, try again when one _RETRY_PART-th of them has ended.
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
    """Decodes all rollouts of a batch; returns them without their prompts.

    Args:
        policy, params, prompts, key, on_ended: see :func:`passk_jax.sampling.sample`.
        request: the checked settings.
        work: a cell's work.
        size: the cell's size to start with.
    """
    pace = _PACE.get(jax.default_backend(), _PACE_OF_ACCELERATORS)
    # Allow a decision's few numbers to reach the device from a guarded training loop.
    with jax.transfer_guard_host_to_device('allow'):
        params, problems = device.prefill(policy, params, prompts, key)
        decoder = Decoder(policy, pace.stride, params, request)
        run = Decoding(decoder, pace, problems, work, size)
        run.finish(on_ended)
    return run.state.rollouts


class Decoding:
    """The state of one call: what the host knows, and the device's arrays.

    Attributes:
        size: the cell's size now.
        smaller: the sizes that it may shrink to.
        look_below: the number of live rows at which to try smaller sizes.
        ring: tokens that the cache has room for now.
        shards: what each shard of the batch decodes where.
        row_steps: rows decoded so far in all cells, live or not.
        slots: the prompts that the rows read.
        state: the device's state.
    """

    def __init__(
        self, decoder: Decoder, pace: Pace, problems: Slots, work: Work, size: Size
    ):
        P = problems.problem.shape[0]
        R = decoder.request.num_rollouts // work.rollouts
        self.decoder, self.pace = decoder, pace
        self.problems, self.work, self.size = problems, work, size
        self.smaller = grid.smaller_sizes(work, size, part=pace.part)
        self.ring = grid.first_ring(work.response_tokens)
        batch_shards = P // work.problems
        self.num_cells = batch_shards * R
        self.steps = self.row_steps = 0
        self.shards = [
            grid.seat(work, size, rollout_shards=R) for _ in range(batch_shards)
        ]
        self.look_below = self.largest_smaller()
        self.slots = problems
        if size.slots < work.problems:
            self.seat()
        self.state: State = device.begin(
            decoder,
            self.slots,
            self.joined('waiting'),
            num_prompts=P,
            rows=size.rows * R,
            ring=self.ring,
        )

    def finish(self, on_ended: OnEnded | None = None) -> None:
        """Decodes to the end and hands over responses as they end."""
        limit = self.decoder.request.limit
        steps = max(1, limit // _HAND_OVERS) if on_ended else _NO_LIMIT
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
        """Decodes until there is a decision; returns the longest live length."""
        outstanding, until = np.int32(self.look_below), np.int32(self.steps + steps)
        stop = StopWhen(outstanding, self.unstarted, until)
        self.state, report = device.advance(self.decoder, self.slots, self.state, stop)
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
        """Gives empty slots work, shrinks the grid or lengthens the ring, if useful."""
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
        """Unfinished rollouts in the slots of the fullest cell."""
        return max(shard.outstanding for shard in self.shards)

    @property
    def unstarted(self) -> np.ndarray:
        """``[shards]`` bool: whether some problem has never been in a slot."""
        return np.array([bool(shard.unstarted) for shard in self.shards])

    def largest_smaller(self) -> int:
        """Rows of the next smaller size; 0 if there is none."""
        return self.smaller[0].total if self.smaller else 0

    def joined(self, name: str) -> np.ndarray:
        """Concatenates an array of all shards."""
        parts = [getattr(shard, name) for shard in self.shards]
        return np.concatenate(parts).astype(np.int32)

    def seat(self) -> None:
        """Copies the prompts of the slots' problems into the slots."""
        # Free the old copies first.
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
        """Lengthens the ring."""
        longest = self.work.response_tokens
        ring = grid.next_ring(self.ring, longest, times=self.pace.times)
        # 0 if all rows began together.
        oldest = np.int32(jax.device_get(self.state.index) % self.ring) or None
        self.replace_layers(functools.partial(state.lengthen, oldest=oldest, ring=ring))
        # Continue writing where the old ring ended.
        self.settle(index=np.int32(self.ring))
        self.ring = ring

    def move(self, sources: list[np.ndarray]) -> None:
        """Moves the rows of every shard; ``sources`` as from ``grid.pack``."""
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
        """Replaces the cache layer by layer, so that only one layer is held twice."""
        layers = list(self.state.layers)
        self.state = dataclasses.replace(self.state, layers=())
        moved = []
        while layers:
            moved.append(fn(layers.pop(0)))
        self.state = dataclasses.replace(self.state, layers=tuple(moved))

    def settle(self, **changes: Any) -> None:
        """Replaces arrays of the state and places it on the devices."""
        self.state = state.settle(dataclasses.replace(self.state, **changes))

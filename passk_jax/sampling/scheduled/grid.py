"""Decides which rollouts are decoded together, by host arithmetic alone.

Rollouts are decoded in a grid of G *slots* with K *rows* each. A slot holds one
problem's prompt, its rows hold rollouts of that problem, and a range of further
rollouts waits to take these rows. The rows' keys and values lie in a *ring* (see
:class:`passk_jax.models.transformer.Cache`) that grows with the longest response. A
*cell* is the part of the grid on one shard of the batch and one shard of the rollouts.
All cells have the same size; every number here is of one cell.

Of the problems without a slot, only the next few have run: a *window* of prompts, which
get the next empty slots. So memory does not grow with the number of problems.

1. :func:`first_size` finds the grid that fits into memory and needs the fewest steps.
2. :func:`smaller_sizes` lists the sizes that the grid shrinks to as rollouts end.
3. :func:`give_work` gives an empty slot a new problem or half of another slot's queue.
4. :func:`pack` moves the live rows together into a smaller grid.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from passk_jax.errors import InputError

# The cost of a row's step without attention, in tokens attended to: a rough measurement
# on policies of 3 million to 7 billion parameters. It only chooses between layouts with
# the same number of rows, whose costs differ little near the best one.
_ROW_TOKENS = 1024
# Fewer rows than this cost no less.
_MIN_ROWS = 8
# How long the rows of a slot wait for its last rollout, in response lengths, if these
# are log-normal.
_LAST = 1.5
# A size with more slots may need up to this many times the fewest steps.
_MOST_STEPS = 1.05
# The first ring has one _FIRST_RING-th of the longest one's tokens, but at least
# _LEAST_RING.
_FIRST_RING = 16
_LEAST_RING = 32
# A window has 1 / _WINDOW as many prompts as there are slots.
_WINDOW = 4


@dataclasses.dataclass(frozen=True)
class Size:
    """The size of a cell: ``slots`` prompts with ``rows`` rollouts each."""

    slots: int
    rows: int

    @property
    def total(self) -> int:
        """The number of rows."""
        return self.slots * self.rows


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of a cell.

    Attributes:
        problems: the cell's share of P.
        rollouts: the cell's share of N.
        prompt_tokens: S.
        response_tokens: tokens in the longest ring, at least T - 1.
        token_bytes: bytes of one token's keys and values in all layers.
        num_layers: L.
    """

    problems: int
    rollouts: int
    prompt_tokens: int
    response_tokens: int
    token_bytes: int
    num_layers: int

    @property
    def everything(self) -> Size:
        """The size that decodes all rollouts at the same time."""
        return Size(self.problems, self.rollouts)

    def cache_bytes(self, size: Size) -> int:
        """Counts the bytes of all keys and values: slots, window, responses.

        Counts one layer's responses twice, because two copies exist while rows move.
        """
        prompts = size.slots + self.window(size)
        return prompts * self.prompt_bytes + size.total * self.row_bytes

    def window(self, size: Size) -> int:
        """Returns the number of prompts in a window; 0 if all have a slot."""
        waiting = self.problems - size.slots
        return min(-(-size.slots // _WINDOW), max(0, waiting))

    @property
    def least_bytes(self) -> int:
        """Bytes of the keys and values if one response decodes at a time."""
        return self.cache_bytes(Size(1, 1))

    @property
    def prompt_bytes(self) -> int:
        """Bytes of the keys and values of a prompt."""
        return self.prompt_tokens * self.token_bytes

    def used_bytes(self, size: Size, ring: int) -> int:
        """Counts the bytes of a grid's prompts and rings, which a step reads."""
        tokens = size.slots * self.prompt_tokens + size.total * ring
        return tokens * self.token_bytes

    def steps(self, size: Size) -> float:
        """Estimates the steps for all rollouts, in response lengths.

        The K rows of a slot decode its N rollouts in N / K lengths. Then they wait for
        the last rollout.
        """
        return self.problems * (self.rollouts + _LAST * size.rows) / size.total

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the longest ring, with one layer counted twice."""
        layers = self.num_layers + 1
        return self.response_tokens * self.token_bytes * layers // self.num_layers


def first_size(work: Work, *, max_bytes: int) -> Size:
    """Fits the size with the fewest steps into ``max_bytes`` of a device; 0: no limit.

    Raises:
        ValueError: not even one row fits.
    """
    if not max_bytes or work.cache_bytes(work.everything) <= max_bytes:
        return work.everything
    if work.least_bytes > max_bytes:
        raise InputError(
            f'max_cache_bytes={max_bytes} is too small: the least, one response, takes '
            f'{work.least_bytes} bytes on each device; 0 means no limit'
        )
    # Rows that share a prompt read it once.
    shared = min(_shared_rows(work, work.rollouts), work.rollouts)
    fitting = []
    for slots in range(1, work.problems + 1):
        spare = max_bytes - work.cache_bytes(Size(slots, 0))
        rows = min(spare // (slots * work.row_bytes), work.rollouts)
        if rows >= 1:
            fitting.append(Size(slots, rows))
    enough = [size for size in fitting if size.rows >= shared]
    if not enough:
        return max(fitting, key=lambda size: size.total)
    # Whole rows may leave memory free that fewer slots use. Otherwise prefer the most
    # slots, because each has its own queue.
    most = _MOST_STEPS * min(map(work.steps, enough))
    return next(size for size in reversed(enough) if work.steps(size) <= most)


def _shared_rows(work: Work, live: float) -> int:
    """Returns the rows K per slot that cost least, by prompts reread and empty rows.

    With ``live`` rollouts of a problem in slots of K rows, a step costs
    ``(1 + prompt / (row K)) (1 + K / (2 live))``, where ``row`` is a row's own cost.
    The K that minimizes this is rounded down to a power of two.
    """
    row_bytes = work.response_tokens + _ROW_TOKENS
    best = math.sqrt(2 * live * work.prompt_tokens / row_bytes)
    return 1 << max(0, math.floor(math.log2(max(best, 1))))


def smaller_sizes(work: Work, first: Size, *, part: float) -> tuple[Size, ...]:
    """Lists the sizes to shrink to; each has about ``part`` of the rows before it.

    None needs more memory than ``first``.
    """
    sizes, last, rows = [], first, first.total
    # While rows move, the prompts of both grids exist.
    room = work.cache_bytes(first) - first.slots * work.prompt_bytes
    while (rows := int(rows * part)) >= _MIN_ROWS:
        for size in _sizes_of(work, rows):
            needed = size.slots * work.prompt_bytes + size.total * work.row_bytes
            if needed <= room and size.total < last.total:
                sizes.append(size)
                last = size
                break
    return tuple(sizes)


def _sizes_of(work: Work, rows: int) -> Iterator[Size]:
    """Yields sizes with at least this many rows: fastest first, fewest slots last."""
    most = min(rows, work.rollouts)
    shared = _shared_rows(work, rows / work.problems)
    while shared < most:
        yield Size(-(-rows // shared), shared)
        shared *= 2
    yield Size(-(-rows // most), most)


def shortest_ring(response_tokens: int) -> int:
    """Returns the length of the shortest first ring, in tokens."""
    ring = max(_LEAST_RING, response_tokens // _FIRST_RING)
    return min(-(-ring // _LEAST_RING) * _LEAST_RING, response_tokens)


@dataclasses.dataclass
class Shard:
    """The rollouts that decode and wait in one shard of the batch.

    Attributes:
        problem: ``[G]`` the problem in each slot; -1: none.
        rollout: ``[G, R, K]`` the rollout in each row; -1: none.
        waiting: ``[G, R, 2]`` the range of rollouts that come next.
        unstarted: problems that no slot has held yet.
    """

    problem: np.ndarray
    rollout: np.ndarray
    waiting: np.ndarray
    unstarted: list[int]

    @property
    def num_waiting(self) -> np.ndarray:
        """``[G, R]`` the number of rollouts that wait."""
        return self.waiting[..., 1] - self.waiting[..., 0]

    @property
    def empty(self) -> np.ndarray:
        """The slots that neither decode nor have rollouts waiting."""
        idle = (self.rollout < 0).all(axis=(1, 2)) & ~self.num_waiting.any(axis=1)
        return np.flatnonzero(idle)

    @property
    def outstanding(self) -> int:
        """Unfinished rollouts in the slots of the fullest cell."""
        live = (self.rollout >= 0).sum(axis=(0, 2))
        return int((live + self.num_waiting.sum(axis=0)).max())

    @property
    def all_started(self) -> bool:
        """Whether every rollout has started."""
        return not self.unstarted and not self.num_waiting.any()


def seat(work: Work, size: Size, *, rollout_shards: int) -> Shard:
    """Puts the first problems in the slots, with all their rollouts waiting."""
    shard = Shard(
        problem=np.zeros(size.slots, int),
        rollout=np.full((size.slots, rollout_shards, size.rows), -1),
        waiting=np.zeros((size.slots, rollout_shards, 2), int),
        unstarted=list(range(work.problems)),
    )
    give_work(shard, work)
    return shard


def give_work(shard: Shard, work: Work, ready: range | None = None) -> bool:
    """Gives empty slots a problem or half of a queue; returns whether any got work.

    Only the prompts of problems in ``ready`` have run; ``None``: all have. Queues are
    halved only if no problem gets a slot.
    """
    assigned = False
    for slot in shard.empty:
        if not shard.unstarted or (
            ready is not None and shard.unstarted[0] not in ready
        ):
            break
        shard.problem[slot] = shard.unstarted.pop(0)
        starts = np.arange(shard.rollout.shape[1]) * work.rollouts
        shard.waiting[slot] = np.stack([starts, starts + work.rollouts], axis=-1)
        assigned = True
    if assigned or shard.unstarted:
        return assigned
    for slot in shard.empty:
        counts = shard.num_waiting
        donor = int(counts.sum(axis=1).argmax())
        if not counts[donor].any():
            break
        middle = shard.waiting[donor, :, 1] - (counts[donor] + 1) // 2
        shard.problem[slot] = shard.problem[donor]
        shard.waiting[slot, :, 0] = middle
        shard.waiting[slot, :, 1] = shard.waiting[donor, :, 1]
        shard.waiting[donor, :, 1] = middle
        assigned = True
    return assigned


def ended(shard: Shard, work: Work) -> np.ndarray:
    """Marks the rollouts that have ended: ``[problems, R * rollouts]`` bool."""
    _, num_shards, _ = shard.rollout.shape
    unfinished = np.ones((work.problems, num_shards * work.rollouts), bool)
    unfinished[shard.unstarted] = False
    slot, _, _ = live = np.nonzero(shard.rollout >= 0)
    unfinished[shard.problem[slot], shard.rollout[live]] = False
    for problem, ranges in zip(shard.problem, shard.waiting, strict=True):
        for first, end in ranges:
            unfinished[problem, first:end] = False
    return unfinished


def pack(shard: Shard, size: Size) -> tuple[Shard, np.ndarray] | None:
    """Moves the live rows to a grid of another size; no rollout may be waiting.

    Returns:
        The new shard, and ``[G, R, K]`` where each new row was before: its old slot
        times the old K, plus its old row; -1: the row is empty. ``None`` if the live
        rows do not fit.
    """
    _, num_shards, old_rows = shard.rollout.shape
    problem = np.full(size.slots, -1)
    source = np.full((size.slots, num_shards, size.rows), -1)
    used = 0
    for p in np.unique(shard.problem):
        slots = np.flatnonzero(shard.problem == p)
        seats = []
        for r in range(num_shards):
            at, row = np.nonzero(shard.rollout[slots, r] >= 0)
            seats.append(slots[at] * old_rows + row)
        needed = -(-max(map(len, seats)) // size.rows)
        if used + needed > size.slots:
            return None
        problem[used : used + needed] = p
        for r, old in enumerate(seats):
            new = np.full(needed * size.rows, -1)
            new[: len(old)] = old
            source[used : used + needed, r] = new.reshape(needed, size.rows)
        used += needed
    slot, row = np.divmod(source, old_rows)
    shards = np.arange(num_shards)[:, None]
    rollout = np.where(source >= 0, shard.rollout[slot, shards, row], -1)
    nothing = np.zeros((size.slots, num_shards, 2), int)
    return Shard(problem, rollout, nothing, []), source

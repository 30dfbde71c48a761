"""Which rollouts are decoded together: sizes, and who sits where. Host arithmetic only.

Rollouts are decoded in a grid of G *slots* of K *rows*. A slot holds one problem's
prompt, and its rows are rollouts of it; each slot has a range of rollouts that are
waiting to take its rows. The rows' keys and values lie in a *ring* (see
:class:`passk_jax.models.transformer.Cache`) that grows with the longest response. Every
number here is of one *cell*: the part of the grid on one shard of the batch and of the
rollouts. All cells have one size.

1. :func:`first_size`: as many rows as the memory allows, of as many problems as can be.
2. :func:`smaller_sizes`: what the grid shrinks to as rollouts end.
3. :func:`give_work`: an empty slot takes half of what waits for another, or a problem.
4. :func:`pack`: the rows that live, moved together into a smaller grid.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from passk_jax.errors import InputError

# What a rollout's step costs besides attention, in tokens attended to: about what was
# seen of policies from 3 million to 7 billion parameters. It chooses between layouts of
# the same rows, which differ little around the best.
_ROW_TOKENS = 1024
# Fewer rows than this cost no less.
_MIN_ROWS = 8
SHORT_RESPONSE = 32
"""Tokens; a cache of so few is not worth making shorter."""
# The first ring is this part of the longest, and no smaller than this.
_FIRST_RING = 16
_LEAST_RING = 32


@dataclasses.dataclass(frozen=True)
class Size:
    """Of one cell: ``slots`` problems' prompts, with ``rows`` rollouts each."""

    slots: int
    rows: int

    @property
    def total(self) -> int:
        """Rollouts decoded at one time."""
        return self.slots * self.rows


@dataclasses.dataclass(frozen=True)
class Work:
    """What a cell has to do.

    Attributes:
        problems: P of the cell.
        rollouts: N of the cell.
        prompt_tokens: S.
        response_tokens: of the longest ring, at least T - 1.
        token_bytes: of the keys and values of one token in all layers.
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
        """All rollouts at one time."""
        return Size(self.problems, self.rollouts)

    def cache_bytes(self, size: Size) -> int:
        """Keys and values: of the prompts, of their copies in the slots, of responses.

        One layer's responses are counted twice: while rows move, they are there twice.
        """
        # All problems are their own slots.
        copies = 0 if size == self.everything else size.slots
        prompts = (self.problems + copies) * self.prompt_tokens * self.token_bytes
        return prompts + size.total * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Of one row of the longest ring."""
        layers = self.num_layers + 1
        return self.response_tokens * self.token_bytes * layers // self.num_layers


def first_size(work: Work, *, max_bytes: int) -> Size:
    """The size to begin with.

    Args:
        work: of a cell.
        max_bytes: for prompts and responses on a device; 0: no limit.

    Raises:
        ValueError: not even one row fits.
    """
    if not max_bytes or work.cache_bytes(work.everything) <= max_bytes:
        return work.everything
    if (least := work.cache_bytes(Size(1, 1))) > max_bytes:
        raise InputError(
            f'max_cache_bytes={max_bytes} is too small: the prompts and one response '
            f'a device take {least} bytes; 0 is no limit'
        )
    # A shared prompt is read once for its rows; but they wait for one another at its
    # end, unless they are few beside the rollouts that pass through them.
    shared = min(_shared_rows(work, work.rollouts), work.rollouts)
    fitting = [
        size
        for slots in range(1, work.problems + 1)
        for size in [_most_rows(work, slots, max_bytes)]
        if size.rows >= 1
    ]
    enough = [size for size in fitting if size.rows >= shared]
    # As many problems as can be: each has its own queue.
    return enough[-1] if enough else max(fitting, key=lambda size: size.total)


def _most_rows(work: Work, slots: int, max_bytes: int) -> Size:
    """The size of so many slots with the most rows that fit; perhaps none."""
    spare = max_bytes - work.cache_bytes(Size(slots, 0))
    rows = spare // (slots * work.row_bytes)
    return Size(slots, min(rows, work.rollouts))


def _shared_rows(work: Work, live: float) -> int:
    """Rows a slot, so that prompts read again and rows left empty cost the least.

    With ``live`` rollouts of a problem in slots of K rows a step costs
    ``(1 + prompt / (own K)) (1 + K / (2 live))``; this is its minimum, as a power of
    two.
    """
    own = work.response_tokens + _ROW_TOKENS
    best = math.sqrt(2 * live * work.prompt_tokens / own)
    return 1 << max(0, math.floor(math.log2(max(best, 1))))


def smaller_sizes(work: Work, first: Size, *, part: float) -> tuple[Size, ...]:
    """What the grid shrinks to, in no more memory: ``part`` of the rows, and so on."""
    sizes, last, rows = [], first, first.total
    while (rows := int(rows * part)) >= _MIN_ROWS:
        for size in _sizes_of(work, rows):
            fits = work.cache_bytes(size) <= work.cache_bytes(first)
            if fits and size.total < last.total:
                sizes.append(size)
                last = size
                break
    return tuple(sizes)


def _sizes_of(work: Work, rows: int) -> Iterator[Size]:
    """Sizes that hold so many rows, from the quickest to the one with fewest slots."""
    most = min(rows, work.rollouts)
    shared = _shared_rows(work, rows / work.problems)
    while shared < most:
        yield Size(-(-rows // shared), shared)
        shared *= 2
    yield Size(-(-rows // most), most)


def first_ring(response_tokens: int) -> int:
    """Tokens of the first ring; it is made longer when a response needs it."""
    ring = max(_LEAST_RING, response_tokens // _FIRST_RING)
    return min(-(-ring // _LEAST_RING) * _LEAST_RING, response_tokens)


def next_ring(ring: int, response_tokens: int, *, times: int) -> int:
    """Tokens of the ring after one of ``ring`` is full."""
    return min(times * ring, response_tokens)


@dataclasses.dataclass
class Shard:
    """Who sits where in one shard of the batch; R shards of the rollouts.

    Attributes:
        problem: ``[G]`` the problem in each slot.
        rollout: ``[G, R, K]`` the rollout in each row, -1: none.
        waiting: ``[G, R, 2]`` the range of rollouts that are next.
        unstarted: problems that no slot has had yet.
    """

    problem: np.ndarray
    rollout: np.ndarray
    waiting: np.ndarray
    unstarted: list[int]

    @property
    def num_waiting(self) -> np.ndarray:
        """``[G, R]``."""
        return self.waiting[..., 1] - self.waiting[..., 0]

    @property
    def outstanding(self) -> int:
        """Rollouts of the fullest cell that do not yet have all their tokens."""
        live = (self.rollout >= 0).sum(axis=(0, 2))
        return int((live + self.num_waiting.sum(axis=0)).max())

    @property
    def all_started(self) -> bool:
        """Whether nothing waits."""
        return not self.unstarted and not self.num_waiting.any()


def seat(work: Work, size: Size, *, rollout_shards: int) -> Shard:
    """The first problems, with all their rollouts waiting."""
    starts = np.arange(rollout_shards) * work.rollouts
    waiting = np.stack([starts, starts + work.rollouts], axis=-1)
    return Shard(
        problem=np.arange(size.slots),
        rollout=np.full((size.slots, rollout_shards, size.rows), -1),
        waiting=np.broadcast_to(waiting, (size.slots, *waiting.shape)).copy(),
        unstarted=list(range(size.slots, work.problems)),
    )


def give_work(shard: Shard, work: Work) -> bool:
    """Gives every empty slot a problem or half of another slot's waiting rollouts.

    Returns:
        Whether any was given.
    """
    num_shards = shard.rollout.shape[1]
    given = False
    empty = (shard.rollout < 0).all(axis=(1, 2)) & ~shard.num_waiting.any(axis=1)
    for slot in np.flatnonzero(empty):
        if shard.unstarted:
            shard.problem[slot] = shard.unstarted.pop(0)
            starts = np.arange(num_shards) * work.rollouts
            shard.waiting[slot] = np.stack([starts, starts + work.rollouts], axis=-1)
        else:
            counts = shard.num_waiting
            donor = int(counts.sum(axis=1).argmax())
            if not counts[donor].any():
                break
            middle = shard.waiting[donor, :, 1] - (counts[donor] + 1) // 2
            shard.problem[slot] = shard.problem[donor]
            shard.waiting[slot, :, 0] = middle
            shard.waiting[slot, :, 1] = shard.waiting[donor, :, 1]
            shard.waiting[donor, :, 1] = middle
        given = True
    return given


def ended(shard: Shard, work: Work) -> np.ndarray:
    """``[problems, R * rollouts]`` bool: who has all their tokens."""
    _, num_shards, _ = shard.rollout.shape
    found = np.ones((work.problems, num_shards * work.rollouts), bool)
    found[shard.unstarted] = False
    slot, _, _ = live = np.nonzero(shard.rollout >= 0)
    found[shard.problem[slot], shard.rollout[live]] = False
    for problem, ranges in zip(shard.problem, shard.waiting, strict=True):
        for first, end in ranges:
            found[problem, first:end] = False
    return found


def pack(shard: Shard, size: Size) -> tuple[Shard, np.ndarray] | None:
    """Seats the live rows in a grid of another size; nothing may be waiting.

    Returns:
        Who sits where then, and ``[G, R, K]`` where each row was before (its slot
        times the old K plus its row; -1: nowhere); or ``None`` if they do not fit.
    """
    _, num_shards, old_rows = shard.rollout.shape
    problem = np.zeros(size.slots, int)
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

"""Which problems a step takes, as rows of a table: parts by weight, each in its order.

The places of all steps form one sequence. Of every W places from a multiple of W on,
where W is the sum of the weights, a part of weight w has w. Within a part there are two
orders:

    epochs     a new permutation each time that all its problems are through
    chances    a draw without replacement at each step, likelier for some problems

Both are pure functions of the step, so a resumed run needs no state of them; chances
are the caller's.
"""

import bisect
import heapq
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from passk_jax.errors import InputError

if TYPE_CHECKING:
    import grain

# The last number of the address of each draw at a step.
_PLACES, _CHANCES = 1, 2

Item = TypeVar('Item', covariant=True)


class Indexed(Protocol[Item]):
    """A row of items of which each can be looked up."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Item: ...


class Order:
    """The rows of every step.

    Args:
        parts: name of a part -> its rows, ascending.
        weights: name of a part -> its weight, at least 1.
        num_prompts: P.
        seed: determines all orders; use it for nothing else.

    Raises:
        ValueError: a step may take more problems of a part than it has.
    """

    def __init__(
        self,
        parts: Mapping[str, np.ndarray],
        *,
        weights: Mapping[str, int],
        num_prompts: int,
        seed: Sequence[int],
    ):
        self._num_prompts, self._seed = num_prompts, tuple(seed)
        self._names, self._rows = [*weights], [parts[name] for name in weights]
        self._weights = [*weights.values()]
        self._shares = _places(self._weights)
        self._total = sum(self._weights)
        self._check()
        self._shuffled = [
            _shuffled(len(rows), self._address(name)).repeat()
            for name, rows in zip(self._names, self._rows, strict=True)
        ]
        # The first steps of each part's epochs, as far as they were asked for.
        self._epochs: list[list[int]] = [[0] for _ in self._names]

    def rows(self, step: int, chances: np.ndarray | None = None) -> np.ndarray:
        """``[P]`` the rows of a step, none twice.

        Args:
            step: at least 0.
            chances: a positive weight for each row; the rows of a part are drawn in
                proportion to it. ``None``: parts go through epochs.
        """
        part_orders = [
            self._of_epoch(part, step)
            if chances is None
            else self._by_chance(part, (*self._seed, step), chances)[
                : self._taken(part, step + 1) - self._taken(part, step)
            ]
            for part in range(len(self._names))
        ]
        rows = np.concatenate(part_orders)
        if chances is None and len(part_orders) == 1:
            return rows
        # Mini-batches stride over the places: in order, each might hold one part alone.
        rng = np.random.default_rng((*self._seed, step, _PLACES))
        return rng.permutation(rows)

    def others(
        self, step: int, *, seed: Sequence[int], chances: np.ndarray | None = None
    ) -> Iterator[int]:
        """Every row that the step does not take, once, in an order of the step.

        The parts take turns by their weights until they have no more.

        Args:
            step: at least 0.
            seed: determines the orders of all steps; use it for nothing else.
            chances: as for :meth:`rows`.
        """
        used_rows = set(self.rows(step, chances).tolist())
        address = (*seed, step)
        orders: list[Indexed[int]] = []
        for part, (name, rows) in enumerate(zip(self._names, self._rows, strict=True)):
            if chances is None:
                shuffled = _shuffled(len(rows), _of_part(address, name))
                orders.append(_Looked(rows, shuffled))
            else:
                orders.append(self._by_chance(part, address, chances))
        for row in _interleaved(orders, self._weights):
            if int(row) not in used_rows:
                yield int(row)

    def _of_epoch(self, part: int, step: int) -> np.ndarray:
        starts, rows = self._epochs[part], self._rows[part]
        # An epoch ends with the last step that it has enough problems for, so that no
        # step has a problem twice, whose rollouts would share their random keys.
        while (ends := self._end(part, starts[-1])) <= step:
            starts.append(ends)
        epoch = bisect.bisect_right(starts, step) - 1
        first, past = (
            self._taken(part, s) - self._taken(part, starts[epoch])
            for s in (step, step + 1)
        )
        # Grain reads an index past the end as one of a later epoch.
        places = range(epoch * len(rows) + first, epoch * len(rows) + past)
        order = self._shuffled[part]
        return rows[[_item(order, place) for place in places]]

    def _end(self, part: int, start: int) -> int:
        """The first step after an epoch that begins with ``start``."""
        most = self._taken(part, start) + len(self._rows[part])
        # A part gets its weight in each total of places.
        cycles = len(self._rows[part]) // self._weights[part] + 1
        longest = cycles * self._total // self._num_prompts + 2
        steps = range(start, start + longest)
        used = bisect.bisect_right(steps, most, key=lambda s: self._taken(part, s))
        return start + used - 1

    def _by_chance(
        self, part: int, address: tuple[int, ...], chances: np.ndarray
    ) -> np.ndarray:
        """All rows of a part; the first c of them are c draws without replacement.

        This is the method of P. S. Efraimidis and P. G. Spirakis, "Weighted random
        sampling with a reservoir", 2006, with logarithms of their keys.
        """
        rows = self._rows[part]
        address = _of_part((*address, _CHANCES), self._names[part])
        waits = np.random.default_rng(address).exponential(size=len(rows))
        return rows[np.argsort(waits / chances[rows], kind='stable')]

    def _taken(self, part: int, step: int) -> int:
        """How many places the part has in all steps before this one."""
        cycles, remainder = divmod(step * self._num_prompts, self._total)
        in_rest = bisect.bisect_left(self._shares[part], remainder)
        return cycles * self._weights[part] + in_rest

    def _address(self, name: str) -> tuple[int, ...]:
        return _of_part(self._seed, name)

    def _check(self) -> None:
        # Later steps begin at these places of the pattern again.
        period = self._total // math.gcd(self._total, self._num_prompts)
        starts = np.arange(period + 1) * self._num_prompts
        cycles, remainder = np.divmod(starts, self._total)
        for part, (name, rows) in enumerate(zip(self._names, self._rows, strict=True)):
            in_rest = np.searchsorted(self._shares[part], remainder)
            used = cycles * self._weights[part] + in_rest
            if (most := int(np.diff(used).max())) > len(rows):
                raise InputError(
                    f'part {name!r} has {len(rows)} problems, but with the weights '
                    f'{dict(zip(self._names, self._weights, strict=True))} a batch of '
                    f'{self._num_prompts} takes up to {most} of them'
                )


def part_of(category: str) -> str:
    """The part of a mixture that a category belongs to.

    >>> part_of('mazes/9x9')
    'mazes'
    """
    return category.partition('/')[0]


class _Looked:
    """Rows in a random-access order, each looked up when it is asked for.

    Iterating over Grain's own object would read ahead in threads.
    """

    def __init__(self, rows: np.ndarray, order: 'grain.MapDataset[int]'):
        self._rows, self._order = rows, order

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> int:
        return self._rows[_item(self._order, index)]


def _shuffled(count: int, address: Sequence[int]) -> 'grain.MapDataset[int]':
    # Grain takes seconds to import, and imports JAX; metrics need neither.
    import grain

    # Grain seeds its epochs with seed, seed + 1, ... Hashing the seed keeps its second
    # epoch from being the first of the next seed.
    (hashed,) = np.random.SeedSequence(address).generate_state(1)
    return grain.MapDataset.range(count).shuffle(seed=int(hashed))


def _item(order: 'grain.MapDataset[int]', index: int) -> int:
    item = order[index]
    # Grain's type allows for filters, which leave gaps.
    assert item is not None
    return int(item)


def _of_part(address: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The address of a part; a source without parts is one part without a name."""
    return (*address, zlib.crc32(name.encode())) if name else address


def _places(weights: Sequence[int]) -> list[list[int]]:
    """The places of each part among the first ``sum(weights)``, ascending.

    >>> _places([2, 1])
    [[0, 2], [1]]
    """
    parts = [[part] * weight for part, weight in enumerate(weights)]
    places: list[list[int]] = [[] for _ in weights]
    for place, part in enumerate(_interleaved(parts, weights)):
        places[part].append(place)
    return places


def _interleaved(
    orders: Sequence[Indexed[Item]], weights: Sequence[int]
) -> Iterator[Item]:
    """All items of all orders, merged so that an order of weight w has density w.

    >>> list(_interleaved(['aaaa', 'bb'], [2, 1]))
    ['a', 'b', 'a', 'a', 'b', 'a']
    """
    heads = [(0.5 / weights[j], j, 0) for j, order in enumerate(orders) if len(order)]
    heapq.heapify(heads)
    while heads:
        _, j, index = heads[0]
        yield orders[j][index]
        if index + 1 < len(orders[j]):
            heapq.heapreplace(heads, ((index + 1.5) / weights[j], j, index + 1))
        else:
            heapq.heappop(heads)

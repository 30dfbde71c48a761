"""The order in which steps take problems, as rows of a table.

A mixture has parts with weights, whose sum is W. The places of all steps form one
sequence. Of each W places from a multiple of W on, a part of weight w gets w. Within a
part there are two orders:

    epochs     a new permutation of all problems in each epoch
    chances    a weighted draw without replacement at each step

Both are pure functions of the step (and of the chances), so a resumed run needs no
iterator state.
"""

import bisect
import heapq
import math
import operator
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from passk_jax.errors import InputError

if TYPE_CHECKING:
    import grain

# The last number of each address that seeds a draw, by its purpose.
_PLACES, _CHANCES = 1, 2

Item = TypeVar('Item')


class Order:
    """The rows of every step.

    Args:
        parts: name of each part -> its rows, ascending.
        weights: name of each part -> its weight, at least 1.
        num_prompts: P.
        seed: seed of all orders; use it for nothing else.

    Raises:
        InputError: a step may need more problems of a part than it has.
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
            _shuffled(len(rows), _address_part(self._seed, name)).repeat()
            for name, rows in zip(self._names, self._rows, strict=True)
        ]
        # The first step of each part's epochs, computed as far as needed.
        self._epochs: list[list[int]] = [[0] for _ in self._names]

    def rows(self, step: int, chances: np.ndarray | None = None) -> np.ndarray:
        """Returns the distinct rows ``[P]`` of a step.

        Args:
            step: at least 0.
            chances: a positive weight for each row; a part draws its rows in proportion
                to it. ``None`` uses epochs.
        """
        part_orders = [
            self._draw_epoch(part, step)
            if chances is None
            else self._draw_by_chance(part, (*self._seed, step), chances)[
                : self._count_places(part, step + 1) - self._count_places(part, step)
            ]
            for part in range(len(self._names))
        ]
        rows = np.concatenate(part_orders)
        if chances is None and len(part_orders) == 1:
            return rows
        # Mini-batches take every U-th place: unshuffled, each might hold only one part.
        rng = np.random.default_rng((*self._seed, step, _PLACES))
        return rng.permutation(rows)

    def draw_others(
        self, step: int, *, seed: Sequence[int], chances: np.ndarray | None = None
    ) -> Iterator[int]:
        """Iterates over the rows that the step does not take, each once.

        The order is random and new for each step. The parts take turns by their weights
        until they are exhausted.

        Args:
            step: at least 0.
            seed: seed of the orders of all steps; use it for nothing else.
            chances: as for :meth:`rows`.
        """
        used_rows = set(self.rows(step, chances).tolist())
        address = (*seed, step)
        orders: list[Iterable[int]] = []
        for part, (name, rows) in enumerate(zip(self._names, self._rows, strict=True)):
            if chances is None:
                orders.append(_read(rows, _address_part(address, name)))
            else:
                orders.append(self._draw_by_chance(part, address, chances))
        for row in _interleaved(orders, self._weights):
            if int(row) not in used_rows:
                yield int(row)

    def _draw_epoch(self, part: int, step: int) -> np.ndarray:
        starts, rows = self._epochs[part], self._rows[part]
        # An epoch ends with the last step for which it has enough problems. Otherwise a
        # step could have a problem twice, and the rollouts would share random keys.
        while (ends := self._end(part, starts[-1])) <= step:
            starts.append(ends)
        epoch = bisect.bisect_right(starts, step) - 1
        first, past = (
            self._count_places(part, s) - self._count_places(part, starts[epoch])
            for s in (step, step + 1)
        )
        # Grain takes an index past the end from a later epoch.
        places = range(epoch * len(rows) + first, epoch * len(rows) + past)
        order = self._shuffled[part]
        return rows[[_item(order, place) for place in places]]

    def _end(self, part: int, start: int) -> int:
        """Returns the first step after the epoch that begins at step ``start``."""
        most = self._count_places(part, start) + len(self._rows[part])
        # A part gets ``weight`` of every ``total`` places.
        cycles = len(self._rows[part]) // self._weights[part] + 1
        longest = cycles * self._total // self._num_prompts + 2
        steps = range(start, start + longest)
        used = bisect.bisect_right(
            steps, most, key=lambda s: self._count_places(part, s)
        )
        return start + used - 1

    def _draw_by_chance(
        self, part: int, address: tuple[int, ...], chances: np.ndarray
    ) -> np.ndarray:
        """Orders a part's rows so that the first c are a weighted draw of c rows.

        The draw is without replacement, by P. S. Efraimidis and P. G. Spirakis,
        "Weighted random sampling with a reservoir", 2006, in logarithms of their keys.
        """
        rows = self._rows[part]
        address = _address_part((*address, _CHANCES), self._names[part])
        waits = np.random.default_rng(address).exponential(size=len(rows))
        return rows[np.argsort(waits / chances[rows], kind='stable')]

    def _count_places(self, part: int, step: int) -> int:
        """Counts the part's places in all steps before this one."""
        cycles, remainder = divmod(step * self._num_prompts, self._total)
        in_rest = bisect.bisect_left(self._shares[part], remainder)
        return cycles * self._weights[part] + in_rest

    def _check(self) -> None:
        # After ``period`` steps the pattern of places repeats.
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
    """Returns the part of a mixture that a category belongs to.

    >>> part_of('mazes/9x9')
    'mazes'
    """
    return category.partition('/')[0]


def _read(rows: np.ndarray, address: tuple[int, ...]) -> Iterator[int]:
    """Yields rows in a random order, each read when it is needed.

    Iterating over Grain's object would read ahead in threads.
    """
    order = _shuffled(len(rows), address)
    for index in range(len(rows)):
        yield rows[_item(order, index)]


def _shuffled(count: int, address: Sequence[int]) -> 'grain.MapDataset[int]':
    # Grain imports JAX and takes seconds to import; metrics need neither.
    import grain

    # Grain seeds its epochs with seed, seed + 1, ... Hashed seeds keep the second epoch
    # of one seed different from the first of the next seed.
    (hashed,) = np.random.SeedSequence(address).generate_state(1)
    return grain.MapDataset.range(count).shuffle(seed=int(hashed))


def _item(order: 'grain.MapDataset[int]', index: int) -> int:
    item = order[index]
    # Grain's type allows for filters, which may return None.
    assert item is not None
    return int(item)


def _address_part(address: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Returns the address of a part; without parts, the address is unchanged."""
    return (*address, zlib.crc32(name.encode())) if name else address


def _places(weights: Sequence[int]) -> list[list[int]]:
    """Returns each part's places among the first ``sum(weights)``, ascending.

    >>> _places([2, 1])
    [[0, 2], [1]]
    """
    parts = [[part] * weight for part, weight in enumerate(weights)]
    places: list[list[int]] = [[] for _ in weights]
    for place, part in enumerate(_interleaved(parts, weights)):
        places[part].append(place)
    return places


def _interleaved(
    orders: Sequence[Iterable[Item]], weights: Sequence[int]
) -> Iterator[Item]:
    """Merges the items of all orders, with density w for an order of weight w.

    >>> list(_interleaved(['aaaa', 'bb'], [2, 1]))
    ['a', 'b', 'a', 'a', 'b', 'a']
    """

    def place(order: Iterable[Item], weight: int) -> Iterator[tuple[float, Item]]:
        return (((i + 0.5) / weight, item) for i, item in enumerate(order))

    merged = heapq.merge(*map(place, orders, weights), key=operator.itemgetter(0))
    return (item for _, item in merged)

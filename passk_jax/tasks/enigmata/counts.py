"""Finds the cells that hold 1 in every 0/1 solution of given counts.

Cells that the same counts cover are interchangeable. They form a group with one number:
how many of them hold 1. The bounds of these numbers are narrowed as far as the counts
allow. Then a search tries values in increasing order, within a budget.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Values that a search tries before it gives up.
_BUDGET = 1000


class Undecided(Exception):  # noqa: N818 - an answer, not a failure
    """The search budget ran out before the search ended."""


class Count(NamedTuple):
    """The condition that ``total`` of the cells hold 1."""

    cells: tuple[int, ...]
    total: int


def forced_ones(counts: Sequence[Count]) -> set[int] | None:
    """Finds the cells that hold 1 in every solution; ``None`` if there is no solution.

    Raises ``Undecided`` if a search takes too long.
    """
    covers: dict[int, list[int]] = {}
    for place, count in enumerate(counts):
        for cell in count.cells:
            covers.setdefault(cell, []).append(place)
    alike: dict[tuple[int, ...], list[int]] = {}
    for cell, places in covers.items():
        alike.setdefault(tuple(places), []).append(cell)
    groups = list(alike.values())
    search = _Search(
        sizes=[len(cells) for cells in groups],
        counts=list(alike),
        totals=[count.total for count in counts],
    )
    full = search.always_full()
    return None if full is None else {cell for g in full for cell in groups[g]}


class _Search:
    """A search for numbers of the groups that add up to the totals.

    Args:
        sizes: the size of each group, the maximum of its number.
        counts: the counts that each group is part of.
        totals: the total of each count.
    """

    def __init__(
        self,
        *,
        sizes: Sequence[int],
        counts: Sequence[Sequence[int]],
        totals: Sequence[int],
    ):
        self._sizes = sizes
        self._counts = counts
        self._totals = totals
        self._groups: list[list[int]] = [[] for _ in totals]
        for group, places in enumerate(counts):
            for place in places:
                self._groups[place].append(group)
        self._low = [0] * len(sizes)
        self._high = list(sizes)
        # Earlier bounds, for undoing: (group, low, high).
        self._trail: list[tuple[int, int, int]] = []

    def always_full(self) -> list[int] | None:
        """Finds the groups that are full in every solution; ``None`` without one."""
        everywhere = range(len(self._totals))
        if not self._narrow(everywhere):
            return None
        solution = self._solution(everywhere)
        if solution is None:
            return None
        sizes = self._sizes
        candidates = {g for g, number in enumerate(solution) if number == sizes[g]}
        result = []
        while candidates:
            group = min(candidates)
            near = self._near(group)
            mark = len(self._trail)
            other = None
            if self._bound(group, 0, sizes[group] - 1):
                # Counts that are not connected to the group keep their solution.
                other = self._solution(near)
            self._take_back(mark)
            if other is None:
                result.append(group)
                candidates.remove(group)
            else:
                for neighbour in {
                    neighbour for place in near for neighbour in self._groups[place]
                }:
                    if other[neighbour] < sizes[neighbour]:
                        candidates.discard(neighbour)
        return result

    def _near(self, group: int) -> list[int]:
        """Returns the counts that are connected to a group, nearest first."""
        order = list(self._counts[group])
        seen = set(order)
        # The loop appends to this list.
        for place in order:
            for other in self._groups[place]:
                near = [
                    neighbour
                    for neighbour in self._counts[other]
                    if neighbour not in seen
                ]
                seen.update(near)
                order += near
        return order

    def _solution(self, order: Sequence[int]) -> list[int] | None:
        """Finds numbers for the groups of these counts; others get the lower bound."""
        mark = len(self._trail)
        # Length of the trail before a try, with its group and number.
        tried: list[tuple[int, int, int]] = []
        budget = _BUDGET
        while (group := self._open_group(order)) is not None:
            budget -= 1
            if not budget:
                raise Undecided
            number = self._low[group]
            tried.append((len(self._trail), group, number))
            consistent = self._bound(group, number, number)
            while not consistent and tried:
                length, group, number = tried.pop()
                self._take_back(length)
                consistent = self._bound(group, number + 1, self._high[group])
            if not consistent:
                return None
        solution = list(self._low)
        self._take_back(mark)
        return solution

    def _open_group(self, order: Iterable[int]) -> int | None:
        for place in order:
            for group in self._groups[place]:
                if self._low[group] < self._high[group]:
                    return group
        return None

    def _bound(self, group: int, low: int, high: int) -> bool:
        """Narrows a group's bounds and propagates; returns False if impossible."""
        return self._set(group, low, high) and self._narrow(self._counts[group])

    def _set(self, group: int, low: int, high: int) -> bool:
        before = self._low[group], self._high[group]
        self._trail.append((group, *before))
        self._low[group] = max(low, before[0])
        self._high[group] = min(high, before[1])
        return self._low[group] <= self._high[group]

    def _narrow(self, places: Iterable[int]) -> bool:
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            groups = self._groups[place]
            least = self._totals[place] - sum(self._high[group] for group in groups)
            most = self._totals[place] - sum(self._low[group] for group in groups)
            if least > 0 or most < 0:
                return False
            for group in groups:
                low, high = self._low[group], self._high[group]
                if low < high and (least + high > low or most + low < high):
                    if not self._set(group, least + high, most + low):
                        return False
                    waiting += self._counts[group]
        return True

    def _take_back(self, length: int) -> None:
        while len(self._trail) > length:
            group, low, high = self._trail.pop()
            self._low[group], self._high[group] = low, high

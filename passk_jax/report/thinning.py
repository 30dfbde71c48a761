"""Reduces the rows of a long run to the first, the last, and means of those between.

A chart needs only a few hundred points. So a report of 200,000 steps needs no more
memory than one of 2,000.
"""

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

MEAN_OF = 'mean_of'
"""The key with the number of rows that a row averages; absent: a single row."""

_OF_THE_LAST = ('step', 'stage')


class Thinned:
    """Rows of a growing file, which become means once there are too many.

    The result depends only on the rows, not on calls of :meth:`rows`. Each number is
    averaged over the rows that have it. ``step``, ``stage`` and values that are not
    numbers come from the last row of a mean.

    Args:
        most: the most rows between the first and the last, at least 2.
        merged: returns the part of a row that a mean includes.
    """

    def __init__(self, most: int, *, merged: Callable[[Row], Row] = dict):
        self._most, self._merged = most, merged
        self._size = 1
        self._first: Row | None = None
        self._last: Row | None = None
        self._means: list[_Mean] = []

    def add(self, row: Row) -> None:
        """Adds the next row."""
        if self._first is None:
            self._first = row
            return
        before, self._last = self._last, row
        if before is None:
            return
        if not self._means or self._means[-1].count >= self._size:
            self._means.append(_Mean(before))
        self._means[-1].add(self._merged(before))
        if len(self._means) > self._most:
            self._size *= 2
            for earlier, later in zip(
                self._means[::2], self._means[1::2], strict=False
            ):
                earlier.join(later)
            self._means = self._means[::2]

    def rows(self) -> list[Row]:
        """Returns the first row, the means and the last row, in order."""
        ends = [x for x in (self._first, self._last) if x is not None]
        return [*ends[:1], *(mean.row() for mean in self._means), *ends[1:]]


class _Mean:
    """The mean of consecutive rows; a single row stays unchanged."""

    def __init__(self, row: Row):
        self.count, self._row = 0, row
        self._last: Row = {}
        # Name -> sum and count.
        self._sums: dict[str, list[float]] = {}

    def add(self, row: Row) -> None:
        sums = self._sums
        for name, value in row.items():
            if not isinstance(value, int | float) or name in _OF_THE_LAST:
                continue
            if name in sums:
                sums[name][0] += value
                sums[name][1] += 1
            else:
                sums[name] = [value, 1]
        self.count, self._last = self.count + 1, row

    def join(self, later: '_Mean') -> None:
        """Adds the rows of a later mean."""
        for name, (value, count) in later._sums.items():
            before = self._sums.setdefault(name, [0.0, 0])
            before[0] += value
            before[1] += count
        self.count, self._last = self.count + later.count, later._last

    def row(self) -> Row:
        if self.count == 1:
            return self._row
        means = {name: value / count for name, (value, count) in self._sums.items()}
        return self._last | means | {MEAN_OF: self.count}

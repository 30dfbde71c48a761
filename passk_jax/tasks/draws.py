"""Random choices that depend only on their address, on any host.

They use raw Philox words. The methods of ``numpy.random.Generator`` may give other
numbers in another version of numpy.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

_WORDS = 64

Item = TypeVar('Item')


class Draws:
    """An endless stream of choices.

    Args:
        address: non-negative integers and texts that identify the stream. Different
            addresses of equal length give different streams.

    >>> Draws('example', 0).permutation(5) == Draws('example', 0).permutation(5)
    True
    """

    def __init__(self, *address: int | str):
        words = [
            int.from_bytes(part.encode('utf-8'), 'little')
            if isinstance(part, str)
            else part
            for part in address
        ]
        self._bits = np.random.Philox(np.random.SeedSequence(words))
        self._words: list[int] = []

    def below(self, limit: int) -> int:
        """Draws an integer in ``[0, limit)``; its bias is below ``limit / 2**64``."""
        if not self._words:
            self._words = self._bits.random_raw(_WORDS).tolist()
        return (self._words.pop() * limit) >> 64

    def between(self, low: int, high: int) -> int:
        """Draws an integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, numerator: int, denominator: int) -> bool:
        """Returns True with probability ``numerator / denominator``."""
        return self.below(denominator) < numerator

    def choice(self, items: Sequence[Item]) -> Item:
        """Draws one of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Iterable[Item]) -> list[Item]:
        """Returns the items in a random order."""
        result = list(items)
        for i in range(len(result) - 1, 0, -1):
            j = self.below(i + 1)
            result[i], result[j] = result[j], result[i]
        return result

    def permutation(self, length: int) -> list[int]:
        """Returns the numbers below ``length`` in a random order."""
        return self.shuffled(range(length))

    def sample(self, items: Iterable[Item], count: int) -> list[Item]:
        """Draws ``count`` different items in a random order."""
        return self.shuffled(items)[:count]

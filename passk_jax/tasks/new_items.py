"""Takes new items from an endless stream, for the splits of a task."""

from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from passk_jax.errors import InputError

Item = TypeVar('Item')
Key = TypeVar('Key', bound=Hashable)


def take_new(
    stream: Iterator[Item | None],
    *,
    count: int,
    seen: set[Key],
    key: Callable[[Item], Key],
    patience: tuple[int, int],
    description: str,
) -> list[Item]:
    """Takes the first ``count`` items of a stream whose keys are not in ``seen``.

    Args:
        stream: items, and ``None`` for each draw that does not qualify.
        count: number of items.
        seen: keys of earlier items; the keys of the new ones are added.
        key: items with the same key are equal.
        patience: (a, b): the stream counts as exhausted after ``max(a, b * found)``
            draws without a new item.
        description: a name of the items, for the message.

    Raises:
        ValueError: the stream is exhausted; the message says how many items were found.
    """
    items: list[Item] = []
    fruitless = 0
    while len(items) < count:
        item = next(stream)
        if item is not None and (its_key := key(item)) not in seen:
            seen.add(its_key)
            items.append(item)
            fruitless = 0
            continue
        fruitless += 1
        least, per_found = patience
        if fruitless >= max(least, per_found * len(items)):
            raise InputError(
                f'wanted {count} {description}, but only {len(items)} found; the last '
                f'{fruitless} draws gave no new one'
            )
    return items

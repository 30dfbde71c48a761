"""The first new items of an endless stream, as problems for the splits of a task."""

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
    wanted: str,
) -> list[Item]:
    """The first ``count`` items of a stream whose keys are not in ``seen``.

    Args:
        stream: of items, and ``None`` for each draw that does not qualify.
        count: number of items.
        seen: keys of items that count as old; those that are found join them.
        key: what makes two items the same.
        patience: draws without a new item after which the stream counts as exhausted:
            at least this many, or this many times the items found, if that is more.
        wanted: what they are, for the message.

    Raises:
        ValueError: the stream is exhausted; the message says how many items there were.
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
                f'wanted {count} {wanted}, but only {len(items)} found; the last '
                f'{fruitless} draws gave no new one'
            )
    return items

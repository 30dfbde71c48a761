"""Generates the problems of a set by split, from disjoint seeds.

The package makes item i of seed s from the number s + i, so item i + 1 of seed s is
item i of seed s + 1. Here every split of a seed takes its numbers from a range that no
other split or seed uses. A repeat of an earlier problem is skipped and another one
drawn. Test comes first, so its problems depend on no other split.
"""

import contextlib
import importlib
import itertools
import json
import types
import warnings
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks import records
from passk_jax.tasks.new_items import take_new
from passk_jax.tasks.reasoning_gym.table import SCORED, VERSION

# Splits in the order of generation.
SPLITS = ('test', 'validation', 'train')
# The size of a split's range, more than any split draws.
RANGE = 2**32

# Draws without a new problem after which a set counts as exhausted: at least, and per
# problem found.
_PATIENCE = (1000, 10)

Item = dict[str, Any]


def check_package() -> None:
    """Raises ValueError unless this version is installed; does not import it."""
    try:
        version = metadata.version('reasoning-gym')
    except metadata.PackageNotFoundError:
        version = None
    if version != VERSION:
        raise InputError(
            f'the task reasoning_gym needs reasoning-gym=={VERSION}, found {version}: '
            f'pip install reasoning-gym=={VERSION}'
        )


def load_package() -> types.ModuleType:
    """Imports the package; ValueError unless this version is installed."""
    check_package()
    with warnings.catch_warnings():
        # Python warns about escapes in its strings.
        warnings.simplefilter('ignore')
        return importlib.import_module('reasoning_gym')


def first_number(seed: int, split: str) -> int:
    """Returns the first number of a split.

    >>> first_number(0, 'validation') == RANGE
    True
    """
    return (seed * len(SPLITS) + SPLITS.index(split)) * RANGE


def generate_splits(
    name: str,
    config: Mapping[str, Any],
    *,
    counts: Mapping[str, int],
    seed: int,
    upto: str = 'train',
) -> dict[str, list[Item]]:
    """Generates the problems of a set.

    Args:
        name: one of ``table.ALLOWED``.
        config: fields of the set's configuration in the package; others keep their
            defaults.
        counts: split -> number of problems.
        seed: decides which problems are drawn.
        upto: the last split to make, in the order of ``SPLITS``.

    Returns:
        Split -> items as :func:`item_of` makes them.

    Raises:
        ValueError: the package is missing, rejects the configuration, or has fewer
            problems than requested.
    """
    seen: set[str] = set()
    splits = {}
    for split in SPLITS[: SPLITS.index(upto) + 1]:
        try:
            splits[split] = take_new(
                _stream(name, config, first_number(seed, split)),
                count=counts[split],
                seen=seen,
                key=lambda item: records.content_hash(item['question']),
                patience=_PATIENCE,
                description='that no other split has',
            )
        except InputError as e:
            raise InputError(f'{split} problems of {name}: {e}') from None
    return splits


def item_of(name: str, entry: Mapping[str, Any]) -> Item:
    """Returns the data of a problem that its verdict needs.

    Args:
        name: the set.
        entry: an item of the package, or a record of one.

    Returns:
        ``set``, ``question`` and ``answer``; in a set of ``table.SCORED`` also the part
        of ``metadata`` that its scorer reads, after a round trip through JSON.

    Raises:
        ValueError: a field is missing, is not text, or is not JSON.
    """
    item = {
        'set': name,
        'question': entry.get('question'),
        'answer': entry.get('answer'),
    }
    for field, value in item.items():
        if not isinstance(value, str) or not value.strip():
            raise InputError(f'field {field}={value!r} is not text')
    if name not in SCORED:
        return item
    metadata = entry['metadata']
    if missing := [key for key in SCORED[name] if key not in metadata]:
        raise InputError(f'field metadata lacks {missing[0]!r}, which {name} needs')
    scored = {key: metadata[key] for key in SCORED[name]}
    try:
        return item | {'metadata': json.loads(json.dumps(scored))}
    except TypeError as e:
        raise InputError(f'field metadata of {name}: {e}') from None


def _stream(name: str, config: Mapping[str, Any], start: int) -> Iterator[Item | None]:
    """Yields the problems from number ``start`` on; ``None`` if the answer is empty."""
    package = load_package()
    with _refusals(config):
        dataset = package.create_dataset(name, **config, seed=start, size=RANGE)
    for index in itertools.count():
        # The package does not check some values, which fail only here.
        with _refusals(config):
            item = dataset[index]
        yield item_of(name, item) if item['answer'].strip() else None


@contextlib.contextmanager
def _refusals(config: Mapping[str, Any]) -> Iterator[None]:
    """Converts any exception of the package to a ValueError that names the values."""
    try:
        yield
    except Exception as e:
        message = f'{type(e).__name__}: {e}'
        raise InputError(f'config {dict(config)!r} is refused: {message}') from e

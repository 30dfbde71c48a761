"""Calls the package's scorer on an answer; for worker processes only.

Nothing here bounds time or memory; the pool of :mod:`passk_jax.verifiers.pool` does.
This module imports the package at once, so that an answer's deadline does not include
the import.
"""

import contextlib
import functools
import importlib
import json
from collections.abc import Callable
from typing import Any

# The package is optional; problems.check_package runs before a worker starts.
with contextlib.suppress(ImportError):
    importlib.import_module('reasoning_gym')


def right(item: str, answer: str) -> bool:
    """Tells whether an answer gets the full score; partial credit does not count.

    Args:
        item: an item of ``problems.item_of``, as JSON.
        answer: the answer to judge.

    Raises:
        Exception: of any kind, from a scorer that cannot read the answer.
    """
    entry = json.loads(item)
    return bool(_scorer(entry['set'])(answer, entry) == 1.0)


@functools.cache
def _scorer(name: str) -> Callable[[str, dict[str, Any]], float]:
    import reasoning_gym

    # pyrefly: ignore[bad-return]  # The package annotates it without arguments.
    return reasoning_gym.get_score_answer_fn(name)

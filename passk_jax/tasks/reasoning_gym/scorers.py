"""Whether the package's own scorer gives an answer 1; for worker processes only.

Nothing here is bounded in time or memory: the pool of :mod:`passk_jax.verifiers.pool`
is. The package is imported on import, so that no answer's deadline pays for it.
"""

import contextlib
import functools
import importlib
import json
from collections.abc import Callable
from typing import Any

# It is optional, and missing before a worker starts: problems.check_package.
with contextlib.suppress(ImportError):
    importlib.import_module('reasoning_gym')


def right(item: str, answer: str) -> bool:
    """Whether an answer has the full score; no partial credit counts.

    Args:
        item: what ``problems`` makes, as JSON.
        answer: the one to judge.

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

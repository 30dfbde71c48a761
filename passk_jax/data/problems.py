"""Checks that what a source returned is a problem, before anything reads its parts."""

import json
from collections.abc import Mapping
from typing import Any

from passk_jax.errors import InputError
from passk_jax.types import Problem

# Ids are int32 in the batches.
_NUM_IDS = 2**31


def check_problem(problem: Any, source: str) -> None:
    """Checks the types of a problem's fields, and the range of its id.

    The data must be JSON values, because runs write them.

    Args:
        problem: what the source returned.
        source: the source's name, for messages.

    Raises:
        InputError: it is no problem.
    """
    if not (
        isinstance(problem, Problem)
        and isinstance(problem.id, int)
        and isinstance(problem.prompt, str)
        and isinstance(problem.data, Mapping)
        and isinstance(problem.category, str)
    ):
        raise InputError(
            f'{source} returned {problem!r}, not a Problem of an int, a text, a '
            'mapping and a text'
        )
    if not 0 <= problem.id < _NUM_IDS:
        raise InputError(
            f'{source} returned a problem with id={problem.id}, which must lie in '
            f'[0, {_NUM_IDS})'
        )
    try:
        json.dumps(dict(problem.data))
    except (TypeError, ValueError, RecursionError) as error:
        message = f'{source} returned a problem whose data are no JSON: {error}'
        raise InputError(message) from error

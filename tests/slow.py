"""Rows of tables that are left out of the quick tests, which `make test` runs.

A table stays whole and in its order: a test that loops over it names the few rows that
stay, and `python -m pytest -m slow` runs the others.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest


def slow_values(values: Iterable[Any], *, quick: Collection[Any] = ()) -> list[Any]:
    """The values of one parameter, slow but for the quick ones."""
    return [
        value if value in quick else pytest.param(value, marks=pytest.mark.slow)
        for value in values
    ]


def slow_rows(
    rows: Iterable[Sequence[Any]], *, quick: Collection[Sequence[Any]] = ()
) -> list[Any]:
    """The same of several parameters, whose values are a row."""
    return [
        row if row in quick else pytest.param(*row, marks=pytest.mark.slow)
        for row in rows
    ]

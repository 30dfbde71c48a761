"""Logic with True, False and ``None`` (open); compares lists and sets of items."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Protocol

from passk_jax.verifiers.forms import Expression, Form
from passk_jax.verifiers.trees import Node

# Longer lists are compared in order only.
_MOST_ITEMS = 40
NEAR = Fraction(1, 20)

Compare = Callable[[Form, Form], bool | None]


class Judge(Protocol):
    """A judge of expressions by value; it returns ``None`` if it cannot decide."""

    def same(self, gold: Expression, answer: Expression) -> bool | None:
        """Returns whether two expressions are equal."""

    def proportional(self, gold: Node, answer: Node) -> bool | None:
        """Returns whether one tree is a number times the other."""

    def near(self, first: Node, second: Node) -> bool | None:
        """Returns whether a number is within :data:`NEAR` of another."""

    def lies_between(self, low: Fraction, tree: Node, high: Fraction) -> bool | None:
        """Returns whether a number is between two bounds, or equals one of them."""


def all_of(results: Iterable[bool | None]) -> bool | None:
    """Returns False if any is False, else ``None`` if any is ``None``, else True."""
    open_one = False
    for result in results:
        if result is False:
            return False
        open_one |= result is None
    return None if open_one else True


def any_of(results: Iterable[bool | None]) -> bool | None:
    """Returns True if any is True, else ``None`` if any is ``None``, else False."""
    open_one = False
    for result in results:
        if result:
            return True
        open_one |= result is None
    return None if open_one else False


def match_in_order(
    golds: Sequence[Form], answers: Sequence[Form], compare: Compare
) -> bool | None:
    """Returns whether each answer equals the gold at its place."""
    if len(golds) != len(answers):
        return False
    return all_of(map(compare, golds, answers))


def match_in_any_order(
    golds: Sequence[Form], answers: Sequence[Form], compare: Compare
) -> bool | None:
    """Returns whether some order of the answers matches the golds."""
    if len(golds) != len(answers):
        return False
    if len(golds) > _MOST_ITEMS:
        return match_in_order(golds, answers, compare)
    if match_in_order(golds, answers, compare):
        return True
    table = _table(golds, answers, compare)
    if table is None:
        return False
    if _matched(table, certain=True):
        return True
    return None if _matched(table, certain=False) else False


def _matched(table: Sequence[Sequence[bool | None]], *, certain: bool) -> bool:
    """Returns whether rows and columns can be paired at cells that are True.

    Unless ``certain``, open cells count too.
    """
    partner: dict[int, int] = {}

    def find(row: int, seen: set[int]) -> bool:
        for column, cell in enumerate(table[row]):
            if cell is False or (cell is None and certain) or column in seen:
                continue
            seen.add(column)
            if column not in partner or find(partner[column], seen):
                partner[column] = row
                return True
        return False

    return all(find(row, set()) for row in range(len(table)))


def as_sets(
    golds: Sequence[Form], answers: Sequence[Form], compare: Compare
) -> bool | None:
    """Returns whether each item has an equal on the other side; repeats count once."""
    if not golds or not answers:
        return not golds and not answers
    if max(len(golds), len(answers)) > _MOST_ITEMS:
        return match_in_order(golds, answers, compare)
    table = _table(golds, answers, compare)
    if table is None:
        return False
    return all_of(any_of(line) for line in (*table, *zip(*table, strict=True)))


def _table(
    golds: Sequence[Form], answers: Sequence[Form], compare: Compare
) -> list[list[bool | None]] | None:
    """Compares every pair; ``None`` once a gold has no equal, since that takes long."""
    table: list[list[bool | None]] = []
    for gold in golds:
        line = [compare(gold, answer) for answer in answers]
        if any_of(line) is False:
            return None
        table.append(line)
    return table

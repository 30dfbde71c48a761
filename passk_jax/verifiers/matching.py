"""Three answers (yes, no, open), and items compared as lists and as sets."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Protocol

from passk_jax.verifiers.forms import Expression, Form
from passk_jax.verifiers.trees import Node

# More items are compared in their order alone.
_MOST_ITEMS = 40
NEAR = Fraction(1, 20)

Compare = Callable[[Form, Form], bool | None]


class Judge(Protocol):
    """Decides what takes the values of expressions; ``None``: it cannot."""

    def same(self, gold: Expression, answer: Expression) -> bool | None:
        """Whether two expressions are equal."""

    def proportional(self, gold: Node, answer: Node) -> bool | None:
        """Whether one tree is the other times a number."""

    def near(self, first: Node, second: Node) -> bool | None:
        """Whether a number may be called about another: within :data:`NEAR` of it."""


def all_of(results: Iterable[bool | None]) -> bool | None:
    """No if one is no, else open if one is open, else yes."""
    open_one = False
    for result in results:
        if result is False:
            return False
        open_one |= result is None
    return None if open_one else True


def any_of(results: Iterable[bool | None]) -> bool | None:
    """Yes if one is yes, else open if one is open, else no."""
    open_one = False
    for result in results:
        if result:
            return True
        open_one |= result is None
    return None if open_one else False


def match_in_order(
    golds: Sequence[Form], answers: Sequence[Form], compare: Compare
) -> bool | None:
    if len(golds) != len(answers):
        return False
    return all_of(map(compare, golds, answers))


def match_in_any_order(
    golds: Sequence[Form], answers: Sequence[Form], compare: Compare
) -> bool | None:
    """Whether the answers can be put so that each is equal to its gold."""
    if len(golds) != len(answers):
        return False
    if len(golds) > _MOST_ITEMS:
        return match_in_order(golds, answers, compare)
    if match_in_order(golds, answers, compare):
        return True
    table = [[compare(gold, answer) for answer in answers] for gold in golds]
    if _matched(table, certain=True):
        return True
    return None if _matched(table, certain=False) else False


def _matched(table: Sequence[Sequence[bool | None]], *, certain: bool) -> bool:
    """Whether rows and columns pair up where a cell is yes, or may be."""
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
    """Whether each has an equal among the others, repeats as one."""
    if not golds or not answers:
        return not golds and not answers
    if max(len(golds), len(answers)) > _MOST_ITEMS:
        return match_in_order(golds, answers, compare)
    table = [[compare(gold, answer) for answer in answers] for gold in golds]
    return all_of(any_of(line) for line in (*table, *zip(*table, strict=True)))

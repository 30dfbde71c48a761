"""Trees of expressions: numbers, constants, names and operations."""

import dataclasses
from collections.abc import Iterator
from fractions import Fraction


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A literal; ``places`` after its decimal point, ``None`` without a point."""

    value: Fraction
    places: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """``pi``, ``e``, ``i`` or ``infinity``."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A variable, perhaps with a subscript."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """An operation, ``+ * / ^ - !`` or the name of a function, and its arguments.

    Sums and products have two or more arguments, so that long ones are not deep.
    """

    operation: str
    arguments: tuple['Node', ...]


Node = Number | Constant | Name | Apply


def negative(node: Node) -> Node:
    """Negates a tree; the negative of a number is a number."""
    if isinstance(node, Number):
        return Number(-node.value, node.places)
    return Apply('-', (node,))


def nodes(tree: Node) -> Iterator[Node]:
    """Yields the tree and all its subtrees."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, Apply):
            pending += node.arguments


def names(tree: Node) -> frozenset[str]:
    """Returns the variables of a tree."""
    return frozenset(node.name for node in nodes(tree) if isinstance(node, Name))


def sort_arguments(tree: Node) -> Node:
    """Sorts the arguments of sums and products: ``b+a`` becomes ``a+b``."""
    if not isinstance(tree, Apply):
        return tree
    arguments = tuple(map(sort_arguments, tree.arguments))
    if tree.operation in '+*':
        arguments = tuple(sorted(arguments, key=repr))
    return Apply(tree.operation, arguments)


def rename(tree: Node, old: str, new: str) -> Node:
    """Gives a variable another name."""
    if isinstance(tree, Name):
        return Name(new) if tree.name == old else tree
    if not isinstance(tree, Apply):
        return tree
    return Apply(tree.operation, tuple(rename(x, old, new) for x in tree.arguments))

"""Arithmetic on forms: products, quotients, and degrees in radians."""

from fractions import Fraction

from passk_jax.verifiers.forms import Expression, Form, Unread
from passk_jax.verifiers.trees import Apply, Constant, Node, Number, nodes


def times(form: Form, factor: Fraction) -> Form:
    """Multiplies a value by a factor."""
    return combined('*', form, number(factor))


def convert_to_radians(form: Form) -> Form:
    """Converts a value in degrees to radians."""
    return combined('*', times(form, Fraction(1, 180)), Expression('', Constant('pi')))


def quotient(above: Form, below: Form) -> Form:
    """Divides a value by another."""
    return combined('/', above, below)


def combined(operation: str, first: Form, second: Form) -> Form:
    """Applies an operation to two values; unread unless both have trees."""
    if not isinstance(first, Expression) or not isinstance(second, Expression):
        return Unread('')
    if first.tree is None or second.tree is None:
        return Unread('')
    tree = Apply(operation, (first.tree, second.tree))
    return Expression(f'{operation}{first.source} {second.source}', tree)


def number(value: Fraction) -> Expression:
    """Returns a fraction as a form."""
    return Expression(str(value), Number(value))


def integer(value: int) -> Expression:
    """Returns a whole number as a form."""
    return number(Fraction(value))


def has_pi(tree: Node) -> bool:
    """Returns whether a tree contains pi."""
    return Constant('pi') in nodes(tree)
